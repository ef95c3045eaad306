//! Thread that starts all nodes.
//!
//! The kernel ends a node when the thread that started the node ends (see the module `local`). A test ends the thread
//! of each of its functions, so nodes need a thread that lives as long as the cluster.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// Command to start, and the channel for its process.
type Request = (Command, Sender<io::Result<Child>>);

/// Handle of the thread. The thread ends when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Parent {
    requests: Sender<Request>,
}

impl Parent {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Parent> {
        let (requests, received) = channel::<Request>();
        let run = move || {
            while let Ok((mut command, answer)) = received.recv() {
                // A caller that is gone needs no answer.
                let _ = answer.send(command.spawn());
            }
        };
        Builder::new()
            .name("cassandra-nodes".to_string())
            .spawn(run)?;
        Ok(Parent { requests })
    }

    /// Starts a process on the thread.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts nodes is gone");
        let (answer, process) = channel();
        self.requests.send((command, answer)).map_err(|_| gone())?;
        process.recv().map_err(|_| gone())?
    }
}
