//! Disk use of the log: sums of its parts for the arithmetic of [`crate::space`].

use super::Log;
use crate::error::Relief;
use crate::retention::class::{Class, WhenFull};
use crate::segment::Entry;
use crate::segment::open::OpenSegment;
use crate::segment::stats::Share;
use crate::space::{FILE_MAP, Load, delay_s, on_disk};
use crate::status::ClassStatus;
use seiner_merge::Fill;
use std::collections::BTreeMap;
use std::time::Duration;

impl Log {
    /// Adds the bytes of open segments to those of the head.
    fn with_open(&self, load: &Load) -> Load {
        let open = self.open.iter();
        let bytes = open.map(|open| on_disk(open.reserved.max(open.len()), self.unit));
        let open = bytes.map(|bytes| bytes + FILE_MAP);
        Load {
            open: open.sum(),
            ..*load
        }
    }

    /// Returns the fill of the store.
    pub fn fill(&self, load: &Load) -> Fill {
        let clocks = self.retention.clocks();
        let all_stats = self.segment_stats.values();
        self.fill_of(
            load,
            all_stats.map(|stats| stats.stat_at(&clocks).live).sum(),
        )
    }

    /// Returns the fill of the store if sealed segments have `sealed` live bytes.
    pub fn fill_of(&self, load: &Load, sealed: u64) -> Fill {
        let open = self.open.iter().map(OpenSegment::len);
        self.space
            .fill(&self.with_open(load), sealed + open.sum::<u64>())
    }

    /// Returns the bytes that the store occupies. Bytes are counted before they are written.
    pub fn used(&self, load: &Load) -> u64 {
        self.space.used(&self.with_open(load))
    }

    /// Returns the part of [`Log::used`] that is in files.
    pub fn used_by_files(&self, load: &Load) -> u64 {
        self.space.used_by_files(&self.with_open(load))
    }

    /// Returns the bytes that writers may still use. Does not read the liveness of segments.
    pub fn headroom(&self, load: &Load) -> u64 {
        self.space.headroom(&self.with_open(load))
    }

    /// Returns the bytes that the store may occupy.
    pub fn budget(&self) -> u64 {
        self.space.budget()
    }

    /// Returns the unused bytes of the budget, including the reserves. A merge may use the
    /// reserves.
    pub fn free_space(&self, load: &Load) -> u64 {
        self.space.free_space(&self.with_open(load))
    }

    /// Returns whether a roll-up pass may write although writers wait.
    pub fn has_space_for_rollup(&self, load: &Load) -> bool {
        self.space.has_space_for_rollup(&self.with_open(load))
    }

    /// Sets the free bytes of the disk. `None` means unknown.
    pub fn note_free(&mut self, free: Option<u64>, load: &Load) {
        let load = self.with_open(load);
        self.space.note_free(free, self.options.leave_free, &load);
    }

    /// Returns whether writers have space, and the delay for which they should wait. `staged` is
    /// the number of bytes that wait for the journal.
    pub fn charge_writers(&mut self, load: &Load, staged: u64) -> (bool, Duration) {
        let load = self.with_open(load);
        let has_space = self.space.used(&load) < self.space.limit(&load);
        let written = self.counters.block_bytes + staged;
        let delay = self.debt.charge(written, self.delay_s(&load));
        (has_space, delay)
    }

    /// Returns whether writers are slowed for lack of space.
    pub fn is_slow(&self, load: &Load) -> bool {
        self.delay_s(&self.with_open(load)) > 0.0
    }

    /// Returns the delay of writers, in seconds for each MiB. `load` includes the open segments.
    fn delay_s(&self, load: &Load) -> f64 {
        delay_s(self.space.used_after_merges(load), self.space.limit(load))
    }

    /// Returns the bytes that may now be written only to speed up reads.
    pub fn extra_left(&self) -> u64 {
        let allowed = self.options.extra_writes * self.counters.block_bytes as f64;
        (allowed as u64).saturating_sub(self.counters.extra_written)
    }

    /// Returns whether other programs have filled the disk so far that the budget cannot be used.
    pub fn is_crowded(&self) -> bool {
        self.space.is_crowded()
    }

