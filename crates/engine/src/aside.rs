//! Damaged files, under names that no start reads.
//!
//! A damaged file is copied, not renamed, if a start after a crash must still find it under its own
//! name.

use crate::error::{Error, io_error, sync_error};
use crate::journal::DAMAGED;
use seiner_platform::Disk;
use std::io;

/// Bytes copied at once.
const PIECE: u64 = 1 << 20;

/// Renames a file to its name with the suffix of files that were set aside, and returns this name. Durable on return.
///
/// # Errors
/// If the disk fails.
pub fn move_aside(disk: &dyn Disk, name: &str) -> Result<String, Error> {
    let aside = format!("{name}{DAMAGED}");
    let context = || format!("renaming {name} to {aside}");
    disk.rename(name, &aside).map_err(io_error(context))?;
    disk.sync_names().map_err(sync_error(context))?;
    Ok(aside)
}

/// Removes a file, if there is one of this name.
///
/// # Errors
/// If the disk fails.
pub fn remove_if_present(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error(|| format!("removing {name}"))(error))
        }
        _ => Ok(()),
    }
}

/// Copies a file to its name with the suffix of files that were set aside. The bytes are durable on return, the
/// name after [`Disk::sync_names`].
///
/// # Errors
/// If the disk fails, or has no space for the copy.
pub fn copy_aside(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    let aside = format!("{name}{DAMAGED}");
    let context = || format!("copying {name} to {aside}");
    let from = disk.open(name).map_err(io_error(context))?;
    let len = from.len().map_err(io_error(context))?;
    let to = disk.create(&aside).map_err(io_error(context))?;
    let mut piece = vec![0; len.min(PIECE) as usize];
    let mut at = 0;
    while at < len {
        piece.truncate((len - at).min(PIECE) as usize);
        from.read_at(at, &mut piece).map_err(io_error(context))?;
        to.write_at(at, &piece).map_err(io_error(context))?;
        at += piece.len() as u64;
    }
    to.sync().map_err(sync_error(context))
}
