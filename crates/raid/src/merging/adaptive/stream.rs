//! Stream of writes: its outstanding blocks, the gaps between its writes, and the time in which it passes a stripe.
//! Each write of a stream starts where the previous write ended.

use super::{AdaptiveSettings, WEIGHT};
use crate::merging::Arrival;
use crate::request::Nanos;

/// Number of stripes of a stream whose bitmaps are kept.
const REMEMBERED: usize = 4;
/// Set of the blocks of a stripe that a stream has written.
pub struct WrittenBlocks {
    pub(super) stripe: u64,
    bitmap: Vec<u64>,
    blocks: u32,
}

/// Mode of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Writes wait only while further blocks arrive promptly.
    Gather,
    /// Writes may wait until their stripe is full, up to the deadline. The number counts the stripes passed in this
    /// mode.
    Fill(u32),
}

/// State of a stream.
pub struct Stream {
    pub(super) generation: u32,
    /// Block after the last written block.
    pub(super) front: u64,
    pub(super) run: u32,
    /// Number of all arrivals at the last write of the stream.
    pub(super) used: u64,
    /// Number of blocks without an acknowledgement, and number of these that wait.
    pub(super) outstanding: u32,
    pub(super) waiting: u32,
    /// Maximum number of outstanding blocks, in the present period and in the one before.
    pub(super) peaks: [u32; 2],
    pub(super) since_peak: u32,
    /// Time of the last arrival or acknowledgement, ns.
    pub(super) last_event: Nanos,
    pub(super) gap: f64,
    pub(super) due: f64,
    /// Sums in which older values fade: acknowledged blocks, and those that were followed promptly.
    pub(super) acknowledged: f64,
    pub(super) followed: f64,
    /// Number of acknowledged blocks that may still be followed promptly.
    pub(super) pending: f64,
    /// Share of stripes that were written completely in the end.
    pub(super) whole: f64,
    pub(super) mode: StreamMode,
    /// Start of the present stripe, ns, and mean time between the starts of two stripes (F), ns.
    pub(super) begun: Option<Nanos>,
    pub(super) period: Option<f64>,
    /// True if clients paused during the present stripe. The time of such a stripe is not measured.
    pub(super) interrupted: bool,
    /// Number of pauses of all clients at the last write of the stream.
    pub(super) pauses: u64,
    pub(super) pause: Nanos,
    pub(super) not_before: Nanos,
    /// Stripe at whose start the stream was opened, until its first write has started. Such a write waits for the
    /// next one.
    pub(super) opening: Option<u64>,
    /// True if the stream was opened at the start of a stripe and none of its writes has been acknowledged. The
    /// next stripes of such a stream are openings too.
    pub(super) fresh: bool,
    /// Stripes that wait because of a verdict of this strategy.
    pub(super) held: Vec<u64>,
    pub(super) written: Vec<WrittenBlocks>,
}

