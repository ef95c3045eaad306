//! `/metrics`: every figure of store, ports and process in OpenMetrics text.

use crate::figures::{FIGURES, Kind, ProcessFigures};
use crate::meters::Meters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use seiner_engine::Engine;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reads all figures when it is asked, so that nothing is counted twice.
struct Figures {
    engine: Arc<Engine>,
    meters: Arc<Meters>,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

/// A registry with all figures.
pub fn registry(engine: Arc<Engine>, meters: Arc<Meters>) -> Registry {
    let mut registry = Registry::with_prefix("seiner");
    registry.register_collector(Box::new(Figures { engine, meters }));
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
        let process = ProcessFigures::now();
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

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    put(
        encoder,
        name,
        help,
        MetricType::Counter,
        &ConstCounter::new(value),
    )
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
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
