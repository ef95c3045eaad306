//! Phases of a case: their duration, memory, waits and hold times of the lock.

use crate::process::Usage;
use anyhow::Result;
use seiner_engine::{Engine, Holds};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Measurements of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Phase {
    pub name: String,
    pub wall_s: f64,
    /// Maximum memory of the process during the phase, bytes.
    pub peak_rss: u64,
    /// Waits of batches, ms: median, 99 %, 99.9 %, maximum; `None` without batches.
    pub waits_ms: Option<[f64; 4]>,
    pub holds: u64,
    /// Hold times of the lock, ms: 99 %, 99.9 %, 99.99 %.
    pub holds_ms: [f64; 3],
}

/// Phases of a case, measured one after the other.
pub(super) struct Phases {
    began: Instant,
    pub waits: Vec<f64>,
    holds: Option<Holds>,
    pub done: Vec<Phase>,
}

impl Phases {
    pub(super) fn begin() -> Phases {
        reset_peak();
        Phases {
            began: Instant::now(),
            waits: Vec::new(),
            holds: None,
            done: Vec::new(),
        }
    }

    pub(super) fn end(&mut self, name: &str, engine: &Engine) -> Result<()> {
        let all = engine.lock_holds();
        // The counters of a store start from zero at each opening.
        let before = self
            .holds
            .take()
            .filter(|before| before.count() <= all.count());
        let holds = before.map_or_else(|| all.clone(), |before| all.since(&before));
        self.done.push(Phase {
            name: name.to_string(),
            wall_s: self.began.elapsed().as_secs_f64(),
            peak_rss: Usage::own()?.peak_rss,
            waits_ms: waits(std::mem::take(&mut self.waits)),
            holds: holds.count(),
            holds_ms: [0.99, 0.999, 0.9999].map(|part| milliseconds(holds.quantile(part))),
        });
        self.holds = Some(all);
        reset_peak();
        self.began = Instant::now();
        Ok(())
    }
}

/// Resets the kernel's peak of memory. If the kernel does not support the reset, later peaks include
/// those of earlier phases.
pub(super) fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the median, 99 %, 99.9 % and the maximum.
fn waits(mut waits: Vec<f64>) -> Option<[f64; 4]> {
    waits.sort_by(f64::total_cmp);
    let last = waits.len().checked_sub(1)?;
    Some([0.5, 0.99, 0.999, 1.0].map(|part| waits[(last as f64 * part).ceil() as usize]))
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_listed_by_rank() {
        assert_eq!(waits(Vec::new()), None);
        let found = waits((1..=1000).map(f64::from).collect()).unwrap();
        assert_eq!(found, [501.0, 991.0, 1000.0, 1000.0]);
    }
}
