//! Description of a prepared guest.

use super::machine;
use crate::error::{Result, refuse};
use crate::native::obstacle_everywhere;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the file that describes a prepared guest, in the guest's directory.
const DESCRIPTION: &str = "guest.json";

/// A kernel with its programs, ready to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// Directory of the prepared guest.
    #[serde(skip)]
    pub(super) directory: PathBuf,
    /// Release of the kernel.
    pub kernel: String,
    /// For each file system, the modules to load in this order, or the reason why it is not
    /// available.
    pub systems: BTreeMap<String, std::result::Result<Vec<String>, String>>,
}

/// Returns the directory of the prepared guest: `SEINER_LAB_GUEST`, otherwise `seiner/lab-guest` in
/// `XDG_CACHE_HOME` or in `~/.cache`.
///
/// # Errors
/// None of `SEINER_LAB_GUEST`, `XDG_CACHE_HOME` and `HOME` is set.
pub fn directory() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = from("SEINER_LAB_GUEST") {
        return Ok(path.into());
    }
    match (from("XDG_CACHE_HOME"), from("HOME")) {
        (Some(cache), _) => Ok(PathBuf::from(cache).join("seiner/lab-guest")),
        (None, Some(home)) => Ok(PathBuf::from(home).join(".cache/seiner/lab-guest")),
        (None, None) => refuse(
            "the lab keeps the guest's kernel in a directory below HOME or in SEINER_LAB_GUEST, and none of them is set",
        ),
    }
}

/// Returns the reason why a file system is not available in a guest; `None` if it is.
pub fn obstacle(kind: &str) -> Option<String> {
    if let Some(why) = obstacle_everywhere(kind) {
        return Some(why);
    }
    let guest = match directory().and_then(|directory| Guest::read(&directory)) {
        Ok(guest) => guest,
        Err(error) => return Some(error.to_string()),
    };
    match guest.systems.get(kind) {
        Some(Ok(_)) => None,
        Some(Err(why)) => Some(why.clone()),
        None => Some("the guest was prepared without it: run `seiner lab guest` again".to_string()),
    }
}

impl Guest {
    /// Reads the description of a prepared guest.
    ///
    /// # Errors
    /// [`Error::Rejected`](crate::Error::Rejected) if no machine can be emulated here or no guest was
    /// prepared.
    pub fn read(directory: &Path) -> Result<Guest> {
        if let Some(why) = machine::obstacle() {
            return refuse(why);
        }
        let Ok(text) = fs::read_to_string(directory.join(DESCRIPTION)) else {
            return refuse("there is no guest: `seiner lab guest --download` prepares one");
        };
        let mut guest: Guest = serde_json::from_str(&text)
            .with_context(|| format!("{} describes no guest", directory.display()))?;
        guest.directory = directory.to_owned();
        Ok(guest)
    }

    /// Writes the description into the guest's directory.
    pub(super) fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from)?;
        fs::write(self.directory.join(DESCRIPTION), text)?;
        Ok(())
    }

    /// Returns the directory of the files that go into the archive.
    pub(super) fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Returns the modules of all file systems, without duplicates.
    pub(super) fn all_modules(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for module in self.systems.values().flatten().flatten() {
            if !all.contains(module) {
                all.push(module.clone());
            }
        }
        all
    }
}
