//! Metrics of an array in OpenMetrics text.

use super::{LatencyReport, Report};
use crate::metrics::{counter, gauge};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// Returns the metrics of a report.
///
/// # Errors
/// If the text cannot be formatted.
pub fn text(report: Report) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("seiner_array");
    registry.register_collector(Box::new(Figures(report)));
    crate::metrics::text(&registry)
}

#[derive(Debug)]
struct Figures(Report);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (report, counters) = (&self.0, &self.0.counters);
        let encoder = &mut encoder;
        for (name, help, value) in [
            (
                "member_reads",
                "Operations that read members",
                counters.reads,
            ),
            (
                "member_writes",
                "Operations that wrote members",
                counters.writes,
            ),
            (
                "member_read_bytes",
                "Bytes read from members",
                counters.read_bytes,
            ),
            (
                "member_written_bytes",
                "Bytes written to members",
                counters.written_bytes,
            ),
            ("reads", "Reads that clients asked for", counters.user_reads),
            (
                "writes",
                "Writes that clients asked for",
                counters.user_writes,
            ),
            (
                "read_bytes",
                "Bytes that clients asked to read",
                counters.user_read_bytes,
            ),
            (
                "written_bytes",
                "Bytes that clients asked to write",
                counters.user_written_bytes,
            ),
            (
                "trimmed_bytes",
                "Bytes of the volume that were given up",
                counters.trimmed_bytes,
            ),
            (
                "whole_stripes",
                "Whole stripes written",
                counters.whole_stripes,
            ),
            (
                "partial_stripes",
                "Times that a part of a stripe was written",
                counters.partial_stripes,
            ),
            (
                "holds_expired",
                "Times that writes were held in vain",
                counters.holds_expired,
            ),
            (
                "repaired_blocks",
                "Blocks that were written again as they should be",
                counters.repaired_blocks,
            ),
            (
                "corrupt_blocks",
                "Blocks that were not what was written, by their checksums",
                counters.corrupt_blocks,
            ),
        ] {
            counter(encoder, name, help, value)?;
        }
        let held = report.areas.iter().filter(|area| area.holds).count();
        let there = |state: &str| {
            let members = report.members.iter().filter(|member| member.state == state);
            members.count() as f64
        };
        let is = |condition: &str| f64::from(u8::from(report.condition == condition));
        for (name, help, value) in [
            (
                "degraded",
                "1 when members are gone or being filled, and none more than the level bears",
                is("degraded"),
            ),
            (
                "broken",
                "1 when more members are gone than the level bears",
                is("broken"),
            ),
            (
                "members_up",
                "Members that have all they should have",
                there("up"),
            ),
            (
                "members_filling",
                "Members that are being filled",
                there("filling"),
            ),
            ("members_gone", "Members that are not used", there("gone")),
            (
                "spares",
                "Devices that wait for a member to be lost",
                report.spares.len() as f64,
            ),
            (
                "areas",
                "Areas that were written in the last seconds",
                (report.areas.len() + report.more_areas) as f64,
            ),
            (
                "areas_held",
                "Of these, areas in which writes are held",
                held as f64,
            ),
            (
                "outstanding",
                "Requests and member operations under way",
                report.outstanding as f64,
            ),
            (
                "unsettled_regions",
                "Regions that a power cut now would leave to be resynced",
                report.unsettled_regions as f64,
            ),
            (
                "doubtful_stripes",
                "Stripes of which lost data cannot be computed for certain",
                report.doubtful_stripes as f64,
            ),
        ] {
            gauge(encoder, name, help, value)?;
        }
        self.members(encoder)?;
        let times = &report.latencies;
        for (name, help, latency) in [
            (
                "write_wait_seconds",
                "What writes waited in the array before they were begun",
                &times.waited,
            ),
            ("write_seconds", "Until writes were answered", &times.writes),
            ("read_seconds", "Until reads were answered", &times.reads),
        ] {
            let times = Times {
                bounds: &times.bounds,
                latency,
            };
            times.encode(encoder.encode_descriptor(name, help, None, MetricType::Histogram)?)?;
        }
        Ok(())
    }
}

impl Figures {
    /// Registers a metric of each member, with the label `member`.
    fn members(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let members = &self.0.members;
        let stripes = self.0.stripes.max(1) as f64;
        let filled: Vec<f64> = members
            .iter()
            .map(|member| member.stripes as f64 / stripes)
            .collect();
        let corrupt: Vec<f64> = members
            .iter()
            .map(|member| member.corrupt_blocks as f64)
            .collect();
        let repaired: Vec<f64> = members
            .iter()
            .map(|member| member.repaired_blocks as f64)
            .collect();
        for (name, help, values) in [
            (
                "member_filled_share",
                "Share of the stripes that a member has",
                filled,
            ),
            (
                "member_corrupt_blocks",
                "Blocks of a member that were not what was written",
                corrupt,
            ),
            (
                "member_repaired_blocks",
                "Blocks of a member that were written again as they should be",
                repaired,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (number, value) in values.into_iter().enumerate() {
                let label = [("member", number.to_string())];
                ConstGauge::new(value).encode(family.encode_family(&label)?)?;
            }
        }
        Ok(())
    }
}

/// Registers latencies as a histogram.
struct Times<'a> {
    bounds: &'a [f64],
    latency: &'a LatencyReport,
}

impl EncodeMetric for Times<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.latency.classes.iter().copied()).collect();
        let (sum, count) = (self.latency.sum, self.latency.count);
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
