//! Ours: room is bought where it is cheapest, and not at all where it comes by itself.
//!
//! Rewriting the live bytes of a segment frees the rest of it now instead of when the last block
//! dies. What is bought is `gain × wait`, room times the time for which it would still have been
//! held; what is paid is `live` bytes written. A segment about to die whole is never worth it,
//! however dead it is, which is where the greedy policy wastes its writes.

use super::{Deciding, Decision, Kind, Policy, View};
use crate::{Death, Fill, SegmentStat};

/// Highest `gain × wait / live` first, no more than brings the store back to Um.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patient;

impl Policy for Patient {
    fn kind(&self) -> Kind {
        Kind::Patient
    }

    fn choose(&mut self, view: &View) -> Decision {
        let content = content(view);
        let fill = Fill {
            um: content,
            ..view.fill
        };
        let view = View { fill, ..*view };
        let doubt = doubt(&view);
        Deciding::new(&view, Kind::Patient)
            .take_until_sated(|segment| score(segment, view.now, doubt))
    }
}

/// The fill that it is content with: Um, but at least half of what is not live may be dead. So
/// there is something worth merging however full of live blocks the store is. A merge has to come
/// before writers run out of room, though, in a small store with much reserved.
fn content(view: &View) -> f64 {
    let fill = &view.fill;
    let kept = (fill.reserved + view.output_limit) as f64 / fill.budget.max(1) as f64;
    fill.um.max(((1.0 + fill.v()) / 2.0).min(1.0 - kept))
}

/// How little predictions are to be trusted, 0 to 1: by the live bytes that outlived theirs.
fn doubt(view: &View) -> f64 {
    let (mut all, mut overdue) = (0, 0);
    for segment in view.segments {
        if let Death::At(at) = segment.dies {
            all += segment.live;
            overdue += if at < view.now { segment.live } else { 0 };
        }
    }
    (OVERDUE_LIMIT * overdue as f64 / all.max(1) as f64).min(1.0)
}

/// One in so many live bytes overdue, and predictions are worth nothing.
const OVERDUE_LIMIT: f64 = 32.0;

/// Days for which a byte of room is bought, per byte written.
fn score(segment: &SegmentStat, now: i64, doubt: f64) -> f64 {
    segment.gain() as f64 / segment.live as f64 * wait(segment, now, doubt) / DAY
}

/// In nanoseconds.
const DAY: f64 = 86_400e9;

/// For how long the segment would still hold its room if it were left alone, in nanoseconds.
///
/// What has outlived its prediction is expected to go on for as long as it is overdue; what
/// nobody predicted, for as long as it lasted so far; what never dies, for ever. A share `doubt`
/// of the time for which it was predicted to live is added to what is left of it at least.
fn wait(segment: &SegmentStat, now: i64, doubt: f64) -> f64 {
    match segment.dies {
        Death::At(at) => {
            let predicted = (at as f64 - segment.born as f64).max(1.0);
            (at as f64 - now as f64).abs().max(doubt * predicted)
        }
        Death::Unknown => segment.age(now).max(1) as f64,
        Death::Never => i64::MAX as f64,
    }
}
