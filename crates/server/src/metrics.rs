//! `/metrics`: every figure of store, ports and process in OpenMetrics text.

use crate::device::Device;
use crate::figures::{FIGURES, Kind, ProcessFigures};
use crate::history::History;
use crate::meters::Meters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use seiner_engine::{ClassStatus, Engine, LogStatus};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reads all figures when it is asked, so that nothing is counted twice.
struct Figures {
    engine: Arc<Engine>,
    meters: Arc<Meters>,
    history: Arc<History>,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

/// A registry with all figures.
pub fn registry(engine: Arc<Engine>, meters: Arc<Meters>, history: Arc<History>) -> Registry {
    let mut registry = Registry::with_prefix("seiner");
    registry.register_collector(Box::new(Figures {
        engine,
        meters,
        history,
    }));
    registry
}

/// The registry's figures now.
///
/// # Errors
/// If the text cannot be formatted.
pub fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.engine.status();
        for figure in FIGURES {
            match figure.kind {
                Kind::Counter => {
                    counter(&mut encoder, figure.name, figure.help, (figure.of)(&status))?
                }
                Kind::Gauge => gauge(
                    &mut encoder,
                    figure.name,
                    figure.help,
                    (figure.of)(&status) as f64,
                )?,
            }
        }
        gauge(
            &mut encoder,
            "poisoned",
            "1 when the store refuses writes",
            f64::from(status.poisoned.is_some()),
        )?;
        self.ports(&mut encoder)?;
        log(&self.engine.log(), &mut encoder)?;
        if let Some(written) = self.history.device().and_then(Device::written) {
            let help = "Bytes written to the device of the data directory since the host was started, by everybody";
            counter(&mut encoder, "device_written_bytes", help, written)?;
        }
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

/// How full the log is, and what its classes have.
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
    classes(
        log,
        encoder,
        "class_sources",
        "Sources of a retention class",
        |class| class.sources,
    )?;
    let help = "Bytes of live blocks of a retention class in sealed segments";
    classes(log, encoder, "class_live_bytes", help, |class| class.live)
}

/// A gauge with the label `class`.
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

/// A figure that only grows.
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

/// A figure that goes up and down.
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

fn put(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric_type: MetricType,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric_type)?)
}
