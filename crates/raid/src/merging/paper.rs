//! Algorithm of write merging as it was published (*RAID* §4–5).
//!
//! The array is divided into *areas* of consecutive stripes. Each area has one bit: whether writes to the area are
//! held. A stripe with requests has a bitmap of the blocks written since its first request. When the bitmap is
//! full, the area is being written sequentially and its bit is set (`seq_detect`). A bit that was set too long ago
//! is cleared (`bitmap_clear`). While the bit is set, writes are held until their stripe is full. They start one by
//! one if the stripe fills too slowly to become full within the maximum wait, or was not full after it
//! (`merge_check`). Both cases are failed waits. When too large a share of an area's waits has failed, its bit is
//! cleared.
//!
//! [`PaperSettings::batches`] determines the start of writes that are not merged. Off, as published: they start one at
//! a time under the lock of their stripe. On, as in all other strategies: all writes that queue for a stripe start
//! together.
//!
//! The paper names the parameters but not their values. The defaults are ours. The paper draws the line of the
//! speed detector through the origin, so the first block is always above the line. A stripe with `f` of `S` blocks
//! meets the line at `f/S` of the maximum wait, and no polling is needed.

use super::view::LISTED_FOR;
use super::{Arrival, Strategy, Verdict, View, ViewRequest, WaitingWrites, WriteTag};
use crate::request::Nanos;
use std::collections::BTreeMap;

/// Parameters of the published algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperSettings {
    /// Number of stripes of an area.
    pub area_stripes: u64,
    /// Lifetime of an area's bit, ns.
    pub time_to_live: Nanos,
    /// Share of failed waits above which merging ends in an area.
    pub failed_share: f64,
    /// Number of waits before the share is evaluated.
    pub least_waits: u32,
    /// Sends writes that are not merged together with all that queue for their stripe, instead of one at a time.
    pub batches: bool,
}

