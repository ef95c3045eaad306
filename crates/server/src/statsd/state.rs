//! State of StatsD: the metrics of the present interval, for the ports, `/status` and `/metrics`.

use super::aggregate::{Aggregated, Aggregator};
use crate::metric_text::{known, known_counter};
use crate::settings::StatsdSettings;
use prometheus_client::encoding::DescriptorEncoder;
use seiner_wire::statsd::Metric;
use serde_json::{Value, json};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard};

/// State of StatsD.
pub struct StatsdState {
    is_used: bool,
    aggregator: Mutex<Aggregator>,
    /// Values that were accepted.
    values: AtomicU64,
}

impl StatsdState {
    /// Creates the state for the settings.
    pub fn new(settings: &StatsdSettings) -> StatsdState {
        StatsdState {
            is_used: settings.listen.is_some(),
            aggregator: Mutex::new(Aggregator::new(settings.memory as usize)),
            values: AtomicU64::new(0),
        }
    }

    /// Adds the values of a line.
    ///
    /// # Errors
    /// If there is no memory for them: a sentence with the remedy.
    pub fn accept(&self, metric: &Metric<'_>) -> Result<(), String> {
        self.aggregator().accept(metric).map_err(|limit| {
            format!(
                "the values of this interval take all {limit} bytes of statsd_memory; raise it, lower statsd_interval, or \
                 send fewer names"
            )
        })?;
        self.values.fetch_add(metric.values.len() as u64, Relaxed);
        Ok(())
    }

    /// Ends the interval at a time in ns, and returns its rows.
    pub fn take(&self, time: i64) -> Vec<Aggregated> {
        self.aggregator().take(time)
    }

    /// Returns the state for `/status`; null without a port.
    pub fn status(&self) -> Value {
        if !self.is_used {
            return Value::Null;
        }
        let (metrics, bytes) = self.aggregator().size();
        json!({
            "metrics": metrics,
            "memory_bytes": bytes,
            "values": self.values.load(Relaxed),
        })
    }

    /// Encodes the metrics. A server without the port has their descriptions, and no values.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (metrics, bytes) = self.aggregator().size();
        let of = |value: usize| self.is_used.then_some(value as f64);
        let help = "Metrics of StatsD in memory, gauges of earlier intervals included";
        known(encoder, "statsd_metrics", help, of(metrics))?;
        let help = "Bytes of memory for metrics of StatsD";
        known(encoder, "statsd_memory_bytes", help, of(bytes))?;
        let help = "Values of StatsD that were aggregated";
        let values = self.is_used.then(|| self.values.load(Relaxed));
        known_counter(encoder, "statsd_values", help, values)
    }

    fn aggregator(&self) -> MutexGuard<'_, Aggregator> {
        self.aggregator
            .lock()
            .expect("no thread panics while it holds the metrics")
    }
}
