//! Server of a store: ports for line protocol, queries over HTTP, metrics, the page,
//! and the host's own sensors.
//!
//! Async code ends here: a port reads its socket in a task, and calls the store as plain
//! functions. Everything that waits here is limited: connections, requests, bodies, time.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accept;
pub mod access;
mod advice;
mod alerts;
mod api_error;
mod app_state;
pub mod array;
mod arrow_body;
pub mod classes;
mod cluster;
mod cluster_metrics;
mod cluster_view;
mod collectd;
mod connections;
mod dashboards;
mod delete;
mod device;
mod exchange;
mod file_version;
mod graphite;
mod grpc;
mod health;
mod history;
mod host;
pub mod hosts;
mod http;
mod influx;
pub mod ingest;
mod ingest_stream;
mod intake;
pub mod key_texts;
mod known_series;
mod layers;
mod limiter;
mod line_limit;
mod listen;
pub mod log;
mod metric_metadata;
mod metric_text;
mod metrics;
mod mqtt;
pub mod mqtt_topics;
mod nearest;
mod notify;
mod opentsdb;
mod otlp;
mod page;
mod parameters;
pub mod plan;
mod port;
mod predicate;
mod prometheus;
pub mod query;
mod remote_write;
mod renamed;
mod request_id;
mod requests;
mod response_stream;
mod scrape;
pub mod scrape_jobs;
mod secure;
mod series;
mod server;
pub mod settings;
mod shutdown;
mod size;
mod socket;
mod sql;
mod sql_program;
mod statsd;
mod status;
mod storage_target;
mod store_metrics;
mod system;
mod text;
mod time;
mod tls;
mod traffic;
mod udp_drops;
mod whole_body;
mod write;

pub use advice::{PORTS, RATE};
pub use api_error::ApiError;
pub use app_state::Extensions;
pub use cluster::{MAX_REQUEST, SECRET};
pub use cluster_view::{ClusterStatus, ClusterView, NodeStatus};
pub use file_version::FileVersion;
pub use history::{Period, Written};
pub use layers::{
    DEFAULT_FILE, Effective, GivenClass, GivenJob, GivenTopic, Layers, Origin, RepeatedFlags,
    SettingsError,
};
pub use secure::{provider, system_certificates};
pub use server::{Server, run};
pub use settings::{AccessMode, Acknowledge, ArrayIo, LogFormat, Settings};
pub use size::parse_size;
pub use storage_target::StorageTarget;
pub use tls::check_pair;
