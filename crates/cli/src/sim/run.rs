//! Result of one simulation, as a row of a table and as JSON.

use seiner_merge::simulate::Outcome;
use seiner_merge::{Lane, MergePolicy};
use serde_json::{Value, json};

/// One simulation and its result.
pub struct Run {
    /// Policy of the simulation.
    pub policy: MergePolicy,
    /// Requested live share; with a trace, the live share at its end.
    pub v: f64,
    /// Capacity of the store in bytes.
    pub budget: u64,
    /// Number of lanes; 1 for a single log.
    pub lanes: u32,
    /// Result of the simulation.
    pub outcome: Outcome,
}

impl Run {
    /// Returns the live shares of the segments at the end, in ascending order.
    pub fn live_shares(&self) -> Vec<f64> {
        let segments = self.outcome.segments.iter();
        let mut shares: Vec<f64> = segments.map(|one| 1.0 - one.dead_share()).collect();
        shares.sort_by(f64::total_cmp);
        shares
    }

    /// Returns the columns of the table: name and text.
    pub fn columns(&self) -> [(&'static str, String); 11] {
        let Outcome { counts, .. } = &self.outcome;
        let merged = match counts.merges {
            0 => "-".to_string(),
            merges => format!("{:.3}", counts.merged_dead_share / merges as f64),
        };
        [
            ("V", format!("{:.3}", self.v)),
            ("policy", self.policy.to_string()),
            ("lanes", self.lanes.to_string()),
            ("written", format!("{:.3}", self.outcome.written_per_byte())),
            ("drops", counts.drops.to_string()),
            ("merges", counts.merges.to_string()),
            ("merged_D", merged),
            ("mean_U", format!("{:.3}", self.outcome.mean_u)),
            ("peak_U", format!("{:.3}", self.outcome.peak_u)),
            ("throttled_s", format!("{:.1}", counts.throttled_s)),
            (
                "full",
                if self.outcome.full.is_some() {
                    "yes"
                } else {
                    "no"
                }
                .to_string(),
            ),
        ]
    }

    /// Returns all data of a run as JSON.
    pub fn json(&self) -> Value {
        let outcome = &self.outcome;
        let counts = &outcome.counts;
        let lane = |lane: &Lane| {
            json!({
                "lane": lane.id, "from_ns": lane.from, "to_ns": lane.to,
                "flow_share": lane.flow_share, "segment_bytes": lane.segment_bytes,
            })
        };
        json!({
            "policy": self.policy.name(),
            "v": self.v,
            "budget_bytes": self.budget,
            "lanes": self.lanes,
            "written_per_byte": outcome.written_per_byte(),
            "arrived_bytes": counts.arrived,
            "rewritten_bytes": counts.rewritten,
            "drops": counts.drops,
            "merges": counts.merges,
            "merged_dead_share_sum": counts.merged_dead_share,
            "mean_u": outcome.mean_u,
            "peak_u": outcome.peak_u,
            "throttled_s": counts.throttled_s,
            "full": outcome.full.is_some(),
            "lane_intervals": outcome.lanes.iter().map(lane).collect::<Vec<_>>(),
            "segment_live_shares": self.live_shares(),
            "fill": outcome.fill.iter().map(|(bytes, u)| json!([bytes, u])).collect::<Vec<_>>(),
        })
    }
}
