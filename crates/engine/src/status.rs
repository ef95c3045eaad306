//! Status of a store: figures for its users.

use crate::counters::{Accepted, Written};
use seiner_merge::{Death, Fill, Lane, LaneId, Memory, MergePolicy, SegmentStat};
pub use seiner_store::{ClassStatus, LogStatus, Loss, SegmentStatus, Status};

/// Returns a status that contains only these counters.
pub(crate) fn counted(accepted: &Accepted, written: &Written) -> Status {
    Status {
        rows_accepted: accepted.rows,
        samples_accepted: accepted.samples,
        rows_rejected: accepted.rejected,
        rows_too_old: accepted.too_old,
        journal_written: accepted.journal_written,
        segment_written: written.segment_written,
        blocks_sealed: written.blocks,
        block_bytes_sealed: written.block_bytes,
        samples_sealed: written.block_samples,
        damaged_segments: written.damaged_blocks,
        sources_forgotten: accepted.forgotten,
        numbers_reused: accepted.reused,
        sources_recalled: accepted.recalled,
        segments_dropped: written.segments_dropped,
        segments_merged: written.segments_merged,
        merge_written: written.merge_written,
        extra_written: written.extra_written,
        merge_read: written.merge_read,
        coalesced_blocks: written.coalesced_blocks,
        overwritten_rows: written.overwritten_rows,
        recompressed_bytes: written.recompressed_bytes,
        shed_bytes: written.shed_bytes,
        waited_ns: accepted.waited_ns,
        aged_samples: accepted.aged_samples,
        level_rows: accepted.level_rows,
        ..Status::default()
    }
}

/// Figures from which the loss of a crash at this moment follows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsynced {
    /// True if there is no journal, so that only sealed blocks survive.
    pub no_journal: bool,
    /// Number of samples known to be in the journal.
    pub durable: u64,
    /// Bytes of rows in buffers.
    pub buffered: u64,
    /// Bytes that wait to be written to the journal.
    pub staged: u64,
    /// Bytes that are written and wait for a sync.
    pub written: u64,
    /// Times since when written bytes and staged bytes wait, in monotonic ns of the clock. 0 if
    /// none wait.
    pub since: (u64, u64),
}

impl Unsynced {
    /// Returns samples, their bytes, and the age of the oldest at `now` in ns. `sealed`: samples in blocks of the log.
    pub fn count(&self, accepted: &Accepted, sealed: u64, now: u64) -> (u64, u64, u64) {
        // Rows of levels are sealed at once, and no client sent them.
        let sealed = sealed.saturating_sub(accepted.level_samples);
        let (kept, bytes) = match self.no_journal {
            true => (sealed, self.buffered),
            false => (self.durable, self.staged + self.written),
        };
        let age = match self.since {
            (0, 0) => 0,
            (0, since) | (since, _) => now.saturating_sub(since),
        };
        (accepted.samples.saturating_sub(kept), bytes, age)
    }
}

/// Figures of a log for its status.
pub(crate) struct LogView<'a> {
    /// Wall time, ns.
    pub now: i64,
    /// Disk space of the store. Live bytes are taken from `classes`.
    pub fill: Fill,
    /// Bytes of the used space that are in files.
    pub files: u64,
    /// R: bytes of a segment.
    pub segment_bytes: u64,
    /// Merge policy.
    pub policy: MergePolicy,
    /// Memory of the policy.
    pub memory: Memory,
    /// Lanes of the log.
    pub lanes: Vec<Lane>,
    /// Sealed segments in any order.
    pub sealed: Vec<SegmentStat>,
    /// Segments that are being written, in any order.
    pub open: Vec<OpenStat>,
    /// Classes, in order of evaluation.
    pub classes: Vec<ClassStatus>,
    /// Counters since the store was opened.
    pub counters: &'a Written,
    /// Bytes that may still be written only to speed up reads.
    pub extra_left: u64,
}

/// Figures of a segment that is being written.
pub(crate) struct OpenStat {
    pub number: u64,
    pub lane: LaneId,
    /// Bytes reserved for the segment.
    pub reserved: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
}

/// Converts a view into the status of the log.
pub(crate) fn log_status(view: LogView<'_>) -> LogStatus {
    let now = view.now;
    let sealed = view.sealed.into_iter();
    let sealed = sealed.map(|stat| SegmentStatus { stat, open: false });
    let open = view.open.into_iter().map(|open| SegmentStatus {
        stat: SegmentStat {
            number: open.number,
            lane: open.lane,
            bytes: open.reserved.max(open.bytes),
            live: open.bytes,
            dead: 0,
            born: now,
            dies: Death::Unknown,
        },
        open: true,
    });
    let mut segments: Vec<SegmentStatus> = sealed.chain(open).collect();
    segments.sort_by_key(|segment| segment.stat.number);
    let live = view.classes.iter().map(|class| class.live).sum();
    LogStatus {
        now,
        fill: Fill { live, ..view.fill },
        files: view.files,
        segment_bytes: view.segment_bytes,
        policy: view.policy,
        memory: view.memory,
        lanes: view.lanes,
        segments,
        classes: view.classes,
        sealed: view.counters.block_bytes,
        merged: view.counters.merge_written,
        extra_written: view.counters.extra_written,
        extra_left: view.extra_left,
        coalesced_blocks: view.counters.coalesced_blocks,
        overwritten_rows: view.counters.overwritten_rows,
        recompressed_bytes: view.counters.recompressed_bytes,
    }
}