impl Stream {
    pub(super) fn new(generation: u32, arrival: &Arrival, settings: AdaptiveSettings) -> Stream {
        Stream {
            generation,
            front: arrival.start,
            run: 0,
            used: 0,
            outstanding: 0,
            waiting: 0,
            peaks: [0; 2],
            since_peak: 0,
            last_event: arrival.now,
            gap: 2000.0,
            due: 0.0,
            acknowledged: 1.0,
            followed: 1.0,
            pending: 0.0,
            whole: 1.0,
            mode: StreamMode::Gather,
            begun: None,
            period: None,
            interrupted: false,
            pauses: 0,
            pause: settings.pauses.0,
            not_before: 0,
            opening: None,
            fresh: false,
            held: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Returns the recent maximum of outstanding blocks (the paper's block size times depth).
    pub(super) fn window(&self) -> u32 {
        self.peaks[0].max(self.peaks[1])
    }

    /// Returns the share of acknowledged blocks that were followed promptly, as far as it is known.
    pub(super) fn promptness(&self) -> f64 {
        self.followed / (self.acknowledged - self.pending).max(self.followed)
    }

    /// Notes a write. Reads kept clients busy until `busy_until`. `pauses` is the number of pauses of all clients
    /// so far.
    pub(super) fn arrive(
        &mut self,
        arrival: &Arrival,
        busy_until: Nanos,
        pauses: u64,
        settings: &AdaptiveSettings,
    ) {
        if arrival.start == self.front {
            self.run = (self.run + 1).min(settings.least_run);
        }
        self.front = self.front.max(arrival.start + u64::from(arrival.blocks));
        let gap = arrival.now - self.last_event;
        let idle = arrival.now - self.last_event.max(busy_until);
        let paused = std::mem::replace(&mut self.pauses, pauses) != pauses;
        if self.outstanding == 0 && (paused || idle > settings.longest_gap) {
            self.resume(if paused { gap } else { idle });
        }
        if self.due > 0.0 && gap <= settings.longest_gap {
            self.gap += WEIGHT * (gap as f64 - self.gap);
            self.followed += f64::from(arrival.blocks);
        }
        self.pending = match gap <= settings.longest_gap {
            true => (self.pending - f64::from(arrival.blocks)).max(0.0),
            false => 0.0,
        };
        self.due = (self.due - f64::from(arrival.blocks)).max(0.0);
        self.last_event = arrival.now;
        self.outstanding += arrival.blocks;
        self.waiting += arrival.blocks;
        self.peaks[0] = self.peaks[0].max(self.outstanding);
        self.since_peak += arrival.blocks;
        if self.since_peak > 4 * self.window() {
            self.since_peak = 0;
            self.peaks = [self.outstanding, self.peaks[0]];
        }
    }

    /// Handles the first write after a time without outstanding blocks. That time does not count as time in which
    /// stripes were passed. It does not show how promptly writes follow acknowledgements. As many blocks as were
    /// outstanding before are due at once.
    fn resume(&mut self, idle: Nanos) {
        self.begun = self.begun.map(|begun| begun + idle);
        self.interrupted = true;
        self.acknowledged = (self.acknowledged - self.pending).max(self.followed);
        self.pending = 0.0;
        self.due = f64::from(self.window());
    }

    pub(super) fn acknowledge(&mut self, now: Nanos, blocks: u32) {
        self.outstanding -= blocks;
        self.fresh = false;
        self.due += f64::from(blocks) * self.promptness();
        let fade = 0.5f64.powf(f64::from(blocks) / 64.0);
        self.acknowledged = self.acknowledged * fade + f64::from(blocks);
        self.followed *= fade;
        self.pending = (self.pending + f64::from(blocks)).min(f64::from(self.window()));
        self.due = self
            .due
            .min(f64::from(self.window().saturating_sub(self.outstanding)));
        self.last_event = now;
    }

    /// Notes the blocks of an arrival. Returns the stripe whose set of blocks is dropped for it, if there is one.
    pub(super) fn note(
        &mut self,
        arrival: &Arrival,
        stripe_blocks: u32,
        followed: bool,
    ) -> Option<u64> {
        if !self
            .written
            .iter()
            .any(|written| written.stripe == arrival.stripe)
        {
            let bitmap = vec![0; stripe_blocks.div_ceil(64) as usize];
            self.written.push(WrittenBlocks {
                stripe: arrival.stripe,
                bitmap,
                blocks: 0,
            });
            if followed {
                self.pass(arrival.now);
            }
        }
        let found = self
            .written
            .iter_mut()
            .find(|written| written.stripe == arrival.stripe);
        found.expect("the stripe was just added").set(
            (arrival.start % u64::from(stripe_blocks)) as u32,
            arrival.blocks,
        );
        if self.written.len() <= REMEMBERED {
            return None;
        }
        let oldest = (0..self.written.len()).min_by_key(|&at| self.written[at].stripe)?;
        let oldest = self.written.swap_remove(oldest);
        let whole = f64::from(u8::from(oldest.blocks == stripe_blocks));
        self.whole += WEIGHT * (whole - self.whole);
        Some(oldest.stripe)
    }

    /// Notes the start of a stripe. Measures the time since the start of the stripe before.
    fn pass(&mut self, now: Nanos) {
        let interrupted = std::mem::take(&mut self.interrupted);
        let Some(begun) = self.begun.replace(now) else {
            return;
        };
        // The stripe at the end of a burst includes the pause. Its time counts only if no other time is known.
        let filling = matches!(self.mode, StreamMode::Fill(_));
        if interrupted && (filling || self.period.is_some()) {
            return;
        }
        let time = (now - begun) as f64;
        if let StreamMode::Fill(stripes) = &mut self.mode {
            *stripes += 1;
            // A stripe that was begun before filling does not show the effect of filling.
            if *stripes == 1 {
                return;
            }
        }
        self.period = Some(
            self.period
                .map_or(time, |period| period + WEIGHT * (time - period)),
        );
    }

    /// Returns the number of blocks of a stripe that the stream has not written yet.
    pub(super) fn to_come(&self, stripe: u64, stripe_blocks: u32) -> u32 {
        let written = self.written.iter().find(|written| written.stripe == stripe);
        stripe_blocks - written.map_or(stripe_blocks, |written| written.blocks)
    }
}

impl WrittenBlocks {
    fn set(&mut self, first: u32, blocks: u32) {
        for block in first..first + blocks {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            self.blocks += u32::from(self.bitmap[word] & bit == 0);
            self.bitmap[word] |= bit;
        }
    }
}
