//! Losses that a start reports.

use crate::error::Error;
use crate::ledger::SegmentNote;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::status::Loss;

/// Returns a loss of an unknown number of rows at unknown times.
pub(super) fn unknown_loss(file: impl Into<String>, what: String) -> Loss {
    Loss {
        file: file.into(),
        what,
        rows: None,
        at_most: false,
        times: None,
        found_at: 0,
    }
}

/// Returns the loss of a page of a segment's index. The number and the times of its blocks are
/// unknown.
pub(crate) fn loss_of_page(segment: &Segment, error: &Error) -> Loss {
    let span = segment.trailer.span;
    Loss {
        times: Some((span.start, span.end)),
        rows: Some(segment.trailer.rows),
        at_most: true,
        ..unknown_loss(segment.name(), error.to_string())
    }
}

/// Returns the ledger entry of a segment that is being written.
pub(crate) fn note_of(entries: &[Entry]) -> SegmentNote {
    SegmentNote {
        blocks: entries.len() as u64,
        rows: entries.iter().map(|entry| u64::from(entry.rows)).sum(),
        first: entries.iter().map(|entry| entry.first).min().unwrap_or(0),
        last: entries.iter().map(|entry| entry.last).max().unwrap_or(0),
    }
}
