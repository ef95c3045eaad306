//! `/metrics`: every metric of store, ports and process in OpenMetrics text.

use crate::access::Access;
use crate::alerts::AlertState;
use crate::cluster_metrics;
use crate::cluster_view::ClusterView;
use crate::device::Device;
use crate::health::{Severity, Trouble, of_store};
use crate::history::{History, Period, Written};
use crate::metric_text::{counter, float_counter, gauge, known, labelled, labelled_counters};
use crate::mqtt::MqttState;
use crate::scrape::ScrapeState;
use crate::statsd::StatsdState;
use crate::store_metrics::{MetricKind, STORE_METRICS};
use crate::system::ProcessStats;
use crate::traffic::{ProtocolCounters, TrafficCounters};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use seiner_store::{ClassStatus, LogStatus, Status, Store};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Collector that reads all values on request, so that nothing is counted twice.
pub struct StoreCollector {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Counters of all ports.
    pub traffic: Arc<TrafficCounters>,
    /// Bytes written lately.
    pub history: Arc<History>,
    /// Cluster, if the store is a port of one.
    pub cluster: Option<Arc<dyn ClusterView>>,
    /// State of MQTT.
    pub mqtt: Arc<MqttState>,
    /// Rules of alerts, from the opening of the ports on.
    pub alerts: Arc<OnceLock<AlertState>>,
    /// State of scraping.
    pub scrape: Arc<ScrapeState>,
    /// Metrics of StatsD.
    pub statsd: Arc<StatsdState>,
    /// Tokens.
    pub access: Arc<Access>,
    /// Bytes that may be written to the device in its lifetime.
    pub device_tbw: Option<u64>,
}

impl fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreCollector")
    }
}

/// Collector of the metrics of this process, under the names that all programs use.
#[derive(Debug)]
struct ProcessCollector;

/// Creates a registry with all metrics.
pub fn registry(collector: StoreCollector) -> Registry {
    let mut registry = Registry::default();
    let seiner = registry.sub_registry_with_prefix("seiner");
    seiner.register_collector(Box::new(collector));
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// Returns the name and value of a metric in base units: times in seconds.
fn in_base_units(key: &str, value: u64) -> (String, f64) {
    match key.strip_suffix("_ns") {
        Some(name) => (format!("{name}_seconds"), value as f64 / 1e9),
        None => (key.to_string(), value as f64),
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let status = self.store.status();
        for metric in STORE_METRICS {
            let value = (metric.of)(&status);
            let (name, scaled) = in_base_units(metric.key, value);
            match metric.kind {
                MetricKind::Counter if name == metric.key => {
                    counter(encoder, &name, metric.help, value)?;
                }
                MetricKind::Counter => float_counter(encoder, &name, metric.help, scaled)?,
                MetricKind::Gauge => gauge(encoder, &name, metric.help, scaled)?,
            }
        }
        gauge(
            encoder,
            "poisoned",
            "1 if the store rejects writes until it is opened again",
            f64::from(status.poisoned.is_some()),
        )?;
        let troubles = of_store(&status, &self.store.classes(), &self.store.losses());
        trouble(&status, &troubles, encoder)?;
        self.ports(encoder)?;
        if let Some(embedded) = self.store.embedded() {
            log(&embedded.log(), encoder)?;
        }
        self.written(&self.history.written(&status), encoder)?;
        let cluster = self.cluster.as_ref().map(|cluster| cluster.status());
        cluster_metrics::encode(cluster.as_ref(), encoder)?;
        self.mqtt.encode(encoder)?;
        self.scrape.encode(encoder)?;
        if let Some(alerts) = self.alerts.get() {
            alerts.encode(encoder)?;
        }
        self.statsd.encode(encoder)?;
        self.access.encode(encoder)?;
        old_process_names(encoder, &ProcessStats::now())
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let process = ProcessStats::now();
        let help = "Processor time, user and system";
        float_counter(encoder, "process_cpu_seconds", help, process.cpu_s)?;
        let limit = process.open_files_limit;
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Bytes of resident memory",
                Some(process.rss_bytes as f64),
            ),
            (
                "process_virtual_memory_bytes",
                "Bytes of virtual memory",
                Some(process.virtual_bytes as f64),
            ),
            (
                "process_open_fds",
                "Open files, including sockets",
                Some(process.open_files as f64),
            ),
            (
                "process_max_fds",
                "Maximum number of open files",
                (limit > 0).then_some(limit as f64),
            ),
            (
                "process_threads",
                "Threads of the process",
                Some(process.threads as f64),
            ),
            (
                "process_start_time_seconds",
                "Time of the start of the process, since 1970",
                (process.started_s > 0.0).then_some(process.started_s),
            ),
        ] {
            known(encoder, name, help, value)?;
        }
        Ok(())
    }
}

