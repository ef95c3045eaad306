//! Devices of an array: files, block devices, or memory.
//!
//! A method of a member executes one operation and returns after it. [`crate::driver`] executes many operations
//! concurrently.

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

/// A device. All offsets are in bytes and multiples of [`crate::BLOCK_BYTES`].
pub trait Member: Send + Sync {
    /// Returns the name of the device, for messages.
    fn name(&self) -> String;

    /// Returns the size of the device in bytes.
    fn bytes(&self) -> u64;

    /// Fills pages from the device.
    ///
    /// # Errors
    /// If a block cannot be read or fails its checksum, or the device ends within the range.
    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()>;

    /// Fills pages from the device and accepts the contents as valid, whatever their checksums.
    ///
    /// # Errors
    /// As [`Member::read`].
    fn adopt(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.read(offset, pages)
    }

    /// Writes pages; to stable storage if `durable` is set.
    ///
    /// # Errors
    /// If the write fails. The contents of the range are then unknown.
    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()>;

    /// Makes a range read as zeroes, and frees its space if the device can.
    ///
    /// # Errors
    /// If the operation fails. The contents of the range are then unknown.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        write_zeroes(self, offset, bytes)
    }

    /// Returns whether [`Member::discard`] is faster than a write of zeroes, as far as is known.
    fn discards(&self) -> bool {
        false
    }

    /// Returns whether a discarded range keeps its space, so that later writes to it cannot fail for lack of
    /// space.
    fn keeps_space(&self) -> bool {
        true
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// If the flush fails. The contents of blocks written since the last flush are then unknown.
    fn flush(&self) -> io::Result<()>;

    /// Returns the open file, if the kernel can operate on it directly.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether operations complete at once, so that threads for them would be wasteful.
    fn is_instant(&self) -> bool {
        false
    }
}

/// Maximum number of zero bytes written at once.
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

/// Returns the outcome for an error: a read error of single blocks leaves the member in use, any other error
/// does not.
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
