//! Devices that an array is made of: a file or a block device, or memory.
//!
//! A member does one operation at a time for each caller and returns when it is done; [`crate::driver`] has many of them
//! under way at once.

mod device;
mod ram;

pub use device::{Device, DeviceError};
pub use ram::Ram;

use crate::block::Page;
use crate::request::Outcome;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// A device. Offsets are in bytes and multiples of [`crate::BLOCK_BYTES`].
pub trait Member: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> String;

    /// How large it is.
    fn bytes(&self) -> u64;

    /// Fills pages with what is there.
    ///
    /// # Errors
    /// Where nothing can be read, or the device ends.
    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()>;

    /// Writes pages; to stable storage if `durable`.
    ///
    /// # Errors
    /// Then it is not known what has been written.
    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()>;

    /// Brings to stable storage what was written before.
    ///
    /// # Errors
    /// Then it is not known what is there.
    fn flush(&self) -> io::Result<()>;

    /// The open file, where the kernel can work on it by itself.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Operations are over at once, so that a thread for them would be a waste.
    fn is_instant(&self) -> bool {
        false
    }
}

/// What a failed operation means: a read that fails by itself leaves the member in use, anything else does not.
pub(crate) fn outcome_of(error: &io::Error, reads: bool) -> Outcome<Page> {
    let medium = [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::REMOTEIO];
    let code = error.raw_os_error();
    let bad_place = medium
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
        || error.kind() == io::ErrorKind::UnexpectedEof;
    if reads && bad_place {
        Outcome::Unreadable
    } else {
        Outcome::Gone
    }
}
