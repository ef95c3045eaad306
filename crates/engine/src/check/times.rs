//! Comparison of the times of a block with its entry in the footer.

use crate::segment::Entry;

/// Checks that times ascend and that their interval is that of the entry.
///
/// # Errors
/// A description of the difference.
pub(super) fn compare_times(entry: &Entry, times: &[i64]) -> Result<(), String> {
    if let Some(at) = times.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(format!(
            "time {} of row {} is followed by {}",
            times[at],
            at,
            times[at + 1]
        ));
    }
    match (times.first(), times.last()) {
        (Some(&first), Some(&last)) if (first, last) == (entry.first, entry.last) => Ok(()),
        (first, last) => Err(format!(
            "its times are {first:?} to {last:?}, the footer lists {} to {}",
            entry.first, entry.last
        )),
    }
}
