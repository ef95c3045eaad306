//! Devices named on the command line.

use crate::failure::Failure;
use anyhow::anyhow;
use seiner_raid::{Device, Member};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a device for exclusive use by this process.
pub fn open(path: &Path) -> Result<Arc<dyn Member>, Failure> {
    Ok(Arc::new(
        Device::open(path).map_err(|error| anyhow!("{error}"))?,
    ))
}

/// Opens all devices.
pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Arc<dyn Member>>, Failure> {
    paths.iter().map(|path| open(path)).collect()
}

/// Returns the reason why a device must not be overwritten. Returns `None` if the device holds no data, or if
/// both `overwrite` and `yes` are set.
pub fn objection(
    device: &dyn Member,
    overwrite: bool,
    yes: bool,
) -> anyhow::Result<Option<String>> {
    if overwrite && yes {
        return Ok(None);
    }
    let contents =
        seiner_raid::contents(device).map_err(|error| anyhow!("{}: {error}", device.name()))?;
    Ok(contents.map(|contents| {
        let name = device.name();
        format!("{name} {contents}: choose another device, or say twice that it may be lost (--overwrite --yes)")
    }))
}
