//! Reasons of a server's stop, and its notification to the tasks.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Receiver that notifies a task of the stop.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Stop of a server, with the switch that triggers it.
pub fn stop() -> (watch::Sender<bool>, Stop) {
    let (switch, stop) = watch::channel(false);
    (switch, Stop(stop))
}

impl Stop {
    /// Waits for the stop. A dropped server has stopped as well.
    pub async fn wanted(&mut self) {
        let _ = self.0.wait_for(|wanted| *wanted).await;
    }
}

/// Signals that stop a server.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to handle the signals.
    ///
    /// # Errors
    /// If the system rejects the handlers.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal. Returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