/// Public description of a sealed segment.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// Number of the segment, ascending in the order of sealing.
    pub number: u64,
    /// Name of the segment's file.
    pub file: String,
    /// Bytes of the segment, footer included.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of rows.
    pub rows: u64,
    /// Earliest time in the segment, ns.
    pub first_time: i64,
    /// Latest time in the segment, ns.
    pub last_time: i64,
}

/// Findings of a start.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Number of sealed segments in service.
    pub segments: u64,
    /// Names of files set aside, each with the reason.
    pub set_aside: Vec<(String, String)>,
    /// Number of journal files read.
    pub journal_files: u64,
    /// Bytes of the journal read.
    pub journal_bytes: u64,
    /// Rows restored from the journal.
    pub rows_replayed: u64,
    /// Rows in the journal that sealed segments already contain.
    pub rows_skipped: u64,
    /// Rows in the losses that this start found, as far as their number is known.
    pub rows_lost: u64,
    /// Losses that this start found.
    pub losses: Vec<Loss>,
    /// Bytes of an unreadable last journal record. The record was torn by a power cut and never
    /// acknowledged as durable, or it was damaged later.
    pub torn_bytes: u64,
    /// Segments out of service because of damage, including those set aside earlier.
    pub damaged_segments: u64,
    /// True if everything must be sealed at once, because a journal file must be set aside.
    pub(crate) needs_flush: bool,
    /// Duration of the start, ns.
    pub took_ns: u64,
}

impl std::fmt::Display for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} segments, {} rows replayed from {} journal bytes ({} already in segments, {} lost) in {} ms",
            self.segments,
            self.rows_replayed,
            self.journal_bytes,
            self.rows_skipped,
            self.rows_lost,
            self.took_ns / 1_000_000
        )?;
        if self.torn_bytes > 0 {
            write!(
                f,
                "; the last journal record ({} bytes) was torn",
                self.torn_bytes
            )?;
        }
        for (file, why) in &self.set_aside {
            write!(f, "; {file} set aside: {why}")?;
        }
        for loss in &self.losses {
            write!(f, "; {loss}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::class::Classes;

    fn view(counters: &Written) -> LogView<'_> {
        LogView {
            now: 77,
            fill: Fill {
                budget: 1000,
                used: 500,
                live: 1,
                reserved: 100,
                um: 0.8,
            },
            files: 400,
            segment_bytes: 64,
            policy: MergePolicy::default(),
            memory: Memory::default(),
            lanes: Vec::new(),
            sealed: Vec::new(),
            open: Vec::new(),
            classes: Vec::new(),
            counters,
            extra_left: 3,
        }
    }

    #[test]
    fn a_log_lists_sealed_and_open_segments_by_number() {
        let stat = |number| SegmentStat {
            number,
            lane: 0,
            bytes: 64,
            live: 60,
            dead: 4,
            born: 1,
            dies: Death::Unknown,
        };
        let open = |number, reserved, bytes| OpenStat {
            number,
            lane: 1,
            reserved,
            bytes,
        };
        let counters = Written::default();
        let log = log_status(LogView {
            sealed: vec![stat(3), stat(1)],
            open: vec![open(4, 64, 10), open(2, 16, 20)],
            ..view(&counters)
        });
        let found = log.segments.iter().map(|segment| {
            let stat = &segment.stat;
            (stat.number, segment.open, stat.bytes, stat.live, stat.born)
        });
        let expected = [
            (1, false, 64, 60, 1),
            // The segment has outgrown its reservation.
            (2, true, 20, 20, 77),
            (3, false, 64, 60, 1),
            (4, true, 64, 10, 77),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!((log.files, log.extra_left), (400, 3));
    }

    #[test]
    fn live_bytes_are_those_of_all_classes() {
        let class = |live| ClassStatus {
            class: Classes::default().list()[0].clone(),
            step_ns: None,
            sources: 1,
            live,
            hidden_before: i64::MIN,
        };
        let counters = Written {
            block_bytes: 100,
            merge_written: 50,
            ..Written::default()
        };
        let log = log_status(LogView {
            classes: vec![class(70), class(80)],
            ..view(&counters)
        });
        assert_eq!((log.fill.live, log.fill.used), (150, 500));
        assert_eq!(log.write_amplification(), 1.5);
        assert!(log.is_planing(), "the fill is below Um");
    }

    #[test]
    fn a_crash_loses_rows_outside_journal_and_blocks() {
        let accepted = Accepted {
            samples: 100,
            level_samples: 20,
            ..Accepted::default()
        };
        let journal = Unsynced {
            durable: 90,
            buffered: 1000,
            staged: 16,
            written: 8,
            since: (5, 7),
            ..Unsynced::default()
        };
        assert_eq!(journal.count(&accepted, 50, 105), (10, 24, 100));
        let staged = Unsynced {
            since: (0, 7),
            ..journal
        };
        assert_eq!(staged.count(&accepted, 50, 107).2, 100);
        let none = Unsynced {
            since: (0, 0),
            ..journal
        };
        assert_eq!(none.count(&accepted, 50, 107).2, 0);
        let memory = Unsynced {
            no_journal: true,
            ..journal
        };
        assert_eq!(memory.count(&accepted, 50, 105), (70, 1000, 100));
        // A commit that ends between two readings must not cause a negative number.
        let ahead = Unsynced {
            durable: 101,
            ..journal
        };
        assert_eq!(ahead.count(&accepted, 50, 105).0, 0);
    }
}
