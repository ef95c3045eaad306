//! What is served: the trait of an export, its commands, and how they are answered.

use crate::link::Ticket;
use std::borrow::Cow;
use thiserror::Error;

/// What an export is like. It stays the same while it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its size in bytes, a multiple of `block`.
    pub bytes: u64,
    /// Offsets and lengths of commands are multiples of so many bytes: a power of two up to 64 KiB. Clients may ask for
    /// any bytes; the server reads, changes and writes the blocks that they cover in part.
    pub block: u32,
    /// Bytes that clients do best to read and write at once: a power of two from 512 bytes to 32 MiB.
    pub preferred: u32,
    /// Whether commands that change something are refused.
    pub read_only: bool,
    /// Whether it lets go of room by [`Command::Trim`]; if not, trimming does nothing.
    pub trims: bool,
    /// Whether it has [`Command::Zero`], and does it faster than writing; if not, zeroes are written.
    pub zeroes: bool,
}

/// What an export is to do. The range lies within it, is not empty, and has whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Give me bytes.
    Read {
        /// Where.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Keep bytes.
    Write {
        /// Where.
        offset: u64,
        /// Which. The export copies them before it returns.
        data: &'a [u8],
        /// Answer when they survive a power cut.
        durable: bool,
    },
    /// Answer when all that was answered before, on any connection, survives a power cut.
    Flush,
    /// Forget bytes. What is read there afterwards is anything that was there, or zeroes.
    Trim {
        /// Where.
        offset: u64,
        /// How many.
        length: u64,
        /// As in `Write`.
        durable: bool,
    },
    /// Keep zeroes.
    Zero {
        /// Where.
        offset: u64,
        /// How many.
        length: u64,
        /// As in `Write`.
        durable: bool,
        /// Whether room may be given up, so that a later write could find none.
        may_trim: bool,
    },
}

/// Something that is served.
pub trait Export: Send + Sync {
    /// What it is like.
    fn shape(&self) -> Shape;

    /// Starts a command. It is answered on any thread, now or later, before or after commands that came earlier.
    ///
    /// Must not wait for other commands: the thread is that of a connection, which has others to hand over. And an
    /// answer may lead to the next command at once, on the same thread: hold no lock while answering.
    fn submit(&self, command: Command<'_>, completion: Completion);
}

/// Numbers of errors on the wire, those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: the export is read-only.
    Permission = 1,
    /// The export could not do it.
    Io = 5,
    /// The request makes no sense.
    Invalid = 22,
    /// A write beyond the end, or no room.
    NoSpace = 28,
    /// This export cannot do that.
    Unsupported = 95,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Fault {
    /// For programs.
    pub errno: Errno,
    /// For people: what failed where, and what helps. Clients with structured replies are told.
    pub text: Cow<'static, str>,
}

impl Fault {
    /// With a number and a text.
    pub fn new(errno: Errno, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault {
            errno,
            text: text.into(),
        }
    }

    /// The export could not do it.
    pub fn io(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(Errno::Io, text)
    }
}

/// An export that does not keep to its trait.
pub(crate) fn wrong_length() -> Fault {
    Fault::io("the export gave more or fewer bytes than it was asked for")
}

/// Bytes read, in pieces of any size and in order; nothing for other commands.
pub(crate) type Pieces<'p, 'a> = &'p mut (dyn Iterator<Item = &'a [u8]> + 'p);

/// What a command's answer becomes.
pub(crate) type Then = Box<dyn for<'p, 'a> FnOnce(Result<Pieces<'p, 'a>, Fault>) + Send>;

enum Receiver {
    /// The client.
    Client(Ticket),
    /// A step of ours.
    Step(Then),
}

/// The right to answer a command, once. One that is dropped answers that the command failed, so that no client waits
/// for ever.
pub struct Completion(Option<Receiver>);

impl Completion {
    pub(crate) fn client(ticket: Ticket) -> Completion {
        Completion(Some(Receiver::Client(ticket)))
    }

    pub(crate) fn then(
        step: impl for<'p, 'a> FnOnce(Result<Pieces<'p, 'a>, Fault>) + Send + 'static,
    ) -> Completion {
        Completion(Some(Receiver::Step(Box::new(step))))
    }

    /// A command that reads nothing is done.
    pub fn done(self) {
        self.pieces(std::iter::empty());
    }

    /// Bytes were read: as many as were asked for, in one piece.
    pub fn data(self, bytes: &[u8]) {
        self.pieces(std::iter::once(bytes));
    }

    /// Bytes were read: as many as were asked for, in pieces of any size.
    pub fn pieces<'a>(mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        self.answer(Ok(&mut pieces.into_iter()));
    }

    /// The command failed.
    pub fn fail(mut self, fault: Fault) {
        self.answer(Err(fault));
    }

    fn answer(&mut self, result: Result<Pieces<'_, '_>, Fault>) {
        match self.0.take() {
            Some(Receiver::Client(ticket)) => ticket.answer(result),
            Some(Receiver::Step(step)) => step(result),
            None => {}
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.answer(Err(Fault::io("the export gave no answer")));
    }
}