/// Encodes the metrics of the process that had the prefix of the store.
fn old_process_names(encoder: &mut DescriptorEncoder<'_>, process: &ProcessStats) -> fmt::Result {
    counter(
        encoder,
        "process_written_bytes",
        "Bytes that the kernel wrote to devices for the process",
        process.written_bytes,
    )?;
    gauge(
        encoder,
        "process_resident_memory_bytes",
        "Deprecated: see process_resident_memory_bytes without prefix",
        process.rss_bytes as f64,
    )?;
    float_counter(
        encoder,
        "process_cpu_seconds",
        "Deprecated: see process_cpu_seconds_total without prefix",
        process.cpu_s,
    )
}

impl StoreCollector {
    /// Encodes the write amplification, and the expected life of the device.
    fn written(&self, written: &Written, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Ratio of the written bytes of blocks, including merges, to the stored bytes, over the last hour, day and \
                    since the start; at least 1";
        let periods = [
            ("hour", &written.hour),
            ("day", &written.day),
            ("start", &written.start),
        ];
        let known_ratio = |(over, period): (&'static str, &Period)| Some((over, period.per_byte?));
        let ratios: Vec<(&str, f64)> = periods.into_iter().filter_map(known_ratio).collect();
        labelled(
            encoder,
            "log_write_amplification_ratio",
            help,
            "over",
            &ratios,
        )?;
        let device = self.history.device().and_then(Device::written);
        let help = "Bytes that all processes wrote to the device of the data directory since the start of the host";
        let family =
            encoder.encode_descriptor("device_written_bytes", help, None, MetricType::Counter)?;
        if let Some(device) = device {
            ConstCounter::new(device).encode(family)?;
        }
        let (per_day, tbw) = (written.day.device_per_day(), self.device_tbw);
        let life = per_day.filter(|per_day| *per_day > 0.0).zip(tbw);
        for (name, help, value) in [
            (
                "device_written_bytes_per_second",
                "Bytes written to the device per second, at the rate of the last day",
                per_day.map(|per_day| per_day / DAY_S),
            ),
            (
                "device_written_bytes_per_day",
                "Deprecated: see device_written_bytes_per_second",
                per_day,
            ),
            (
                "device_lifetime_written_bytes",
                "Bytes that may be written to the device in its life, as `device_tbw` states",
                tbw.map(|tbw| tbw as f64),
            ),
            (
                "device_life_seconds",
                "Time for which a new device lasts at the rate of the last day",
                life.map(|(per_day, tbw)| tbw as f64 / per_day * DAY_S),
            ),
        ] {
            known(encoder, name, help, value)?;
        }
        Ok(())
    }

    /// Encodes the counters of each protocol.
    fn protocols(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Counter = fn(&ProtocolCounters) -> &AtomicU64;
        let counters: [(&str, &str, Counter); 6] = [
            (
                "ingest_rows",
                "Rows accepted at the ports, by protocol",
                |of| &of.rows,
            ),
            (
                "ingest_samples",
                "Samples accepted at the ports, by protocol",
                |of| &of.samples,
            ),
            (
                "ingest_rejected_rows",
                "Lines, samples, data points and messages that were rejected at the ports, by protocol",
                |of| &of.rejected,
            ),
            (
                "ingest_ignored",
                "Items that senders may send and this store does not keep, such as exemplars, by protocol",
                |of| &of.ignored,
            ),
            (
                "ingest_bytes",
                "Bytes received, after decompression, by protocol",
                |of| &of.bytes,
            ),
            (
                "ingest_dropped_datagrams",
                "Datagrams of UDP that the kernel dropped because its buffer was full, by protocol",
                |of| &of.dropped,
            ),
        ];
        for (name, help, counter) in counters {
            let counts = self.traffic.by_protocol(counter);
            labelled_counters(encoder, name, help, "protocol", &counts)?;
        }
        Ok(())
    }

    fn ports(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let traffic = &self.traffic;
        self.protocols(encoder)?;
        for (name, help, count) in [
            ("http_writes", "Writes started over HTTP", &traffic.writes),
            (
                "http_queries",
                "Queries started over HTTP",
                &traffic.queries,
            ),
            (
                "rejected_requests",
                "Requests and connections rejected because there were too many",
                &traffic.rejected_requests,
            ),
            ("connections", "Opened connections", &traffic.connections),
        ] {
            counter(encoder, name, help, count.load(Relaxed))?;
        }
        Ok(())
    }
}

/// Encodes the obstacles to writing, each 1 while it exists.
fn trouble(
    status: &Status,
    troubles: &[Trouble],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let trouble = &status.trouble;
    let rejects = troubles
        .iter()
        .any(|trouble| trouble.severity == Severity::Rejecting);
    for (name, help, holds) in [
        (
            "writes_rejected",
            "1 if writes are rejected or not made durable, as /health reports",
            rejects,
        ),
        (
            "disk_full",
            "1 if writes are rejected because the disk budget is used up",
            trouble.full.is_some(),
        ),
        (
            "journal_stuck",
            "1 if the journal could not be written",
            trouble.journal.is_some(),
        ),
        (
            "segments_stuck",
            "1 if segments could not be written",
            trouble.segments.is_some(),
        ),
        (
            "writers_slowed",
            "1 if writers wait because the disk budget is nearly used up",
            trouble.throttled,
        ),
        (
            "shedding",
            "1 if data was shed in the last ten minutes",
            trouble.shedding,
        ),
        (
            "new_sources_rejected",
            "1 if new sources are rejected because the memory budget has no space for them",
            trouble.no_new_sources,
        ),
    ] {
        gauge(encoder, name, help, f64::from(holds))?;
    }
    Ok(())
}

/// Encodes the fill of the log, its segments and its classes.
fn log(log: &LogStatus, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let fill = &log.fill;
    for (name, help, value) in [
        (
            "log_used_ratio",
            "Share of the disk budget that is in use, U",
            fill.u(),
        ),
        (
            "log_live_ratio",
            "Share of the disk budget that live blocks use, V",
            fill.v(),
        ),
        (
            "log_merge_ratio",
            "Share of the disk budget at which merging begins, Um",
            fill.um,
        ),
        (
            "log_hunger",
            "Hunger, the urgency of merging, H: no merges up to 0, no space for writers at 1",
            fill.hunger(),
        ),
        (
            "log_planing",
            "1 if segments expire as a whole, so that nothing must be merged",
            f64::from(log.is_planing()),
        ),
    ] {
        gauge(encoder, name, help, value)?;
    }
    let sealed = log.segments.iter().filter(|segment| !segment.open);
    let (live, dead) = sealed.fold((0, 0), |(live, dead), segment| {
        (live + segment.stat.live, dead + segment.stat.dead)
    });
    let bounded = fill.budget != u64::MAX;
    for (name, help, value) in [
        (
            "log_segment_bytes",
            "Bytes of a segment, R",
            Some(log.segment_bytes as f64),
        ),
        (
            "log_planing_segment_bytes",
            "Bytes of the largest segment for which segments of one lifetime expire as a whole, C(Um - V)",
            bounded.then(|| fill.planing_segment_bytes() as f64),
        ),
        (
            "log_dead_ratio",
            "Share of dead bytes in all sealed segments together, D",
            (live + dead > 0).then(|| dead as f64 / (live + dead) as f64),
        ),
        (
            "log_merged_dead_ratio",
            "Share of dead bytes in merged segments, on average, Dm",
            (log.memory.taken > 0).then_some(log.memory.average_dead_share),
        ),
        (
            "log_lanes",
            "Lanes: logs written side by side, one per interval of remaining life",
            Some(log.lanes.len() as f64),
        ),
    ] {
        known(encoder, name, help, value)?;
    }
    let of_classes = |of: fn(&ClassStatus) -> u64| -> Vec<(&str, f64)> {
        let classes = log.classes.iter();
        classes
            .map(|class| (class.class.name.as_str(), of(class) as f64))
            .collect()
    };
    let sources = of_classes(|class| class.sources);
    let help = "Sources of a retention class";
    labelled(encoder, "class_sources", help, "class", &sources)?;
    let live = of_classes(|class| class.live);
    let help = "Bytes of live blocks of a retention class, in sealed and open segments";
    labelled(encoder, "class_live_bytes", help, "class", &live)
}