    /// Returns the live bytes in sealed segments by class, from liveness scans and forecasts.
    pub fn live_in_sealed(&self) -> Vec<u64> {
        let mut live = vec![0; self.retention.classes().len()];
        let clocks = self.retention.clocks();
        for stats in self.segment_stats.values() {
            // The forecast does not contain the classes of the blocks.
            let (mut left, mut found) = (stats.stat_at(&clocks).live, stats.stat.live);
            for share in &stats.shares {
                let part = u128::from(left) * u128::from(share.live) / u128::from(found.max(1));
                live[share.class as usize] += part as u64;
                (left, found) = (left - part as u64, found.saturating_sub(share.live));
            }
        }
        live
    }

    /// Adds the bytes of the live blocks among `entries` to `live`, by class.
    pub fn add_live(&self, entries: &[Entry], live: &mut [u64]) {
        for entry in entries {
            if !self.retention.may_drop(entry) {
                live[self.retention.class_of(entry.source) as usize] += u64::from(entry.len);
            }
        }
    }

    /// Returns the live bytes of sealed segments by class.
    pub fn live_by_class(&self) -> Vec<(u8, u64)> {
        let mut live = BTreeMap::new();
        for share in self.segment_stats.values().flat_map(|stats| &stats.shares) {
            *live.entry(share.class).or_default() += share.live;
        }
        live.into_iter().collect()
    }

    /// Returns the classes and their contents. `live` contains the live bytes of each class.
    pub fn class_status(&self, live: &[u64]) -> Vec<ClassStatus> {
        let sources = self.retention.members().by_class();
        let classes = self.retention.classes().iter().enumerate();
        classes
            .map(|(number, class)| ClassStatus {
                class: class.clone(),
                step_ns: self.retention.rules().level(number as u8).map(|of| of.step),
                sources: sources[number],
                live: live[number],
                hidden_before: self.retention.hidden_before(number as u8),
            })
            .collect()
    }

    /// Returns the class of the lowest priority that has data to shed.
    pub fn first_to_shed(&self) -> Option<u8> {
        let classes = self.retention.classes();
        let sheds = |class: &Class| class.when_full == WhenFull::Shed;
        // Most stores have no such class and count nothing.
        if !classes.iter().any(sheds) {
            return None;
        }
        let rules = |class: u8| &classes[class as usize];
        self.live_by_class()
            .into_iter()
            .filter(|&(class, live)| live > 0 && sheds(rules(class)))
            .map(|(class, _)| class)
            .min_by_key(|&class| (rules(class).priority, class))
    }

    /// Returns whether shedding is possible and sensible.
    pub fn may_shed(&self) -> bool {
        !self.is_crowded() && self.first_to_shed().is_some()
    }

    /// Returns the measure that would free space in a full store. Rings and quotas do
    /// not count, because they expire data only when new rows arrive.
    pub fn relief(&self) -> Relief {
        if self.is_crowded() {
            return Relief::Others;
        }
        let clocks = self.retention.clocks();
        let classes = self.retention.classes();
        let by_age = |share: &Share| {
            let keep = classes[share.class as usize].keep;
            keep.age.is_some() && keep.rows.is_none() && keep.bytes.is_none()
        };
        let segments = self.segment_stats.values();
        let by_age = segments.filter(|stats| stats.shares.iter().all(by_age));
        let waits = by_age.filter_map(|stats| stats.stat_at(&clocks).dies.wait(clocks.now));
        match waits.min() {
            Some(wait) => Relief::After(Duration::from_nanos(wait.unsigned_abs())),
            None => Relief::None,
        }
    }

    /// Returns the minimum dead share of a segment that is worth a merge.
    pub fn least_dead_share(&self) -> f64 {
        seiner_merge::least_dead_share(self.may_shed())
    }

    /// Returns whether the liveness scan of any segment is due.
    pub fn is_scan_due(&self) -> bool {
        let clocks = self.retention.clocks();
        self.segment_stats
            .values()
            .any(|stats| stats.is_due(&clocks))
    }
}
