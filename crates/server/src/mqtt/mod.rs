//! MQTT: a subscriber of the user's broker, and a port for devices without a broker.
//!
//! Both read packets in a session, and store the messages of all packets that have arrived by one call of the store. A
//! message of QoS 1 or 2 is acknowledged when its rows are on the disk, with every `durability` but `memory`. While the
//! store does not accept rows, nothing is acknowledged and nothing is read. The sender keeps these messages.

mod exchange;
mod ingest;
mod listener;
mod packets;
mod session;
mod state;
mod subscriber;

pub use listener::serve;
pub use state::MqttState;
pub use subscriber::subscribe;

use seiner_wire::mqtt::Mapping;

/// Name of the protocol in metrics.
pub const PROTOCOL: &str = "mqtt";

/// Returns the mapping that the settings define.
fn mapping(settings: &crate::settings::Settings) -> Mapping {
    Mapping::new(settings.mqtt.topics.clone(), !settings.allow_1970)
}
