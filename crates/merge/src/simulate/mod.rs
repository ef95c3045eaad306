//! The same lanes and policies over a synthetic workload or a recorded trace, without any bytes:
//! what a store would write, before it is tried.

mod random;
mod store;
pub mod trace;
mod workload;

pub use store::{Counts, Full, Store};
pub use workload::{Arrival, Arrivals, Class, ClassKeep, Keep, Stream, Workload};

use crate::{
    Fill, Kind, Lane, LaneId, LaneSettings, Lanes, Policy, SegmentStat, Throttle, View,
    least_dead_share,
};

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Bytes of the store, C.
    pub budget: u64,
    /// Where merging begins, Um.
    pub um: f64,
    /// The largest segment, R.
    pub segment_bytes: u64,
    /// The policy.
    pub policy: Kind,
    /// Lanes; none: one log for everything.
    pub lanes: Option<LaneSettings>,
    /// When writers are delayed.
    pub throttle: Throttle,
    /// Bytes that arrive before anything is counted.
    pub warm_up: u64,
    /// Bytes that arrive while it is counted.
    pub measured: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was counted while it was measured.
    pub counts: Counts,
    /// Mean fill while it was measured, U.
    pub mean_u: f64,
    /// The highest fill ever.
    pub peak_u: f64,
    /// Live share at the end, V.
    pub v: f64,
    /// The segments at the end.
    pub segments: Vec<SegmentStat>,
    /// What the lanes take at the end.
    pub lanes: Vec<Lane>,
    /// Bytes that had arrived, and the fill then.
    pub fill: Vec<(u64, f64)>,
    /// Why it ended early.
    pub full: Option<Full>,
}

impl Outcome {
    /// Bytes written to segments for each byte of blocks that arrived.
    pub fn written_per_byte(&self) -> f64 {
        (self.counts.arrived + self.counts.rewritten) as f64 / self.counts.arrived.max(1) as f64
    }
}

/// Runs `arrivals` through a store. Ends when they do, when all was measured, or when the store is
/// full. Arrivals at negative times fill it beforehand, and are not counted. `progress` is told how
/// many bytes have arrived whenever a segment was sealed.
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

/// A simulation on its way.
struct Running<'a> {
    settings: &'a Settings,
    store: Store,
    policy: Box<dyn Policy>,
    stage: Stage,
    /// What had been counted when measuring began.
    before: Counts,
    /// Fill at the segments sealed while measuring: the sum, and how many.
    u_sum: (f64, u32),
    fill: Vec<(u64, f64)>,
}

/// How far a simulation has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Filling the store: nothing counts.
    Filling,
    /// Settling.
    WarmUp,
    /// What is reported.
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

    /// Bytes that arrived since the store was full.
    fn arrived(&self) -> u64 {
        match self.stage {
            Stage::Filling => 0,
            _ => self.store.counts.arrived,
        }
    }

    /// Goes on to the next stage if `arrival` is the first of it.
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
            self.turn_over(lane)?;
        }
        self.store.write(arrival, lane);
        Ok(())
    }

    /// Seals a lane's segment, merges, and opens the next one.
    fn turn_over(&mut self, lane: LaneId) -> Result<(), Full> {
        self.store.seal(lane);
        self.merge();
        let u = self.store.fill().u();
        self.u_sum = (self.u_sum.0 + u, self.u_sum.1 + 1);
        self.fill.push((self.store.counts.arrived, u));
        self.store.counts.throttled_s += self.settings.throttle.delay_s(u);
        self.store.open(lane)
    }

    /// Decides and carries out until nothing is left to be done.
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
    /// What was counted after `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            arrived: self.arrived - before.arrived,
            rewritten: self.rewritten - before.rewritten,
            drops: self.drops - before.drops,
            merges: self.merges - before.merges,
            merged_dead_share: self.merged_dead_share - before.merged_dead_share,
            outputs: self.outputs - before.outputs,
            throttled_s: self.throttled_s - before.throttled_s,
        }
    }
}
