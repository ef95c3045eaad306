//! Operations by io_uring: the kernel reads into pages and writes from them, without copies and without extra
//! threads.

use super::{Bell, EndedOperation, pages, perform};
use crate::block::Page;
use crate::geometry::BLOCK_BYTES;
use crate::member::{Member, outcome_of};
use crate::request::{Action, Outcome};
use crate::slab::Slab;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// Number of operations submitted in one system call.
const ENTRIES: u32 = 256;
/// Name of the operation that waits for the bell.
const BELL: u64 = u64::MAX;

/// A buffer in the kernel's representation (`struct iovec`).
#[repr(C)]
struct Buffer {
    base: *mut u8,
    len: usize,
}

/// An operation that the kernel executes. Its buffers must not move until it has completed.
struct InFlight {
    name: u64,
    member: Arc<dyn Member>,
    offset: u64,
    action: Action<Page>,
    /// Pages to read into.
    pages: Vec<Page>,
    /// Buffers passed to the kernel. The kernel may access them until the operation has completed.
    buffers: Vec<Buffer>,
}

/// An io_uring of one thread.
pub struct Ring {
    ring: IoUring,
    flights: Slab<InFlight>,
    listening: bool,
    /// True if there are operations that were queued but not submitted.
    pushed: bool,
    /// True if some operations may never complete.
    abandoned: bool,
}

impl Ring {
    /// Creates a ring, if the kernel supports all necessary operations.
    pub fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(ENTRIES)
            .or_else(|_| IoUring::new(ENTRIES))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let codes = [
            opcode::Readv::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::PollAdd::CODE,
        ];
        let whole = codes.iter().all(|&code| probe.is_supported(code));
        if !whole || !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring {
            ring,
            flights: Slab::new(),
            listening: false,
            pushed: false,
            abandoned: false,
        })
    }

    /// Queues an operation. It is submitted with the next [`Ring::start`] at the latest.
    pub fn submit(
        &mut self,
        name: u64,
        member: Arc<dyn Member>,
        offset: u64,
        action: Action<Page>,
    ) {
        let mut flight = InFlight {
            name,
            member,
            offset,
            pages: Vec::new(),
            buffers: Vec::new(),
            action,
        };
        flight.lay_out();
        let at = self.flights.insert(flight);
        let flight = self
            .flights
            .get_mut(at)
            .expect("the flight was just inserted");
        let entry = flight.entry().user_data(at as u64);
        self.push(entry);
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: the entry's pointers refer to data in `flights`, which stays until the completion was
            // collected.
            #[allow(unsafe_code)]
            let pushed = unsafe { self.ring.submission().push(&entry) };
            self.pushed = true;
            if pushed.is_ok() {
                return;
            }
            // The queue is full and must be submitted first.
            self.start()
                .expect("the kernel takes operations from a ring that it gave");
        }
    }

    /// Announces that some operations may never complete.
    pub fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Submits the queued operations.
    pub fn start(&mut self) -> io::Result<()> {
        if !self.pushed {
            return Ok(());
        }
        match self.ring.submit() {
            Ok(_) => {
                self.pushed = !self.ring.submission().is_empty();
                Ok(())
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Collects completed operations.
    pub fn take(&mut self, into: &mut Vec<EndedOperation>) {
        let mut bell = false;
        for entry in self.ring.completion() {
            if entry.user_data() == BELL {
                bell = true;
                continue;
            }
            let flight = self.flights.remove(entry.user_data() as usize);
            let flight = flight.expect("an operation ends once");
            into.push((flight.name, flight.end(entry.result())));
        }
        self.listening &= !bell;
    }

    /// Sleeps until an operation completes, the bell rings (since [`Bell::prepare`]), or the timeout ends.
    pub fn wait(&mut self, bell: &Bell, timeout: Option<Duration>) -> io::Result<()> {
        if !self.listening {
            let poll = opcode::PollAdd::new(Fd(bell.event().as_raw_fd()), POLL_IN);
            self.push(poll.build().user_data(BELL));
            self.listening = true;
        }
        let waited = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(time) => {
                let time = Timespec::new()
                    .sec(time.as_secs())
                    .nsec(time.subsec_nanos());
                let arguments = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        self.pushed = !self.ring.submission().is_empty();
        match waited {
            Ok(_) => Ok(()),
            Err(error)
                if is_passing(&error)
                    || error.raw_os_error() == Some(Errno::TIME.raw_os_error()) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The constant `POLLIN`.
const POLL_IN: u32 = 1;

/// Returns whether the call must be repeated.
fn is_passing(error: &io::Error) -> bool {
    [Errno::INTR, Errno::AGAIN, Errno::BUSY]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl InFlight {
    /// Fills the list of buffers.
    fn lay_out(&mut self) {
        let bases: Vec<*mut u8> = match &self.action {
            Action::Read { blocks, .. } | Action::Adopt { blocks, .. } => {
                self.pages = pages(*blocks);
                let pages = self.pages.iter_mut();
                pages.map(|page| page.bytes_mut().as_mut_ptr()).collect()
            }
            // The kernel only reads from these pages.
            Action::Write { data, .. } => data
                .iter()
                .map(|page| page.bytes().as_ptr().cast_mut())
                .collect(),
            Action::Flush | Action::Discard { .. } => Vec::new(),
        };
        let buffer = |base| Buffer {
            base,
            len: BLOCK_BYTES,
        };
        self.buffers = bases.into_iter().map(buffer).collect();
    }

    fn entry(&self) -> squeue::Entry {
        let file = self
            .member
            .descriptor()
            .expect("the driver checked that the member has a descriptor");
        let file = Fd(file.as_raw_fd());
        let at = |start: u64| self.offset + start * BLOCK_BYTES as u64;
        let (buffers, count) = (self.buffers.as_ptr().cast(), self.buffers.len() as u32);
        match &self.action {
            // Members with checksums have no descriptor, so every read here accepts the contents as they are.
            Action::Read { start, .. } | Action::Adopt { start, .. } => {
                opcode::Readv::new(file, buffers, count)
                    .offset(at(*start))
                    .build()
            }
            Action::Write { start, durable, .. } => {
                let flags = if *durable {
                    ReadWriteFlags::DSYNC.bits()
                } else {
                    0
                };
                let write = opcode::Writev::new(file, buffers, count).offset(at(*start));
                write.rw_flags(flags as i32).build()
            }
            Action::Discard { .. } => unreachable!("the driver runs discards without the ring"),
            Action::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        }
    }

    /// Converts the kernel's result.
    fn end(self, result: i32) -> Outcome<Page> {
        let reads = matches!(self.action, Action::Read { .. } | Action::Adopt { .. });
        let wanted = self.buffers.len() * BLOCK_BYTES;
        if result < 0 {
            return outcome_of(&io::Error::from_raw_os_error(-result), reads);
        }
        match (result as usize == wanted, reads) {
            (true, true) => Outcome::Read(self.pages),
            (true, false) => Outcome::Done,
            // A short read or write is legal. It is repeated by the synchronous path, which continues until the
            // end or an error.
            (false, _) => perform(&*self.member, self.offset, self.action),
        }
    }
}

impl Drop for Ring {
    /// Waits for the kernel, which may still write into the pages of this process.
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.flights.len() > 0 {
            if self.abandoned
                || self
                    .ring
                    .submit_and_wait(1)
                    .is_err_and(|error| !is_passing(&error))
            {
                // The end of the kernel's access is unknown, so the pages are leaked.
                std::mem::forget(std::mem::replace(&mut self.flights, Slab::new()));
                return;
            }
            self.take(&mut ended);
        }
    }
}
