//! Simulation of lanes and policies over a synthetic workload or a recorded trace. Stores no bytes;
//! predicts the write amplification of a store before it is built.

mod store;
pub mod trace;
mod workload;

pub use store::{Counts, Full, Store};
pub use workload::{Arrival, Arrivals, Class, ClassKeep, Keep, Stream, Workload};

use crate::{
    Fill, Lane, LaneId, LaneSettings, Lanes, MergePolicy, Policy, SegmentStat, Throttle, View,
    least_dead_share,
};

/// Parameters of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Budget of the store in bytes, C.
    pub budget: u64,
    /// Fill from which on segments are merged, Um.
    pub um: f64,
    /// Size of the largest segment in bytes, R.
    pub segment_bytes: u64,
    /// Merge policy.
    pub policy: MergePolicy,
    /// Lanes; `None` for a single log.
    pub lanes: Option<LaneSettings>,
    /// Delay of writers.
    pub throttle: Throttle,
    /// Bytes that arrive before the measurement starts.
    pub warm_up: u64,
    /// Bytes that arrive during the measurement.
    pub measured: u64,
}

/// Result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Counts of the measured part.
    pub counts: Counts,
    /// Mean fill over the measured part, U.
    pub mean_u: f64,
    /// Highest fill over the whole run.
    pub peak_u: f64,
    /// Live share at the end, V.
    pub v: f64,
    /// Segments at the end.
    pub segments: Vec<SegmentStat>,
    /// Lanes at the end.
    pub lanes: Vec<Lane>,
    /// Fill after each sealed segment, with the bytes that had arrived by then.
    pub fill: Vec<(u64, f64)>,
    /// Reason for an early end; `None` if the run was complete.
    pub full: Option<Full>,
}

impl Outcome {
    /// Returns the bytes written to segments per byte of blocks that arrived.
    pub fn written_per_byte(&self) -> f64 {
        (self.counts.arrived + self.counts.rewritten) as f64 / self.counts.arrived.max(1) as f64
    }
}

/// Runs `arrivals` through a store. The run ends with the last arrival, with the last byte to
/// measure, or when the store is full. Arrivals at negative times fill the store beforehand and do
/// not count. `progress` is called with the arrived bytes after each sealed segment.
pub fn run(
    settings: &Settings,
    arrivals: impl Iterator<Item = Arrival>,
    mut progress: impl FnMut(u64),
) -> Outcome {
    let mut running = Running::new(settings);
    let mut full = None;
    for arrival in arrivals {
        running.begin(&arrival);
        if running.arrived() >= settings.warm_up + settings.measured {
            break;
        }
        let sealed = running.fill.len();
        if let Err(reason) = running.arrive(&arrival) {
            full = Some(reason);
            break;
        }
        if running.fill.len() > sealed {
            progress(running.arrived());
        }
    }
    running.outcome(full)
}

/// State of a running simulation.
struct Running<'a> {
    settings: &'a Settings,
    store: Store,
    policy: Box<dyn Policy>,
    stage: Stage,
    /// Counts at the start of the measurement.
    before: Counts,
    /// Sum of the fills after each measured segment, and their number.
    u_sum: (f64, u32),
    fill: Vec<(u64, f64)>,
}

/// Stage of a simulation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Fills the store; nothing counts.
    Filling,
    /// Runs until the store is in a steady state.
    WarmUp,
    /// Counts for the result.
    Measuring,
}

impl<'a> Running<'a> {
    fn new(settings: &'a Settings) -> Running<'a> {
        let lanes = settings.lanes.map(Lanes::new);
        Running {
            settings,
            store: Store::new(settings.budget, settings.um, settings.segment_bytes, lanes),
            policy: settings.policy.policy(),
            stage: Stage::Filling,
            before: Counts::default(),
            u_sum: (0.0, 0),
            fill: Vec::new(),
        }
    }

    /// Returns the bytes that arrived since the store was filled.
    fn arrived(&self) -> u64 {
        match self.stage {
            Stage::Filling => 0,
            _ => self.store.counts.arrived,
        }
    }

    /// Enters the next stage if `arrival` is its first.
    fn begin(&mut self, arrival: &Arrival) {
        if self.stage == Stage::Filling && arrival.at >= 0 {
            self.stage = Stage::WarmUp;
            self.store.counts = Counts::default();
            self.fill.clear();
        }
        if self.stage == Stage::WarmUp && self.store.counts.arrived >= self.settings.warm_up {
            self.stage = Stage::Measuring;
            self.before = self.store.counts;
            self.u_sum = (0.0, 0);
        }
    }

    fn arrive(&mut self, arrival: &Arrival) -> Result<(), Full> {
        let lane = self.store.lane(arrival);
        self.store.expire();
        if !self.store.fits(lane, arrival.bytes) {
            self.turn_over(lane, arrival.bytes)?;
        }
        self.store.write(arrival, lane);
        Ok(())
    }

    /// Seals the open segment of a lane and merges. Opens the next segment, unless the merge opened one with space for
    /// `bytes` more.
    fn turn_over(&mut self, lane: LaneId, bytes: u32) -> Result<(), Full> {
        self.store.seal(lane);
        self.merge();
        let u = self.store.fill().u();
        self.u_sum = (self.u_sum.0 + u, self.u_sum.1 + 1);
        self.fill.push((self.store.counts.arrived, u));
        self.store.counts.throttled_s += self.settings.throttle.delay_s(u);
        match self.store.fits(lane, bytes) {
            true => Ok(()),
            false => self.store.open(lane),
        }
    }

    /// Decides and carries out until a decision is empty.
    fn merge(&mut self) {
        loop {
            let view = View {
                now: self.store.now(),
                fill: self.store.fill(),
                output_limit: self.settings.segment_bytes,
                least_dead_share: least_dead_share(false),
                segments: self.store.stats(),
            };
            let decision = self.policy.choose(&view);
            if decision.is_empty() {
                return;
            }
            self.store.carry_out(&decision);
        }
    }

    fn outcome(self, full: Option<Full>) -> Outcome {
        let (sum, count) = self.u_sum;
        let fill: Fill = self.store.fill();
        Outcome {
            counts: self.store.counts.since(&self.before),
            mean_u: if count == 0 {
                fill.u()
            } else {
                sum / f64::from(count)
            },
            peak_u: self.store.peak() as f64 / self.settings.budget as f64,
            v: fill.v(),
            segments: self.store.stats().to_vec(),
            lanes: self.store.lanes().map(Lanes::lanes).unwrap_or_default(),
            fill: self.fill,
            full,
        }
    }
}

impl Counts {
    /// Returns the difference to the earlier counts `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            arrived: self.arrived - before.arrived,
            rewritten: self.rewritten - before.rewritten,
            drops: self.drops - before.drops,
            merges: self.merges - before.merges,
            merged_dead_share: self.merged_dead_share - before.merged_dead_share,
            throttled_s: self.throttled_s - before.throttled_s,
        }
    }
}
