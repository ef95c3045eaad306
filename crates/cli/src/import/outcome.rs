//! End of every import: files that failed, the summary, and the exit status.

use super::rejects::Rejects;
use super::sink::Counts;
use crate::failure::Failure;
use anyhow::Result;
use std::path::Path;

/// Imports files, and reports those that fail. The rows of the other files, and those before an error, are kept. Returns
/// the number of files that failed.
pub fn each_file<F>(
    files: &[F],
    path: impl Fn(&F) -> &Path,
    rejects: &mut Rejects,
    mut import: impl FnMut(&F, &mut Rejects) -> Result<()>,
) -> u64 {
    let mut failed = 0;
    for file in files {
        if let Err(error) = import(file, rejects) {
            rejects.report_file(path(file), &error);
            failed += 1;
        }
    }
    failed
}

/// Returns the summary of an import of several files.
#[cfg(feature = "parquet")]
pub fn summary(counts: &Counts, failed: u64, files: usize) -> String {
    let (taken, rejected) = (counts.taken, counts.rejected);
    match failed {
        0 => format!("{taken} rows imported, {rejected} rejected"),
        _ => {
            format!("{taken} rows imported, {rejected} rejected, {failed} of {files} files failed")
        }
    }
}

/// Prints the summary, and completes the file of rejected rows.
///
/// # Errors
/// If rows, cells or files were rejected, or the file could not be written.
pub fn conclude(
    summary: &str,
    counts: &Counts,
    failed: u64,
    rejects: Rejects,
) -> Result<(), Failure> {
    eprintln!("{summary}");
    if let Some(sentence) = rejects.finish(counts.unlisted)? {
        eprintln!("{sentence}");
    }
    match counts.rejected + counts.rejected_cells + failed {
        0 => Ok(()),
        _ => Err(Failure::Rejected),
    }
}
