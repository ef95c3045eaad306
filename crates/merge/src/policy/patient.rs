//! The default policy: it merges where a byte written frees the most space for the longest time,
//! and leaves alone segments that will soon die whole.
//!
//! A merge rewrites the live bytes of a segment and frees the rest now instead of at the death of
//! the last block. The benefit is `gain × wait`: bytes freed times the time for which they would
//! still have been held. The cost is `live` bytes written. A segment about to die whole has almost
//! no benefit, however dead it is; the greedy policy wastes its writes there.

use super::{Deciding, Decision, MergePolicy, Policy, View};
use crate::{Death, Fill, SegmentStat};

/// Takes the highest `gain × wait / live` first, until the fill is down to Um.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patient;

impl Policy for Patient {
    fn kind(&self) -> MergePolicy {
        MergePolicy::Patient
    }

    fn choose(&mut self, view: &View) -> Decision {
        let content = content(view);
        let fill = Fill {
            um: content,
            ..view.fill
        };
        let view = View { fill, ..*view };
        let doubt = doubt(&view);
        Deciding::new(&view, MergePolicy::Patient)
            .take_until_sated(|segment| score(segment, view.now, doubt))
    }
}

/// Returns the fill up to which nothing is merged: Um, or higher if V is high.
///
/// At `1 − (1 − V)/4`, three quarters of the bytes that are not live are dead, or in segments being filled. Without
/// this space, a merge rewrites blocks that would soon have died. The result stays below [`EARLY`] of the space
/// without reserve and output, because merges must start before writers are slowed for lack of
/// space; in a small store with a large reserve that is earlier.
fn content(view: &View) -> f64 {
    let fill = &view.fill;
    let kept = (fill.reserved + view.output_limit) as f64 / fill.budget.max(1) as f64;
    fill.um
        .max((1.0 - (1.0 - fill.v()) / 4.0).min(EARLY * (1.0 - kept)))
}

/// Largest share of the writers' space, less one merge output, at which nothing is merged yet.
const EARLY: f64 = 0.987;

/// Returns the distrust in predictions, 0 to 1, from the share of live bytes that outlived theirs.
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

/// Factor of the overdue share: if 1/32 of the live bytes is overdue, predictions are not trusted at
/// all.
const OVERDUE_LIMIT: f64 = 32.0;

/// Returns the score: days for which a byte is freed, per byte written.
fn score(segment: &SegmentStat, now: i64, doubt: f64) -> f64 {
    segment.gain() as f64 / segment.live as f64 * wait(segment, now, doubt) / DAY
}

/// One day in nanoseconds.
const DAY: f64 = 86_400e9;

/// Returns the time for which the segment would keep its space without a merge, in nanoseconds.
///
/// For an overdue segment, the result is the time by which the segment is overdue. For a segment
/// without a prediction, the result is its age. For a segment that never dies, the result is
/// `i64::MAX`. With a prediction, the result is at least `doubt` times the predicted life.
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
