//! Interface of an export: its shape, its commands, and their completion.

use crate::link::Ticket;
use std::borrow::Cow;
use thiserror::Error;

/// Size and abilities of an export, constant while it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportShape {
    /// Size of the export in bytes, a multiple of `block`.
    pub bytes: u64,
    /// Bytes of a block: a power of two up to 64 KiB. Offsets and lengths of commands are multiples of it. Clients
    /// may use any byte range; the server does a read-modify-write of partly covered blocks.
    pub block: u32,
    /// Preferred bytes per read or write of a client: a power of two from 512 bytes to 32 MiB.
    pub preferred: u32,
    /// True if commands that change data are rejected.
    pub read_only: bool,
    /// True if [`Command::Trim`] frees space; if not, the server ignores trims.
    pub trims: bool,
    /// True if [`Command::Zero`] is supported and faster than writing; if not, the server writes zeroes.
    pub zeroes: bool,
}

/// A command for an export. Its range is not empty, lies within the export, and consists of whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads bytes.
    Read {
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Writes bytes.
    Write {
        /// Offset in bytes.
        offset: u64,
        /// Bytes to write. The export copies them before `submit` returns.
        data: &'a [u8],
        /// If true, answers only when the bytes survive a power cut.
        durable: bool,
    },
    /// Answers when all commands that were answered before, on any connection, survive a power cut.
    Flush,
    /// Discards bytes. Later reads return the old bytes or zeroes.
    Trim {
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// If true, answers only when the effect survives a power cut.
        durable: bool,
    },
    /// Writes zeroes.
    Zero {
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// If true, answers only when the zeroes survive a power cut.
        durable: bool,
        /// True if the export may give up the space, so that a later write may find none.
        may_trim: bool,
    },
}

/// A volume that the server can serve.
pub trait Export: Send + Sync {
    /// Returns the size and the abilities of the export.
    fn shape(&self) -> ExportShape;

    /// Starts a command. The completion may be called on any thread, now or later, before or after those of earlier
    /// commands.
    ///
    /// Must not wait for other commands, because it runs on the thread of a connection, which has further commands to
    /// submit. A completion may submit the next command at once on the same thread: hold no lock while you call it.
    fn submit(&self, command: Command<'_>, completion: Completion);
}

/// Error numbers of the protocol, those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: the export is read-only.
    Permission = 1,
    /// The export failed.
    Io = 5,
    /// The request is invalid.
    Invalid = 22,
    /// A write is beyond the end, or there is no space.
    NoSpace = 28,
    /// The export does not support the request.
    Unsupported = 95,
}

/// Error of a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Fault {
    /// Error number, for programs.
    pub errno: Errno,
    /// Text for people: what failed, where, and the remedy. Only clients with structured replies get it.
    pub text: Cow<'static, str>,
}

impl Fault {
    /// Creates a fault from a number and a text.
    pub fn new(errno: Errno, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault {
            errno,
            text: text.into(),
        }
    }

    /// Creates a fault of the export ([`Errno::Io`]).
    pub fn io(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(Errno::Io, text)
    }
}

/// Returns the fault of an export that answered with a wrong number of bytes.
pub(crate) fn wrong_length() -> Fault {
    Fault::io("the export gave more or fewer bytes than it was asked for")
}

/// Bytes read, in order and in pieces of any size; empty for commands that do not read.
pub(crate) type Pieces<'p, 'a> = &'p mut (dyn Iterator<Item = &'a [u8]> + 'p);

/// Step that receives the answer of a command.
pub(crate) type ResultHandler = Box<dyn for<'p, 'a> FnOnce(Result<Pieces<'p, 'a>, Fault>) + Send>;

enum Receiver {
    /// The client of the connection.
    Client(Ticket),
    /// A step within the server.
    Step(ResultHandler),
}

/// Right to answer a command once. A completion that is dropped answers with a failure, so no client waits for ever.
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

    /// Completes a command that reads no bytes.
    pub fn done(self) {
        self.pieces(std::iter::empty());
    }

    /// Completes a read with exactly the requested bytes, in one piece.
    pub fn data(self, bytes: &[u8]) {
        self.pieces(std::iter::once(bytes));
    }

    /// Completes a read with exactly the requested bytes, in pieces of any size.
    pub fn pieces<'a>(mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        self.answer(Ok(&mut pieces.into_iter()));
    }

    /// Completes a command with a failure.
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
