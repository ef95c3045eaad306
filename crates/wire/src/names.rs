//! Names of other protocols as parts of names in the notation of lines.

use crate::Skipped;
use crate::line::shown;

/// Checks that the notation of lines can contain a text.
///
/// # Errors
/// If the text ends in a backslash.
pub(crate) fn in_lines(text: &str) -> Result<&str, Skipped> {
    match text.ends_with('\\') {
        true => Err(Skipped::because(format!(
            "{:?} ends in a backslash, which no name may",
            shown(text.as_bytes())
        ))),
        false => Ok(text),
    }
}
