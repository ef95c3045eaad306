//! The telnet protocol: one point in a line.

use super::point::Point;
use crate::Skipped;
use crate::line::{Arena, shown};
use seiner_model::Batch;

/// Appends the point of a line without its newline. A blank line is no point.
///
/// A point has a time, so that the time of reception is not used.
///
/// # Errors
/// If the line becomes no row.
pub fn decode_line<'b>(
    line: &'b [u8],
    _now: i64,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
) -> Result<(), Skipped> {
    let text = std::str::from_utf8(line)
        .map_err(|_| Skipped::because(format!("{:?} is not UTF-8", shown(line))))?;
    let mut words = text.split_ascii_whitespace();
    let Some(command) = words.next() else {
        return Ok(());
    };
    let (Some(metric), Some(time), Some(value)) = (words.next(), words.next(), words.next()) else {
        return Err(no_put(line));
    };
    if command != "put" {
        return Err(no_put(line));
    }
    let mut point = Point::new(metric)?;
    for word in words {
        let (tag, value) = word.split_once('=').unwrap_or((word, ""));
        point.tag(tag, value)?;
    }
    point.push(time, value, arena, batch)
}

fn no_put(line: &[u8]) -> Skipped {
    Skipped::because(format!(
        "{:?} is not `put metric time value tag=value …`",
        shown(line)
    ))
}
