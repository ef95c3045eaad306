//! The plaintext protocol: one sample in a line.

use super::sample::push;
use crate::Skipped;
use crate::line::{Arena, shown};
use crate::sample::number;
use seiner_model::Batch;

/// Appends the sample of a line without its newline. A blank line is no sample.
///
/// The time is in seconds since 1970, with a fraction if needed. `now`, in ns, is the time if the line has none, or −1 or
/// `N` for it.
///
/// # Errors
/// If the line becomes no row.
pub fn decode_line<'b>(
    line: &'b [u8],
    now: i64,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
) -> Result<(), Skipped> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let Some(path) = words.next() else {
        return Ok(());
    };
    let (Some(value), time, None) = (words.next(), words.next(), words.next()) else {
        return Err(Skipped::because(format!(
            "{:?} is not `path value time`",
            shown(line)
        )));
    };
    let value = number("value", value)?;
    let time = match time {
        None | Some(b"N") => None,
        Some(time) => Some(number("time", time)?),
    };
    push(path, value, time, now, arena, batch)
}
