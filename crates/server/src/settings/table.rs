//! Table of all settings, and the defaults.

use super::alert_values::AlertSettings;
use super::collectd_values::CollectdSettings;
use super::mqtt_values::MqttSettings;
use super::setting::Setting;
use super::statsd_values::StatsdSettings;
use super::text_port_values::TextPorts;
use super::tls_values::TlsSettings;
use super::values::{AccessMode, Acknowledge, ArrayIo, LogFormat, Settings};
use super::{
    alert, cluster, collectd, mqtt, ports, service, sql, statsd, storage, store, text_ports, tls,
};
use seiner_engine::{Classes, Durability, Given, MergePolicy};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Groups of settings, in the order of display.
static GROUPS: [&[Setting]; 12] = [
    &storage::SETTINGS,
    &ports::SETTINGS,
    &tls::SETTINGS,
    &text_ports::SETTINGS,
    &statsd::SETTINGS,
    &collectd::SETTINGS,
    &mqtt::SETTINGS,
    &alert::SETTINGS,
    &sql::SETTINGS,
    &store::SETTINGS,
    &service::SETTINGS,
    &cluster::SETTINGS,
];

/// Returns all settings, in the order of display.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    GROUPS.into_iter().flatten()
}

/// Returns the setting with this name.
pub fn named(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

impl Default for Settings {
    fn default() -> Settings {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let mut settings = Settings {
            data: PathBuf::new(),
            array: Vec::new(),
            array_degraded: false,
            array_control: PathBuf::new(),
            array_io: ArrayIo::Auto,
            array_patience: Duration::ZERO,
            array_background_rate: 0,
            listen: local,
            line_tcp: None,
            otlp_grpc: None,
            otlp_labels: Vec::new(),
            allow_remote: false,
            access: AccessMode::Tokens,
            access_file: None,
            cors_origins: Vec::new(),
            tls: TlsSettings::default(),
            allowed_hosts: Vec::new(),
            text_ports: TextPorts::default(),
            statsd: StatsdSettings::default(),
            collectd: CollectdSettings::default(),
            mqtt: MqttSettings::default(),
            scrape: Vec::new(),
            alert: AlertSettings::default(),
            sql_program: None,
            sql_memory: 0,
            postgres_listen: None,
            flight_sql_listen: None,
            durability: Durability::Memory,
            memory: None,
            block_bytes: 0,
            disk: None,
            leave_free: 0,
            merge_from: 0.0,
            policy: MergePolicy::default(),
            extra_writes: 0.0,
            lanes: 0,
            classes: Classes::default(),
            given: Given::default(),
            apply_retention: false,
            device_tbw: None,
            segment_bytes: None,
            journal_bytes: None,
            idle_seal: Duration::ZERO,
            host_sensors: None,
            allow_1970: false,
            database_tag: None,
            max_body: 0,
            max_requests: 0,
            max_queries: 0,
            max_connections: 0,
            stop_timeout: Duration::ZERO,
            log: String::new(),
            log_format: LogFormat::Text,
            log_slow: None,
            cluster: String::new(),
            cassandra_password_file: None,
            cassandra_ca_file: None,
            cassandra_certificate_file: None,
            cassandra_key_file: None,
            port_name: String::new(),
            port_address: String::new(),
            ports_ca_file: None,
            acknowledge: Acknowledge::Quorum,
            handover: Duration::ZERO,
            replica_sync: Duration::ZERO,
            shelves: 0,
            period: Duration::ZERO,
        };
        for setting in all() {
            (setting.assign)(&mut settings, setting.default).expect("a test reads every default");
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_value_is_rejected_with_a_remedy() {
        for (name, bad) in [
            ("data", ""),
            ("alert_rules", ""),
            ("alert_interval", "1ms"),
            ("alertmanager", "ftp://a"),
            ("alert_command", ""),
            ("array", "a,,b"),
            ("array_degraded", "perhaps"),
            ("array_control", ""),
            ("array_io", "fast"),
            ("array_patience", "long"),
            ("array_background_rate", "slow"),
            ("listen", "7670"),
            ("line_tcp", "yes"),
            ("otlp_grpc", "4317"),
            ("sql_program", ""),
            ("sql_memory", "1MiB"),
            ("postgres_listen", "5432"),
            ("flight_sql_listen", "32010"),
            ("otlp_labels", "host.name,,os.type"),
            ("allow_remote", "maybe"),
            ("access", "closed"),
            ("access_file", ""),
            ("cors_origins", "*"),
            ("tls_certificate", ""),
            ("tls_key", ""),
            ("tls_client_ca", ""),
            ("allowed_hosts", "https://nas.local"),
            ("line_udp_listen", "8089"),
            ("graphite_listen", "2003"),
            ("graphite_pickle_listen", "on"),
            ("opentsdb_listen", "4242"),
            ("statsd_listen", "8125"),
            ("statsd_interval", "10"),
            ("statsd_memory", "1 KiB"),
            ("collectd_listen", "25826"),
            ("collectd_types_db", "a,,b"),
            ("collectd_security", "high"),
            ("collectd_auth_file", ""),
            ("mqtt_broker", "wss://nas"),
            ("mqtt_password_file", ""),
            ("mqtt_ca_file", ""),
            ("mqtt_client_id", ""),
            ("mqtt_version", "3.1"),
            ("mqtt_qos", "2"),
            ("mqtt_session", "long"),
            ("mqtt_listen", "1883"),
            ("mqtt_max_packet", "1 GiB"),
            ("durability", "often"),
            ("memory", "1 KiB"),
            ("block_bytes", "1 GiB"),
            // More than the engine accepts.
            ("block_bytes", "65 KiB"),
            ("segment_bytes", "0"),
            ("journal_bytes", "x"),
            ("disk", "some"),
            ("leave_free", "-1"),
            ("merge_from", "1.5"),
            ("policy", "hungry"),
            ("extra_writes", "-1"),
            ("lanes", "1"),
            ("device_tbw", "1 MB"),
            ("idle_seal", "10"),
            ("host_sensors", "1us"),
            ("allow_1970", "1970"),
            ("database_tag", "a b"),
            ("max_body", "1"),
            ("max_requests", "0"),
            ("max_queries", "-1"),
            ("max_connections", "many"),
            ("stop_timeout", "soon"),
            ("log", ""),
            ("log_format", "xml"),
            ("log_slow", "soon"),
            ("cluster", "http://a"),
            ("cluster", "cassandra://ann:secret@db1/sensors"),
            ("cassandra_password_file", ""),
            ("cassandra_ca_file", ""),
            ("cassandra_certificate_file", ""),
            ("cassandra_key_file", ""),
            ("port_name", "a b"),
            ("port_address", ""),
            ("ports_ca_file", ""),
            ("acknowledge", "all"),
            ("handover", "soon"),
            ("replica_sync", "never"),
            ("shelves", "0"),
            ("period", "1ms"),
        ] {
            let setting = named(name).expect("the table has the setting");
            let error = (setting.assign)(&mut Settings::default(), bad).expect_err(name);
            assert!(error.len() > 15, "{name}: {error}");
        }
    }
}
