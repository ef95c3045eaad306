//! Simulation of merging with the store's own lanes and policy. The simulated store has the planned proportions and
//! contains no data.

use crate::demand::Demand;
use crate::forecast::{Choice, Forecast};
use seiner_merge::simulate::{self, Class, ClassKeep, Stream, Workload};
use seiner_merge::{LaneSettings, MergePolicy, Throttle};

/// Number of sources of the simulated store.
const SOURCES: u32 = 1000;
/// Blocks per segment of the simulated store.
const SEGMENT_BLOCKS: u64 = 32;
/// Bounds of the number of segments in the simulated budget.
const SEGMENTS: (f64, f64) = (32.0, 1500.0);
/// Number of times that the budget is written before the measurement.
const WARM_UP: u64 = 2;
/// Number of times that the budget is written during the measurement.
const MEASURED: u64 = 2;
/// Live share V at which no store can work any more.
const FULL: f64 = 0.97;

/// Returns the bytes written to segments per byte stored; `None` if the simulated store filled up.
pub fn written_per_byte(demand: &Demand, choice: &Choice, forecast: &Forecast) -> Option<f64> {
    if !(forecast.live > 0.0 && forecast.live < FULL) {
        return None;
    }
    let segments = (choice.budget / choice.segment_bytes).clamp(SEGMENTS.0, SEGMENTS.1);
    let blocks = (segments * SEGMENT_BLOCKS as f64) as u64;
    let live_blocks = ((blocks as f64 * forecast.live) as u64).max(1);
    let class = |life: &crate::demand::Lifetime| Class {
        keep: ClassKeep::Age(life.keep_s),
        sources: life.share,
        flow: life.share,
    };
    let workload = Workload {
        classes: demand.lifetimes.iter().map(class).collect(),
        ..Workload::ages(SOURCES.min(live_blocks as u32), &[1.0], live_blocks, 0.0, 1)
    };
    let block = u64::from(workload.block_bytes);
    let (budget, segment_bytes) = (blocks * block, SEGMENT_BLOCKS * block);
    let settings = simulate::Settings {
        budget,
        um: choice.merge_from,
        segment_bytes,
        policy: MergePolicy::Patient,
        lanes: Some(LaneSettings {
            lanes: choice.lanes,
            segment_bytes,
            least_bytes: segment_bytes / 16,
        }),
        throttle: Throttle::default(),
        warm_up: WARM_UP * budget,
        measured: MEASURED * budget,
    };
    let outcome = simulate::run(&settings, Stream::new(&workload), |_| {});
    outcome.full.is_none().then(|| outcome.written_per_byte())
}
