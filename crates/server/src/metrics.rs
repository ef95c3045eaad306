//! `/metrics`: every figure of store, ports and process in OpenMetrics text.

use crate::device::Device;
use crate::figures::{FIGURES, Kind, ProcessFigures};
use crate::health::{Severity, Trouble, of_store};
use crate::history::{History, Written};
use crate::meters::Meters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use seiner_store::{ClassStatus, LogStatus, Status, Store};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Collector that reads all figures on request, so that nothing is counted twice.
struct Figures {
    store: Arc<dyn Store>,
    meters: Arc<Meters>,
    history: Arc<History>,
    /// Bytes that may be written to the device in its lifetime.
    device_tbw: Option<u64>,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

/// Creates a registry with all figures.
pub fn registry(
    store: Arc<dyn Store>,
    meters: Arc<Meters>,
    history: Arc<History>,
    device_tbw: Option<u64>,
) -> Registry {
    let mut registry = Registry::with_prefix("seiner");
    registry.register_collector(Box::new(Figures {
        store,
        meters,
        history,
        device_tbw,
    }));
    registry
}

/// Returns the present figures of the registry.
///
/// # Errors
/// If the text cannot be formatted.
pub fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}

/// Joins two texts: only the last one keeps its end mark.
pub fn joined(mut first: String, second: &str) -> String {
    const END: &str = "# EOF\n";
    if first.ends_with(END) {
        first.truncate(first.len() - END.len());
    }
    first + second
}

/// Returns the name and value of a figure, in base units: times in seconds.
fn in_base_units(name: &str, value: u64) -> (String, f64) {
    match name.strip_suffix("_ns") {
        Some(name) => (format!("{name}_seconds"), value as f64 / 1e9),
        None => (name.to_string(), value as f64),
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.store.status();
        for figure in FIGURES {
            let value = (figure.of)(&status);
            let (name, scaled) = in_base_units(figure.name, value);
            match figure.kind {
                Kind::Counter if name == figure.name => {
                    counter(&mut encoder, &name, figure.help, value)?;
                }
                Kind::Counter => {
                    let kind = MetricType::Counter;
                    put(
                        &mut encoder,
                        &name,
                        figure.help,
                        kind,
                        &ConstCounter::new(scaled),
                    )?;
                }
                Kind::Gauge => gauge(&mut encoder, &name, figure.help, scaled)?,
            }
        }
        gauge(
            &mut encoder,
            "poisoned",
            "1 when the store refuses writes until it is opened again",
            f64::from(status.poisoned.is_some()),
        )?;
        let troubles = of_store(&status, &self.store.classes(), &self.store.losses());
        trouble(&status, &troubles, &mut encoder)?;
        self.ports(&mut encoder)?;
        if let Some(embedded) = self.store.embedded() {
            log(&embedded.log(), &mut encoder)?;
        }
        self.written(&self.history.written(&status), &mut encoder)?;
        let process = ProcessFigures::now();
        counter(
            &mut encoder,
            "process_written_bytes",
            "Bytes that the kernel wrote to devices for the process",
            process.written_bytes,
        )?;
        gauge(
            &mut encoder,
            "process_resident_memory_bytes",
            "Memory resident",
            process.rss_bytes as f64,
        )?;
        let cpu = ConstCounter::new(process.cpu_s);
        put(
            &mut encoder,
            "process_cpu_seconds",
            "Processor time, user and system",
            MetricType::Counter,
            &cpu,
        )
    }
}

impl Figures {
    /// Encodes the bytes written per stored byte, and the expected life of the device.
    fn written(&self, written: &Written, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Bytes of blocks written for each byte stored, merges included, over the last hour, day and since the \
                    start; 1 is the least";
        let mut family =
            encoder.encode_descriptor("log_written_per_byte", help, None, MetricType::Gauge)?;
        for (over, period) in [
            ("hour", &written.hour),
            ("day", &written.day),
            ("start", &written.start),
        ] {
            if let Some(ratio) = period.per_byte {
                ConstGauge::new(ratio).encode(family.encode_family(&[("over", over)])?)?;
            }
        }
        let device = self.history.device().and_then(Device::written);
        let help = "Bytes written to the device of the data directory since the host was started, by everybody";
        let family =
            encoder.encode_descriptor("device_written_bytes", help, None, MetricType::Counter)?;
        if let Some(device) = device {
            ConstCounter::new(device).encode(family)?;
        }
        let (per_day, tbw) = (written.day.device_per_day(), self.device_tbw);
        let life = per_day.filter(|per_day| *per_day > 0.0).zip(tbw);
        for (name, help, value) in [
            (
                "device_written_bytes_per_day",
                "Bytes written to the device a day, at the pace of the last day",
                per_day,
            ),
            (
                "device_lifetime_written_bytes",
                "Bytes that may be written to the device in its life, as `device_tbw` says",
                tbw.map(|tbw| tbw as f64),
            ),
            (
                "device_life_seconds",
                "How long a new device lasts at the pace of the last day",
                life.map(|(per_day, tbw)| tbw as f64 / per_day * 86_400.0),
            ),
        ] {
            known(encoder, name, help, value)?;
        }
        Ok(())
    }

