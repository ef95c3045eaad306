//! Calls of external programs: `losetup`, `mount`, `mkfs.*` and others.

use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a program and returns its standard output.
///
/// # Errors
/// The program is not installed, or it fails; the error contains its standard error.
pub fn run<'a>(
    name: &str,
    arguments: impl IntoIterator<Item = &'a Path>,
    more: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<String> {
    let program = find(name).ok_or_else(|| anyhow!("the program {name} is not installed"))?;
    let output = Command::new(program)
        .args(arguments.into_iter().chain(more))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} did not start"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(anyhow!("{name} failed: {}", complaint.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the path of a program. The search includes `/usr/sbin`, `/sbin` and `/usr/local/sbin`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}
