//! Thread of a connection: reads all bytes that have arrived, passes them to the session, and writes all answers at
//! once.

use crate::end::End;
use crate::link::{Link, Outstanding};
use crate::session::Session;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Capacity of the input buffer in bytes, unless a request needs more.
const INPUT_BYTES: usize = 256 << 10;
/// Largest capacity in bytes that an empty buffer keeps.
const KEPT_BYTES: usize = 4 << 20;

/// Reason why a connection ended.
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
    /// Bytes received; the session has consumed them up to `used`.
    input: Vec<u8>,
    used: usize,
    /// Bytes to write; the socket has accepted them up to `sent`.
    output: Vec<u8>,
    sent: usize,
}

/// Serves a client until the connection ends. All submitted requests are answered first, unless the client
/// disconnected.
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
        let started = crate::time::now();
        let mut closed = None;
        loop {
            // No input is taken from a client that does not read its answers.
            if closed.is_none() && self.is_sent() {
                closed = self.digest().err();
            }
            let full = self.session.is_full();
            self.write()?;
            let mut unanswered = None;
            if self.is_sent() {
                if full && self.session.has_capacity() && closed.is_none() {
                    continue;
                }
                unanswered = self.link.fall_asleep();
                let Some(Outstanding { requests, .. }) = unanswered else {
                    continue;
                };
                if requests == 0
                    && let Some(closed) = closed
                {
                    return Ok(closed);
                }
            }
            let wait = match self.session.chosen() {
                true => None,
                false => Some(handshake.saturating_sub(started.elapsed())),
            };
            let listened = unanswered.filter(|&unanswered| {
                closed.is_none() && self.session.has_capacity_beside(unanswered)
            });
            let arrived = self.wait(listened, wait)?;
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

    /// Passes the received bytes to the session.
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

    /// Writes as many bytes as the socket accepts.
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

    /// Waits for input, for space in the socket, or for the bell; returns whether input arrived.
    ///
    /// `listened` is what was outstanding when the link fell asleep, or `None` if no input is wanted now. `wait`
    /// limits the time.
    fn wait(&self, listened: Option<Outstanding>, wait: Option<Duration>) -> Result<bool, Closed> {
        // No request is open, so no answer can ring the bell, and the blocking read can do the waiting.
        if wait.is_none() && listened.is_some_and(|unanswered| unanswered.requests == 0) {
            return Ok(true);
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, listened.is_some());
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
            self.link.reset_bell();
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

    /// Reads the bytes that are available; blocks if there are none.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::export::{Command, Completion, Export, ExportShape};
    use crate::link::Ticket;
    use crate::memory::Memory;
    use crate::offer::{Limits, Offer};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    /// An export that passes the completion of each command to another thread.
    struct Late(Mutex<Sender<Completion>>);

    impl Export for Late {
        fn shape(&self) -> ExportShape {
            Memory::new(4096, 512).shape()
        }

        fn submit(&self, _: Command<'_>, completion: Completion) {
            self.0.lock().unwrap().send(completion).unwrap();
        }
    }

    fn late() -> (Session, Receiver<Completion>) {
        let (left, found) = channel();
        let offer = Offer::new("late", "", Arc::new(Late(Mutex::new(left))));
        let session = Session::new([offer].into(), Limits::default()).unwrap();
        (session, found)
    }

    /// Returns a client that has chosen the export, and two threads. One of them answers each command at the moment
    /// at which the connection falls asleep.
    fn client() -> (UnixStream, [thread::JoinHandle<()>; 2]) {
        let (mut client, server) = UnixStream::pair().unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (session, left) = late();
        let link = Arc::clone(session.link());
        let answers = thread::spawn(move || {
            for completion in left {
                while !link.is_asleep() {
                    thread::yield_now();
                }
                completion.done();
            }
        });
        let serves = thread::spawn(move || {
            serve(&server.into(), session, Duration::from_secs(20));
        });
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
        client.write_all(&hello).unwrap();
        client
            .read_exact(&mut [0; 18 + 20 + 12 + 20 + 14 + 20])
            .unwrap();
        (client, [answers, serves])
    }

    fn request(kind: u16) -> Vec<u8> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(b"a cookie");
        bytes.extend([0; 12]);
        bytes
    }

    #[test]
    fn an_answer_after_falling_asleep_ends_the_wait() {
        let (_client, server) = UnixStream::pair().unwrap();
        let (session, _left) = late();
        session.link().take(&mut Vec::new());
        let socket = server.into();
        let connection = Connection {
            socket: &socket,
            link: Arc::clone(session.link()),
            session,
            input: Vec::new(),
            used: 0,
            output: Vec::new(),
            sent: 0,
        };
        let ticket = Ticket::new(&connection.link, [1; 8], false, None, 0);
        let unanswered = connection.link.fall_asleep();
        assert_eq!(unanswered.unwrap().requests, 1);
        ticket.answer(Ok(&mut std::iter::empty()));
        let arrived = connection.wait(unanswered, None).unwrap();
        assert!(
            !arrived,
            "an answer that can be written wakes the connection"
        );
    }

    #[test]
    fn answers_that_come_while_falling_asleep_are_written() {
        let (mut client, threads) = client();
        for round in 0..5000 {
            client.write_all(&request(3)).unwrap();
            let answered = client.read_exact(&mut [0; 16]);
            assert!(answered.is_ok(), "round {round}: {answered:?}");
        }
        drop(client);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn the_last_answer_is_written_before_the_end() {
        for round in 0..200 {
            let (mut client, threads) = client();
            client
                .write_all(&[request(3), request(2)].concat())
                .unwrap();
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).unwrap();
            assert_eq!(answers.len(), 16, "round {round}");
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    }
}
