//! Devices that an array is made of: a file or a block device, or memory.
//!
//! A member does one operation at a time for each caller and returns when it is done; [`crate::driver`] has many of them
//! under way at once.

mod checked;
mod device;
mod ram;

pub use checked::{Checked, Corrupt};
pub use device::{Device, DeviceError};
pub use ram::Ram;

use crate::block::{Block, Page};
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

    /// Fills pages with what is there, and takes it for true, whatever checksums say.
    ///
    /// # Errors
    /// As [`Member::read`].
    fn adopt(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.read(offset, pages)
    }

    /// Writes pages; to stable storage if `durable`.
    ///
    /// # Errors
    /// Then it is not known what has been written.
    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()>;

    /// Lets so many bytes hold zeroes, and gives up their room where it can.
    ///
    /// # Errors
    /// Then it is not known what is there.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        write_zeroes(self, offset, bytes)
    }

    /// [`Member::discard`] is faster than writing zeroes, as far as is known.
    fn discards(&self) -> bool {
        false
    }

    /// What was discarded has its room still, so that it can be written again whatever others do.
    fn keeps_room(&self) -> bool {
        true
    }

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

/// Bytes of zeroes that are written at once.
const ZEROED_AT_ONCE: u64 = 1 << 20;

/// Writes zeroes.
fn write_zeroes<M: Member + ?Sized>(member: &M, offset: u64, bytes: u64) -> io::Result<()> {
    let block = crate::geometry::BLOCK_BYTES as u64;
    let zeroes = vec![Page::zero(); (bytes.min(ZEROED_AT_ONCE) / block) as usize];
    let mut at = 0;
    while at < bytes {
        let now = (bytes - at).min(ZEROED_AT_ONCE);
        member.write(offset + at, &zeroes[..(now / block) as usize], false)?;
        at += now;
    }
    Ok(())
}

/// What a failed operation means: a read that fails by itself leaves the member in use, anything else does not.
pub(crate) fn outcome_of(error: &io::Error, reads: bool) -> Outcome<Page> {
    let medium = [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::REMOTEIO];
    let code = error.raw_os_error();
    let bad_place = medium
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
        || error.kind() == io::ErrorKind::UnexpectedEof;
    if reads && error.kind() == io::ErrorKind::InvalidData {
        Outcome::Corrupt
    } else if reads && bad_place {
        Outcome::Unreadable
    } else {
        Outcome::Gone
    }
}
