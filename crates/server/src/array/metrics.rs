//! Metrics of an array in OpenMetrics text.

use super::{LatencyReport, MemberReport, Report};
use crate::metric_text::{self, counter, gauge, labelled};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Returns the metrics of a report.
///
/// # Errors
/// If the text cannot be formatted.
pub fn text(report: Report) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("seiner_array");
    registry.register_collector(Box::new(ArrayCollector(report)));
    metric_text::text(&registry)
}

#[derive(Debug)]
struct ArrayCollector(Report);

impl Collector for ArrayCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (report, counters) = (&self.0, &self.0.counters);
        let encoder = &mut encoder;
        for (name, help, value) in [
            ("member_reads", "Read operations on members", counters.reads),
            (
                "member_writes",
                "Write operations on members",
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
            ("reads", "Read requests of clients", counters.user_reads),
            ("writes", "Write requests of clients", counters.user_writes),
            (
                "read_bytes",
                "Bytes that clients read",
                counters.user_read_bytes,
            ),
            (
                "written_bytes",
                "Bytes that clients wrote",
                counters.user_written_bytes,
            ),
            (
                "trimmed_bytes",
                "Bytes of the volume that clients trimmed",
                counters.trimmed_bytes,
            ),
            (
                "whole_stripes",
                "Stripes that were written whole",
                counters.whole_stripes,
            ),
            (
                "partial_stripes",
                "Partial writes of stripes",
                counters.partial_stripes,
            ),
            (
                "holds_expired",
                "Holds of writes that ended before the stripe was full",
                counters.holds_expired,
            ),
            (
                "repaired_blocks",
                "Unreadable or wrong blocks that were rewritten",
                counters.repaired_blocks,
            ),
            (
                "corrupt_blocks",
                "Blocks that did not match their checksums",
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
                "1 if members are lost or being rebuilt, and no more than the RAID level permits",
                is("degraded"),
            ),
            (
                "broken",
                "1 if more members are lost than the RAID level permits",
                is("broken"),
            ),
            ("members_up", "Members that are complete", there("up")),
            (
                "members_filling",
                "Members that are being rebuilt",
                there("filling"),
            ),
            ("members_gone", "Members that are lost", there("gone")),
            (
                "spares",
                "Devices that will replace the next lost members",
                report.spares.len() as f64,
            ),
            (
                "areas",
                "Areas that were written in the last seconds",
                (report.areas.len() + report.more_areas) as f64,
            ),
            ("areas_held", "Areas in which writes are held", held as f64),
            (
                "outstanding_operations",
                "Requests and member operations in flight",
                report.outstanding as f64,
            ),
            (
                "dirty_regions",
                "Regions that would need a resync after a power cut now",
                report.dirty_regions as f64,
            ),
            (
                "doubtful_stripes",
                "Stripes whose lost data cannot be computed reliably",
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
                "Time that writes waited in the array before they were started",
                &times.waited,
            ),
            (
                "write_seconds",
                "Time until writes were answered",
                &times.writes,
            ),
            (
                "read_seconds",
                "Time until reads were answered",
                &times.reads,
            ),
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

impl ArrayCollector {
    /// Encodes the metrics of each member, with the label `member`.
    fn members(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stripes = self.0.stripes.max(1) as f64;
        let numbers: Vec<String> = (0..self.0.members.len())
            .map(|number| number.to_string())
            .collect();
        let of_members = |value: &dyn Fn(&MemberReport) -> f64| -> Vec<(&str, f64)> {
            let members = numbers.iter().zip(&self.0.members);
            members
                .map(|(number, member)| (number.as_str(), value(member)))
                .collect()
        };
        for (name, help, values) in [
            (
                "member_filled_ratio",
                "Share of the stripes that a member has",
                of_members(&|member| member.stripes as f64 / stripes),
            ),
            (
                "member_corrupt_blocks",
                "Blocks of a member that did not match their checksums",
                of_members(&|member| member.corrupt_blocks as f64),
            ),
            (
                "member_repaired_blocks",
                "Unreadable or wrong blocks of a member that were rewritten",
                of_members(&|member| member.repaired_blocks as f64),
            ),
        ] {
            labelled(encoder, name, help, "member", &values)?;
        }
        Ok(())
    }
}

/// Latencies, encoded as a histogram.
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
