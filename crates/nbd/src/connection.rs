//! A connection's thread: takes in all that has arrived, hands it to the session, writes all answers at once.

use crate::link::Link;
use crate::session::{End, Session};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Room for what arrives, unless a request needs more.
const INPUT_BYTES: usize = 256 << 10;
/// Rooms larger than so many bytes are given back when they are empty.
const KEPT_BYTES: usize = 4 << 20;

/// How a connection ended.
#[derive(Debug, Error)]
pub(crate) enum Closed {
    #[error(transparent)]
    Said(#[from] End),
    #[error("the client went away")]
    HungUp,
    #[error("the client chose no export in {0:?}")]
    Slow(Duration),
    #[error("{0}")]
    Socket(#[from] Errno),
}

struct Connection<'a> {
    socket: &'a OwnedFd,
    session: Session,
    link: Arc<Link>,
    /// What arrived; the session has used it up to `used`.
    input: Vec<u8>,
    used: usize,
    /// What is to be written; the socket has it up to `sent`.
    output: Vec<u8>,
    sent: usize,
}

/// Serves a client until it ends. All that was submitted is answered before, unless the client went away.
pub(crate) fn serve(socket: &OwnedFd, session: Session, handshake: Duration) -> Closed {
    let connection = Connection {
        socket,
        link: Arc::clone(session.link()),
        session,
        input: Vec::with_capacity(INPUT_BYTES),
        used: 0,
        output: Vec::new(),
        sent: 0,
    };
    match connection.run(handshake) {
        Ok(closed) | Err(closed) => closed,
    }
}

impl Connection<'_> {
    fn run(mut self, handshake: Duration) -> Result<Closed, Closed> {
        let started = Instant::now();
        let mut closed = None;
        loop {
            // A client that does not take its answers is not listened to.
            if closed.is_none() && self.is_sent() {
                closed = self.digest().err();
            }
            let full = self.session.is_full();
            self.write()?;
            if self.is_sent() {
                if full && self.session.has_room() && closed.is_none() {
                    continue;
                }
                if !self.link.fall_asleep() {
                    continue;
                }
                if self.link.outstanding().requests == 0
                    && let Some(closed) = closed
                {
                    return Ok(closed);
                }
            }
            let wait = match self.session.chosen() {
                true => None,
                false => Some(handshake.saturating_sub(started.elapsed())),
            };
            let listen = closed.is_none() && self.is_sent() && self.session.has_room();
            let arrived = self.wait(listen, wait)?;
            self.link.wake();
            if arrived && let Err(end) = self.read() {
                closed = Some(end);
            }
            if wait.is_some_and(|wait| wait.is_zero()) && !self.session.chosen() {
                return Err(Closed::Slow(handshake));
            }
        }
    }

    fn is_sent(&self) -> bool {
        self.sent == self.output.len()
    }

    /// Has the session use what arrived.
    fn digest(&mut self) -> Result<(), Closed> {
        self.used += self.session.receive(&self.input[self.used..])?;
        if self.used == self.input.len() {
            self.input.clear();
            self.used = 0;
            if self.input.capacity() > KEPT_BYTES {
                self.input = Vec::with_capacity(INPUT_BYTES);
            }
        }
        Ok(())
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> Result<(), Closed> {
        if self.is_sent() {
            self.output.clear();
            if self.output.capacity() > KEPT_BYTES {
                self.output = Vec::new();
            }
            self.sent = 0;
            self.link.take(&mut self.output);
        }
        if self.is_sent() {
            return Ok(());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(self.socket, &self.output[self.sent..], flags) {
            Ok(sent) => self.sent += sent,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Closed::HungUp),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Waits for whatever there is to wait for; tells whether something arrived.
    fn wait(&self, listen: bool, wait: Option<Duration>) -> Result<bool, Closed> {
        // Nobody will ring, so that reading may as well wait itself.
        if listen && wait.is_none() && self.link.outstanding().requests == 0 {
            return Ok(true);
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, listen);
        flags.set(PollFlags::OUT, !self.is_sent());
        let (socket, bell) = (self.socket.as_fd(), self.link.bell());
        let mut polled = [
            PollFd::from_borrowed_fd(socket, flags),
            PollFd::from_borrowed_fd(bell, PollFlags::IN),
        ];
        let wait = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        });
        match poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !polled[1].revents().is_empty() {
            self.link.hush();
        }
        let seen = polled[0].revents();
        if seen.contains(PollFlags::IN) {
            return Ok(true);
        }
        match seen.intersects(PollFlags::HUP | PollFlags::ERR) {
            true => Err(Closed::HungUp),
            false => Ok(false),
        }
    }

    /// Takes in what there is; waits if there is nothing.
    fn read(&mut self) -> Result<(), Closed> {
        let wanted = self.session.wants(&self.input[self.used..]);
        if self.input.capacity() - self.used < wanted {
            self.input.drain(..self.used);
            self.used = 0;
            self.input
                .reserve(wanted.saturating_sub(self.input.len()).max(1));
        }
        loop {
            match recv(
                self.socket,
                spare_capacity(&mut self.input),
                RecvFlags::empty(),
            ) {
                Ok((_, 0)) => return Err(Closed::HungUp),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(Closed::HungUp),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
