//! State of MQTT for `/status`, `/metrics` and the log.

use crate::metric_text::{known, known_counter};
use crate::settings::MqttSettings;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::{Value, json};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Minimum time between two messages about rejections in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of characters of a topic or reason that is shown.
const SHOWN_CHARS: usize = 300;

/// State of MQTT.
#[derive(Debug, Default)]
pub struct MqttState {
    /// Address of the broker, if there is one.
    broker: Option<String>,
    /// True if MQTT is in use.
    is_used: bool,
    /// Received messages.
    pub messages: AtomicU64,
    /// Messages that were rejected as a whole or in part.
    rejected: AtomicU64,
    /// Connections that the broker accepted.
    connects: AtomicU64,
    /// Connections to the broker that failed or ended.
    failures: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    is_connected: bool,
    /// True if a connection was attempted and did not succeed, or ended.
    is_failing: bool,
    /// Rejection of subscriptions by the broker of the present connection.
    rejected_subscriptions: Option<String>,
    last_error: Option<String>,
    last_rejection: Option<Value>,
    /// Time of the last message about a rejection in the log.
    logged: Option<Instant>,
    /// Number of rejected messages since then.
    unlogged: u64,
}

impl MqttState {
    /// Creates the state for the settings.
    pub fn new(settings: &MqttSettings) -> MqttState {
        MqttState {
            broker: settings.broker.as_ref().map(ToString::to_string),
            is_used: settings.broker.is_some() || settings.listen.is_some(),
            ..MqttState::default()
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("nothing panics while it holds the state")
    }

    /// Notes that the broker accepted the connection.
    pub fn note_connected(&self) {
        self.connects.fetch_add(1, Relaxed);
        let mut inner = self.inner();
        (inner.is_connected, inner.is_failing) = (true, false);
        inner.rejected_subscriptions = None;
    }

    /// Notes that a connection to the broker failed or ended. Returns true if the reason differs from the last one.
    pub fn note_disconnected(&self, reason: &str) -> bool {
        self.failures.fetch_add(1, Relaxed);
        let mut inner = self.inner();
        let is_new = inner.is_connected || inner.last_error.as_deref() != Some(reason);
        (inner.is_connected, inner.is_failing) = (false, true);
        inner.last_error = Some(reason.to_string());
        is_new
    }

    /// Notes that the connection to the broker ended as intended.
    pub fn note_stopped(&self) {
        self.inner().is_connected = false;
    }

    /// Notes that the broker rejected subscriptions.
    pub fn note_rejected_subscriptions(&self, reason: String) {
        let mut inner = self.inner();
        inner.rejected_subscriptions = Some(reason.clone());
        inner.last_error = Some(reason);
    }

    /// Notes a trouble of a connection that continues.
    pub fn note_error(&self, error: String) {
        self.inner().last_error = Some(error);
    }

    /// Notes a message that was rejected as a whole or in part. The log names at most one message per interval.
    pub fn note_rejected(&self, topic: &str, reason: &str) {
        self.rejected.fetch_add(1, Relaxed);
        let (topic, reason) = (shown(topic), shown(reason));
        let mut inner = self.inner();
        inner.last_rejection = Some(json!({ "topic": topic, "reason": reason }));
        let now = crate::time::now();
        let is_due = |last: Instant| now.duration_since(last) >= LOG_INTERVAL;
        if !inner.logged.is_none_or(is_due) {
            inner.unlogged += 1;
            return;
        }
        inner.logged = Some(now);
        let more = match std::mem::take(&mut inner.unlogged) {
            0 => String::new(),
            more => format!("; {more} more since the last message"),
        };
        tracing::warn!("a message of MQTT on topic {topic:?} was rejected: {reason}{more}");
    }

    /// Returns the trouble of the connection to the broker, if there is one.
    pub fn trouble(&self) -> Option<String> {
        let broker = self.broker.as_ref()?;
        let inner = self.inner();
        if !inner.is_failing {
            return inner.rejected_subscriptions.clone();
        }
        let reason = inner
            .last_error
            .as_deref()
            .unwrap_or("the reason is unknown");
        Some(format!(
            "the server is not connected to the MQTT broker {broker}: {reason}; the server tries again at least every 30 s, \
             and the broker keeps messages of QoS 1 until then"
        ))
    }

    /// Returns the state for `/status`; null if MQTT is not in use.
    pub fn status(&self) -> Value {
        if !self.is_used {
            return Value::Null;
        }
        let inner = self.inner();
        json!({
            "broker": self.broker,
            "connected": self.broker.as_ref().map(|_| inner.is_connected),
            "connects": self.connects.load(Relaxed),
            "failures": self.failures.load(Relaxed),
            "last_error": inner.last_error,
            "messages": self.messages.load(Relaxed),
            "rejected_messages": self.rejected.load(Relaxed),
            "last_rejection": inner.last_rejection,
        })
    }

    /// Encodes the metrics. A server without MQTT has their descriptions, and no values.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of_broker = |value: u64| self.broker.as_ref().map(|_| value);
        let of_all = |count: &AtomicU64| self.is_used.then(|| count.load(Relaxed));
        let is_connected = u64::from(self.inner().is_connected);
        known(
            encoder,
            "mqtt_connected",
            "1 if the server is connected to the MQTT broker",
            of_broker(is_connected).map(|value| value as f64),
        )?;
        for (name, help, count) in [
            (
                "mqtt_connects",
                "Connections that the MQTT broker accepted",
                of_broker(self.connects.load(Relaxed)),
            ),
            (
                "mqtt_failures",
                "Connections to the MQTT broker that failed or ended",
                of_broker(self.failures.load(Relaxed)),
            ),
            (
                "mqtt_messages",
                "Messages of MQTT received from the broker and from devices",
                of_all(&self.messages),
            ),
            (
                "mqtt_rejected_messages",
                "Messages of MQTT that were rejected as a whole or in part",
                of_all(&self.rejected),
            ),
        ] {
            known_counter(encoder, name, help, count)?;
        }
        Ok(())
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trouble_ends_with_a_connection() {
        let settings = MqttSettings {
            broker: Some(crate::settings::Broker {
                host: "nas".into(),
                port: 1883,
                user: String::new(),
                is_encrypted: false,
            }),
            ..MqttSettings::default()
        };
        let state = MqttState::new(&settings);
        assert_eq!(state.trouble(), None);
        assert!(state.note_disconnected("no route"));
        assert!(!state.note_disconnected("no route"));
        assert!(state.trouble().unwrap().contains("nas:1883: no route"));
        state.note_connected();
        assert_eq!(state.trouble(), None);
        assert_eq!(state.status()["connected"], json!(true));
        assert!(state.note_disconnected("no route"));
        assert_eq!(MqttState::default().status(), Value::Null);
    }

    #[test]
    fn long_topics_are_cut() {
        let state = MqttState::new(&MqttSettings {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            ..MqttSettings::default()
        });
        state.note_rejected(&"é".repeat(1000), "bad");
        state.note_rejected("a", "bad");
        let status = state.status();
        assert_eq!(status["rejected_messages"], json!(2));
        assert_eq!(status["last_rejection"]["topic"], json!("a"));
        assert_eq!(state.inner().unlogged, 1);
    }
}