    fn ports(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let meters = &self.meters;
        for (name, help, count) in [
            ("ingest_rows", "Rows accepted at the ports", &meters.rows),
            (
                "ingest_samples",
                "Samples accepted at the ports",
                &meters.samples,
            ),
            (
                "ingest_rejected_lines",
                "Lines refused at the ports",
                &meters.rejected_lines,
            ),
            (
                "ingest_bytes",
                "Bytes of line protocol received, after decompression",
                &meters.bytes,
            ),
            ("http_writes", "Writes begun over HTTP", &meters.writes),
            ("http_queries", "Queries begun over HTTP", &meters.queries),
            (
                "turned_away",
                "Requests and connections turned away because there were too many",
                &meters.turned_away,
            ),
            ("connections", "Connections opened", &meters.connections),
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
    let refuses = troubles
        .iter()
        .any(|trouble| trouble.severity == Severity::Refusal);
    for (name, help, holds) in [
        (
            "writes_refused",
            "1 when writes are refused or not made durable, as /health says",
            refuses,
        ),
        (
            "disk_full",
            "1 when writes are refused because the disk budget is used up",
            trouble.full.is_some(),
        ),
        (
            "journal_stuck",
            "1 when the journal could not be written",
            trouble.journal.is_some(),
        ),
        (
            "segments_stuck",
            "1 when segments could not be written",
            trouble.segments.is_some(),
        ),
        (
            "writers_slowed",
            "1 when writers wait because the disk budget is nearly used up",
            trouble.throttled,
        ),
        (
            "shedding",
            "1 when data was let go before its time in the last ten minutes",
            trouble.shedding,
        ),
        (
            "new_sources_refused",
            "1 when the memory budget has no room for new sources",
            trouble.no_new_sources,
        ),
    ] {
        gauge(encoder, name, help, f64::from(holds))?;
    }
    Ok(())
}

/// Encodes the fill of the log, and the figures of its classes.
fn log(log: &LogStatus, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let fill = &log.fill;
    for (name, help, value) in [
        (
            "log_used_share",
            "Used share of the disk budget, U",
            fill.u(),
        ),
        (
            "log_live_share",
            "Live share of the disk budget, V",
            fill.v(),
        ),
        (
            "log_merge_share",
            "Share of the disk budget at which merging begins, Um",
            fill.um,
        ),
        (
            "log_hunger",
            "How much merging is wanted, H: nothing up to 0, everything at 1",
            fill.hunger(),
        ),
        (
            "log_planing",
            "1 when segments die whole",
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
            "Bytes up to which segments of one lifetime die whole, C(Um - V)",
            bounded.then(|| fill.planing_segment_bytes() as f64),
        ),
        (
            "log_dead_share",
            "Dead share of the blocks in sealed segments, D of all together",
            (live + dead > 0).then(|| dead as f64 / (live + dead) as f64),
        ),
        (
            "log_merged_dead_share",
            "Average dead share of the segments that were merged, Dm",
            (log.memory.eaten > 0).then_some(log.memory.average_dead_share),
        ),
        (
            "log_lanes",
            "Logs written side by side, by the remaining life of what goes into them",
            Some(log.lanes.len() as f64),
        ),
    ] {
        known(encoder, name, help, value)?;
    }
    classes(
        log,
        encoder,
        "class_sources",
        "Sources of a retention class",
        |class| class.sources,
    )?;
    let help =
        "Bytes of live blocks of a retention class, sealed and in segments that are being written";
    classes(log, encoder, "class_live_bytes", help, |class| class.live)
}

/// Encodes a gauge with the label `class`.
fn classes(
    log: &LogStatus,
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    of: fn(&ClassStatus) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for class in &log.classes {
        let label = [("class", class.class.name.as_str())];
        ConstGauge::new(of(class) as f64).encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

/// Encodes a counter.
pub(crate) fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    put(
        encoder,
        name,
        help,
        MetricType::Counter,
        &ConstCounter::new(value),
    )
}

/// Encodes a gauge.
pub(crate) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    put(
        encoder,
        name,
        help,
        MetricType::Gauge,
        &ConstGauge::new(value),
    )
}

/// Encodes a gauge, without a value if it is unknown.
fn known(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: Option<f64>,
) -> fmt::Result {
    let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    value.map_or(Ok(()), |value| ConstGauge::new(value).encode(family))
}

fn put(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric_type: MetricType,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric_type)?)
}
