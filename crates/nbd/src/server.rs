//! NBD server: listeners, connections and shutdown.

use crate::connection::{self, Closed};
use crate::end::End;
use crate::listen::{Address, ListenError, Listener};
use crate::offer::{Limits, Offer};
use crate::session::Session;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{debug, info, warn};

/// Pause after a failed accept, for example when the system has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// A running server, which stops when it is dropped.
pub struct Server {
    addresses: Vec<Address>,
    stop: Arc<OwnedFd>,
    acceptor: Option<JoinHandle<()>>,
}

struct Acceptor {
    listeners: Vec<Listener>,
    offers: Arc<[Arc<Offer>]>,
    limits: Limits,
    stop: Arc<OwnedFd>,
    connections: Vec<(Arc<OwnedFd>, JoinHandle<()>)>,
}

impl Server {
    /// Listens on all addresses and serves the exports. A client that gives no name gets the first export.
    ///
    /// # Errors
    /// The address on which the server cannot listen, and the reason.
    pub fn start(
        offers: Vec<Arc<Offer>>,
        addresses: &[Address],
        limits: Limits,
    ) -> Result<Server, ListenError> {
        let listeners: Vec<Listener> = addresses
            .iter()
            .map(Listener::new)
            .collect::<Result<_, _>>()?;
        let addresses: Vec<Address> = listeners
            .iter()
            .map(|listener| listener.address.clone())
            .collect();
        let failed = |error| ListenError::System {
            address: addresses
                .first()
                .cloned()
                .unwrap_or(Address::Unix("".into())),
            error,
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = Arc::new(eventfd(0, flags).map_err(|error| failed(error.into()))?);
        let acceptor = Acceptor {
            listeners,
            offers: offers.into(),
            limits,
            stop: Arc::clone(&stop),
            connections: Vec::new(),
        };
        let acceptor = thread::Builder::new()
            .name("seiner-nbd".into())
            .spawn(move || acceptor.run())
            .map_err(failed)?;
        Ok(Server {
            addresses,
            stop,
            acceptor: Some(acceptor),
        })
    }

    /// Returns the addresses, with the actual ports.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Stops the server: takes no more requests, answers those received, and closes all connections.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The write fails only if the counter is full, and then the stop is pending already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(acceptor) = self.acceptor.take() {
            // A thread that panicked has printed its message.
            let _ = acceptor.join();
        }
    }
}

impl Acceptor {
    fn run(mut self) {
        loop {
            let mut polled: Vec<PollFd<'_>> = self
                .listeners
                .iter()
                .map(|listener| PollFd::new(&listener.socket, PollFlags::IN))
                .chain([PollFd::new(&*self.stop, PollFlags::IN)])
                .collect();
            if let Err(error) = poll(&mut polled, None) {
                debug!(%error, "waiting for clients");
                continue;
            }
            let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            if ready.last() == Some(&true) {
                break;
            }
            for (place, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
                if let Err(error) = self.accept(place) {
                    warn!(%error, "a client could not be accepted");
                    crate::time::sleep(PAUSE);
                }
            }
        }
        self.end();
    }

    fn accept(&mut self, place: usize) -> io::Result<()> {
        let listener = &self.listeners[place];
        let socket = match accept_with(&listener.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Arc::new(socket),
            Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.connections.retain(|(_, thread)| !thread.is_finished());
        if self.connections.len() >= self.limits.connections {
            warn!(
                connections = self.limits.connections,
                "a client was disconnected: the maximum number of connections is open"
            );
            return Ok(());
        }
        listener.prepare(&socket)?;
        let session = Session::new(Arc::clone(&self.offers), self.limits)?;
        let (of_thread, handshake) = (Arc::clone(&socket), self.limits.handshake);
        let thread = thread::Builder::new()
            .name("seiner-nbd-conn".into())
            .spawn(move || {
                let closed = connection::serve(&of_thread, session, handshake);
                // The acceptor keeps the socket open; the shutdown notifies the client now.
                let _ = shutdown(&*of_thread, Shutdown::Both);
                match closed {
                    Closed::Said(End::Disconnected | End::Aborted) | Closed::HungUp => {
                        debug!(%closed, "a connection ended");
                    }
                    closed => info!(%closed, "a connection was ended"),
                }
            })?;
        self.connections.push((socket, thread));
        Ok(())
    }

    /// Closes all connections. After 5 s, clients that do not read their answers are cut off.
    fn end(mut self) {
        self.listeners.clear();
        for (socket, _) in &self.connections {
            // Reads end as if the client had disconnected; received requests are still answered.
            let _ = shutdown(&**socket, Shutdown::Read);
        }
        let patience = crate::time::now() + Duration::from_secs(5);
        for (socket, thread) in self.connections {
            while !thread.is_finished() && crate::time::now() < patience {
                crate::time::sleep(Duration::from_millis(5));
            }
            let _ = shutdown(&*socket, Shutdown::Both);
            // A thread whose export never answers is not joined, because that would block the shutdown for ever.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}
