//! Return path to a client: collects answers from any thread until the connection's thread writes them.

use crate::export::{Fault, Pieces, wrong_length};
use crate::protocol::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest error text in bytes that is sent.
const LONGEST_TEXT: usize = 1024;

/// Answers waiting to be written, and the count of open requests.
pub(crate) struct Link {
    state: Mutex<LinkState>,
    /// Eventfd that becomes readable when the connection's thread sleeps and there is something to write.
    bell: OwnedFd,
}

#[derive(Default)]
struct LinkState {
    out: Vec<u8>,
    requests: usize,
    /// Bytes of unanswered requests.
    reserved: usize,
    asleep: bool,
}

/// Load of a connection: unanswered requests and unwritten answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outstanding {
    /// Number of unanswered requests.
    pub requests: usize,
    /// Bytes that these requests write or read, plus the bytes of unwritten answers.
    pub bytes: usize,
}

impl Link {
    pub fn new() -> std::io::Result<Arc<Link>> {
        Ok(Arc::new(Link {
            state: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        }))
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes that answer no request, such as those of the handshake.
    pub fn say(&self, add: impl FnOnce(&mut Vec<u8>)) {
        add(&mut self.state().out);
    }

    pub fn outstanding(&self) -> Outstanding {
        self.state().outstanding()
    }

    /// Takes all bytes to write and leaves the empty `buffer` in their place.
    pub fn take(&self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.state().out, buffer);
    }

    /// Announces that the connection's thread will wait for the bell. Returns `None` if there is something to write
    /// already.
    ///
    /// The first answer after this call rings the bell. The thread must use the returned load and not read it again: an
    /// answer that arrives in between would look as if it were written and nothing were outstanding.
    pub fn fall_asleep(&self) -> Option<Outstanding> {
        let mut state = self.state();
        state.asleep = state.out.is_empty();
        state.asleep.then(|| state.outstanding())
    }

    /// Notes that the connection's thread is awake again.
    pub fn wake(&self) {
        self.state().asleep = false;
    }

    /// Returns whether the next answer rings the bell.
    #[cfg(test)]
    pub fn is_asleep(&self) -> bool {
        self.state().asleep
    }

    /// Wakes the connection's thread.
    pub fn ring(&self) {
        // The write fails only if the counter is full, and then the bell is readable already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Resets the bell.
    pub fn reset_bell(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl LinkState {
    fn outstanding(&self) -> Outstanding {
        Outstanding {
            requests: self.requests,
            bytes: self.reserved + self.out.len(),
        }
    }
}

/// Slot for the answer of one request.
pub(crate) struct Ticket {
    link: Arc<Link>,
    cookie: [u8; 8],
    structured: bool,
    /// Offset and length in bytes of a request that reads.
    read: Option<(u64, u32)>,
    /// Bytes that the request writes.
    written: usize,
}

impl Ticket {
    /// Creates the ticket of a request and counts the request on the link.
    pub fn new(
        link: &Arc<Link>,
        cookie: [u8; 8],
        structured: bool,
        read: Option<(u64, u32)>,
        written: usize,
    ) -> Ticket {
        let ticket = Ticket {
            link: Arc::clone(link),
            cookie,
            structured,
            read,
            written,
        };
        let mut state = link.state();
        state.requests += 1;
        state.reserved += ticket.length() + written;
        ticket
    }

    /// Returns the bytes that the request reads.
    fn length(&self) -> usize {
        self.read.map_or(0, |(_, length)| length as usize)
    }

    /// Appends the answer to the connection's output, and rings the bell if the thread sleeps.
    pub fn answer(self, result: Result<Pieces<'_, '_>, Fault>) {
        let mut state = self.link.state();
        state.requests -= 1;
        state.reserved -= self.length() + self.written;
        let begin = state.out.len();
        let written = result.and_then(|pieces| self.success(&mut state.out, pieces));
        if let Err(fault) = written {
            state.out.truncate(begin);
            self.failure(&mut state.out, &fault);
        }
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.link.ring();
        }
    }

    fn success(&self, out: &mut Vec<u8>, pieces: Pieces<'_, '_>) -> Result<(), Fault> {
        out.reserve(self.length() + 28);
        match self.read {
            // Structured replies are required for reads only.
            Some((offset, length)) if self.structured => {
                self.chunk(out, chunk::OFFSET_DATA, length + 8);
                out.extend_from_slice(&offset.to_be_bytes());
            }
            _ => self.simple(out, 0),
        }
        let begin = out.len();
        for piece in pieces {
            out.extend_from_slice(piece);
        }
        match out.len() - begin == self.length() {
            true => Ok(()),
            false => Err(wrong_length()),
        }
    }

    fn failure(&self, out: &mut Vec<u8>, fault: &Fault) {
        if !self.structured {
            return self.simple(out, fault.errno as u32);
        }
        let text = &fault.text[..fault.text.floor_char_boundary(LONGEST_TEXT)];
        self.chunk(out, chunk::ERROR, 6 + text.len() as u32);
        out.extend_from_slice(&(fault.errno as u32).to_be_bytes());
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    fn simple(&self, out: &mut Vec<u8>, errno: u32) {
        out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&errno.to_be_bytes());
        out.extend_from_slice(&self.cookie);
    }

    fn chunk(&self, out: &mut Vec<u8>, kind: u16, length: u32) {
        out.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&chunk::DONE.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&self.cookie);
        out.extend_from_slice(&length.to_be_bytes());
    }
}
