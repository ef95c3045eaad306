//! Settings: one table, from which flags, environment, file, `seiner config` and
//! `docs/config.md` are derived.
//!
//! Every setting is a text with a name, whatever its origin. One function per setting parses the
//! text. A value therefore has the same meaning and the same error messages in all places.

mod alert;
mod alert_values;
mod cluster;
mod collectd;
mod collectd_values;
mod exposure;
mod mqtt;
mod mqtt_values;
mod page;
mod ports;
mod scrape_values;
mod service;
mod setting;
mod sql;
mod statsd;
mod statsd_values;
mod storage;
mod store;
mod table;
mod text;
mod text_port_values;
mod text_ports;
mod tls;
mod tls_values;
mod values;

pub use alert_values::AlertSettings;
pub use collectd_values::CollectdSettings;
pub use mqtt_values::{Broker, MqttSettings, MqttVersion};
pub use page::markdown;
pub use scrape_values::{ScrapeJob, TargetAddress};
pub use setting::Setting;
pub use statsd_values::StatsdSettings;
pub use table::{all, named};
pub use text_port_values::TextPorts;
pub use tls_values::TlsSettings;
pub use values::{AccessMode, Acknowledge, ArrayIo, LogFormat, Settings};