impl Default for PaperSettings {
    fn default() -> PaperSettings {
        PaperSettings {
            area_stripes: 1024,
            time_to_live: 1_000_000_000,
            failed_share: 0.3,
            least_waits: 16,
            batches: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct AreaState {
    merges: bool,
    updated: Nanos,
    waits: u32,
    failed: u32,
    written: Nanos,
}

/// State of a stripe with requests.
#[derive(Clone, Debug)]
struct StripeBitmap {
    bits: Vec<u64>,
    set: u32,
    /// True if a wait failed and the writes of the stripe start one by one.
    scattering: bool,
    waiting: bool,
}

/// The published algorithm.
pub struct Paper {
    settings: PaperSettings,
    stripe_blocks: u32,
    longest_hold: Nanos,
    areas: BTreeMap<u64, AreaState>,
    bitmaps: BTreeMap<u64, StripeBitmap>,
}

impl Paper {
    /// Creates the strategy for stripes of `stripe_blocks` blocks of data.
    pub fn new(settings: PaperSettings, stripe_blocks: u32, longest_hold: Nanos) -> Paper {
        Paper {
            settings,
            stripe_blocks,
            longest_hold,
            areas: BTreeMap::new(),
            bitmaps: BTreeMap::new(),
        }
    }

    /// Clears the bit of a stripe's area if it was set too long ago. Returns the bit.
    fn bitmap_clear(&mut self, now: Nanos, stripe: u64) -> bool {
        let area = self
            .areas
            .entry(stripe / self.settings.area_stripes)
            .or_default();
        if area.merges && now.saturating_sub(area.updated) > self.settings.time_to_live {
            area.merges = false;
        }
        area.merges
    }

    /// Decides whether the writes of a stripe are held or start.
    fn merge_check(&mut self, waiting: &WaitingWrites) -> Verdict {
        let share = f64::from(waiting.filled) / f64::from(self.stripe_blocks);
        let meets_line = waiting.oldest + (share * self.longest_hold as f64) as Nanos;
        let fails = waiting.missing > 0 && waiting.now >= meets_line.min(waiting.deadline);
        let bitmap = self
            .bitmaps
            .get_mut(&waiting.stripe)
            .expect("a stripe with writes has a bitmap");
        if waiting.missing > 0 && !fails {
            bitmap.waiting = true;
            return Verdict::Hold(meets_line.min(waiting.deadline));
        }
        bitmap.waiting = false;
        bitmap.scattering = fails;
        let settings = self.settings;
        let area = self
            .areas
            .entry(waiting.stripe / settings.area_stripes)
            .or_default();
        area.waits += 1;
        area.failed += u32::from(fails);
        if area.waits >= settings.least_waits {
            if f64::from(area.failed) > settings.failed_share * f64::from(area.waits) {
                area.merges = false;
            }
            (area.waits, area.failed) = (0, 0);
        }
        if fails {
            self.unmerged()
        } else {
            Verdict::Together
        }
    }

    /// Returns the verdict on writes that are not merged.
    fn unmerged(&self) -> Verdict {
        if self.settings.batches {
            Verdict::Together
        } else {
            Verdict::Alone
        }
    }

    /// Sets the bit of the area if the stripe has been written completely.
    fn seq_detect(&mut self, now: Nanos, stripe: u64) {
        let full = self
            .bitmaps
            .get(&stripe)
            .is_some_and(|bitmap| bitmap.set == self.stripe_blocks);
        if full {
            let area = self
                .areas
                .entry(stripe / self.settings.area_stripes)
                .or_default();
            area.merges = true;
            area.updated = now;
        }
    }
}

impl Strategy for Paper {
    fn arrived(&mut self, arrival: &Arrival) -> WriteTag {
        let area = arrival.stripe / self.settings.area_stripes;
        self.areas.entry(area).or_default().written = arrival.now;
        let words = self.stripe_blocks.div_ceil(64) as usize;
        let bitmap = self
            .bitmaps
            .entry(arrival.stripe)
            .or_insert_with(|| StripeBitmap {
                bits: vec![0; words],
                set: 0,
                scattering: false,
                waiting: false,
            });
        let first = (arrival.start % u64::from(self.stripe_blocks)) as u32;
        for block in first..first + arrival.blocks {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            bitmap.set += u32::from(bitmap.bits[word] & bit == 0);
            bitmap.bits[word] |= bit;
        }
        0
    }

    fn judge(&mut self, waiting: &WaitingWrites) -> Verdict {
        let merges = self.bitmap_clear(waiting.now, waiting.stripe);
        let bitmap = self
            .bitmaps
            .get(&waiting.stripe)
            .expect("a stripe with writes has a bitmap");
        let verdict = if (merges && !bitmap.scattering) || bitmap.waiting {
            self.merge_check(waiting)
        } else {
            self.unmerged()
        };
        self.seq_detect(waiting.now, waiting.stripe);
        verdict
    }

    fn idle(&mut self, stripe: u64) {
        self.bitmaps.remove(&stripe);
    }

    fn view(&self, request: &ViewRequest) -> View {
        let entry = |(number, area): (&u64, &AreaState)| super::Area {
            first_stripe: number * self.settings.area_stripes,
            holds: area.merges,
            why: area.why(request.now),
            idle: request.now.saturating_sub(area.written),
        };
        let areas = self.areas.iter().map(entry);
        let why = format!(
            "writes are held in areas of {} stripes in which small writes filled a stripe",
            self.settings.area_stripes
        );
        View::with(why, areas.filter(|area| area.idle < LISTED_FOR).collect())
    }
}

impl AreaState {
    fn why(&self, now: Nanos) -> String {
        let waits = format!("{} of {} recent waits failed", self.failed, self.waits);
        match (self.merges, self.updated) {
            (true, at) => {
                let ago = now.saturating_sub(at) / 1_000_000;
                format!("small writes filled a stripe {ago} ms ago; {waits}")
            }
            (false, 0) => "small writes have filled no stripe yet".to_string(),
            (false, _) => {
                format!(
                    "too few waits ended with a full stripe, or the last full stripe is long ago; {waits}"
                )
            }
        }
    }
}
