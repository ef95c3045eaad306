//! Ours: room is bought where it is cheapest, and not at all where it comes by itself.
//!
//! Rewriting the live bytes of a segment frees the rest of it now instead of when the last block
//! dies. What is bought is `gain × wait`, room times the time for which it would still have been
//! held; what is paid is `live` bytes written. A segment about to die whole is never worth it,
//! however dead it is, which is where the greedy policy wastes its writes.

use super::{Deciding, Decision, Kind, Policy, View};
use crate::{Death, SegmentStat};

/// Highest `gain × wait / live` first, no more than brings the store back to Um.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patient;

impl Policy for Patient {
    fn kind(&self) -> Kind {
        Kind::Patient
    }

    fn choose(&mut self, view: &View) -> Decision {
        Deciding::new(view, Kind::Patient).take_until_sated(|segment| score(segment, view.now))
    }
}

fn score(segment: &SegmentStat, now: i64) -> f64 {
    segment.gain() as f64 / segment.live as f64 * wait(segment, now)
}

/// For how long the segment would still hold its room if it were left alone.
///
/// What has outlived its prediction is expected to go on for as long as it is overdue; what
/// nobody predicted, for as long as it lasted so far; what never dies, for ever.
fn wait(segment: &SegmentStat, now: i64) -> f64 {
    let age = segment.age(now).max(1) as f64;
    match segment.dies {
        Death::At(at) if at > now => (at as f64 - now as f64).max(1.0),
        Death::At(at) => (now as f64 - at as f64).max(1.0),
        Death::Unknown => age,
        Death::Never => i64::MAX as f64,
    }
}
