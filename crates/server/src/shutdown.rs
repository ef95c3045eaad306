//! Why and when a server stops, and how its tasks learn of it.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// What a task asks whether it should end.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

/// A stop, and the switch that brings it about.
pub fn stop() -> (watch::Sender<bool>, Stop) {
    let (switch, stop) = watch::channel(false);
    (switch, Stop(stop))
}

impl Stop {
    /// Waits until the server is to stop. A server that was dropped stops as well.
    pub async fn wanted(&mut self) {
        let _ = self.0.wait_for(|wanted| *wanted).await;
    }
}

/// The signals that end a server.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over from now on.
    ///
    /// # Errors
    /// If the system does not let us.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one; answers its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
