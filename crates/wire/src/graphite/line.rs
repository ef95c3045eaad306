//! The plaintext protocol: one sample in a line.

use super::sample::push;
use crate::Skipped;
use crate::line::{Arena, shown};
use crate::sample::number;
use memchr::memchr3;
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
    let mut rest = line;
    let Some(path) = word(&mut rest) else {
        return Ok(());
    };
    let (Some(value), time, None) = (word(&mut rest), word(&mut rest), word(&mut rest)) else {
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

/// Takes the next word of a line.
fn word<'l>(line: &mut &'l [u8]) -> Option<&'l [u8]> {
    let text = line.trim_ascii_start();
    let end = memchr3(b' ', b'\t', b'\r', text).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *line = rest;
    (!word.is_empty()).then_some(word)
}
