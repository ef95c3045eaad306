//! Resources that a run creates outside its own directory, and their removal.

use crate::error::Result;
use crate::location;
use crate::tool;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the names of directories and cgroups that the lab makes. Directories with other names
/// are never removed.
pub const PREFIX: &str = "seiner-lab-";
/// Number of attempts to unmount a busy file system, 200 ms apart, before a lazy unmount.
const UNMOUNT_TRIES: usize = 25;

/// A resource that was created, or a setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Resource {
    /// A directory with its contents.
    Tree {
        /// Path; the last component begins with [`PREFIX`].
        path: PathBuf,
    },
    /// The loop devices on a file.
    Loop {
        /// Backing file.
        file: PathBuf,
    },
    /// A mounted file system.
    Mount {
        /// Mount point.
        path: PathBuf,
    },
    /// A cgroup. Its processes move to `home` before it is removed.
    Group {
        /// Directory of the cgroup.
        path: PathBuf,
        /// Directory of the cgroup in which the processes were before.
        home: PathBuf,
    },
    /// An instance of the kernel's tracer.
    Trace {
        /// Directory of the instance.
        path: PathBuf,
    },
    /// An emulated machine.
    Guest {
        /// Name in the command line of the emulator; no other process has such an argument.
        name: String,
    },
    /// A setting of the system, to be restored.
    Setting {
        /// File of the setting.
        path: PathBuf,
        /// Value before the change.
        value: String,
    },
}

impl Resource {
    /// Removes the resource, or restores the setting. A resource that does not exist is not an error.
    ///
    /// # Errors
    /// The resource cannot be removed.
    pub(crate) fn undo(&self) -> Result<()> {
        let done = match self {
            Resource::Tree { path } => remove_tree(path),
            Resource::Loop { file } => detach(file),
            Resource::Mount { path } => unmount(path),
            Resource::Group { path, home } => dissolve(path, home),
            Resource::Trace { path } => stop_tracing(path),
            Resource::Guest { name } => end_guest(name),
            Resource::Setting { path, value } => set_back(path, value),
        };
        Ok(done.with_context(|| format!("{self} was not removed"))?)
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Resource::Tree { path } => write!(f, "the directory {}", path.display()),
            Resource::Loop { file } => write!(f, "the loop device on {}", file.display()),
            Resource::Mount { path } => write!(f, "the file system on {}", path.display()),
            Resource::Group { path, .. } => write!(f, "the cgroup {}", path.display()),
            Resource::Trace { path } => write!(f, "the trace instance {}", path.display()),
            Resource::Guest { name } => write!(f, "the emulated machine {name}"),
            Resource::Setting { path, .. } => write!(f, "the setting {}", path.display()),
        }
    }
}

fn gone_is_fine(done: io::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => Ok(other?),
    }
}

fn remove_tree(path: &Path) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    if !name.is_some_and(|name| name.starts_with(PREFIX)) {
        return Err(anyhow!("its name does not begin with {PREFIX}"));
    }
    if location::mounts()?
        .iter()
        .any(|mount| mount.point.starts_with(path))
    {
        return Err(anyhow!("a file system is still mounted in it"));
    }
    gone_is_fine(fs::remove_dir_all(path))
}

fn detach(file: &Path) -> anyhow::Result<()> {
    if !file.exists() {
        return Ok(());
    }
    let listed = tool::run("losetup", ["-n", "-O", "NAME", "-j"].map(Path::new), [file])?;
    for device in listed.split_whitespace() {
        tool::run("losetup", [Path::new("-d"), Path::new(device)], [])?;
    }
    Ok(())
}

fn unmount(path: &Path) -> anyhow::Result<()> {
    for _ in 0..UNMOUNT_TRIES {
        if !location::mounts()?.iter().any(|mount| mount.point == path) {
            return Ok(());
        }
        let _ = tool::run("umount", [path], []);
        if location::mounts()?.iter().any(|mount| mount.point == path) {
            crate::time::sleep(Duration::from_millis(200));
        }
    }
    tool::run("umount", [Path::new("-l"), path], []).map(drop)
}

fn dissolve(path: &Path, home: &Path) -> anyhow::Result<()> {
    let Ok(processes) = fs::read_to_string(path.join("cgroup.procs")) else {
        return Ok(());
    };
    for process in processes.lines() {
        // The write fails if the process has ended. An ended process need not be moved.
        let _ = fs::write(home.join("cgroup.procs"), process);
    }
    gone_is_fine(fs::remove_dir(path))
}

fn stop_tracing(path: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let _ = fs::write(path.join("tracing_on"), "0");
    let _ = fs::write(path.join("events/enable"), "0");
    gone_is_fine(fs::remove_dir(path))
}

/// Kills the emulated machine with this name, if it runs.
fn end_guest(name: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(process) = number.and_then(rustix::process::Pid::from_raw) else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut arguments = line.split(|byte| *byte == 0);
        let is_emulator = arguments
            .next()
            .is_some_and(|program| String::from_utf8_lossy(program).contains("qemu-system"));
        if is_emulator && arguments.any(|argument| argument == name.as_bytes()) {
            rustix::process::kill_process(process, rustix::process::Signal::KILL)?;
        }
    }
    Ok(())
}

fn set_back(path: &Path, value: &str) -> anyhow::Result<()> {
    if path.exists() {
        fs::write(path, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_another_name_is_never_removed() {
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().join("photographs");
        fs::create_dir(&tree).unwrap();
        assert!(Resource::Tree { path: tree.clone() }.undo().is_err());
        assert!(tree.exists());
    }
}
