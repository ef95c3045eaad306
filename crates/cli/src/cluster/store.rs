//! Store of `seiner serve --cluster`: a port on Cassandra.

use super::connect::Access;
use super::peers::{HttpPeers, SECURE, answer};
use super::port_agent::{PortAgent, PortFiles};
use super::spare::SpareDirectories;
use crate::failure::Failure;
use anyhow::Context;
use seiner_cassandra::CassandraRows;
use seiner_cluster::{Acknowledge, ClusterStore, Grid, Level, PortInfo, PortOptions, Surroundings};
use seiner_platform::{Directory, SystemClock};
use seiner_server::{ClusterStatus, ClusterView, Extensions, NodeStatus, Settings};
use seiner_store::{Class, Copies, DEFAULT, Error, Keep};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Folder in the data directory for the rows of this port.
const ENGINE: &str = "port";
/// Folder in the data directory for the journals of failed ports.
const TAKEOVERS: &str = "takeovers";

/// Opens the port that the settings describe, and adds it to the parts of the server.
pub fn extend(extensions: Extensions, settings: &Settings) -> Result<Extensions, Failure> {
    if !settings.array.is_empty() {
        let text = "cluster: a port keeps its rows in a directory; leave `array` out";
        return Err(Failure::Usage(text.to_string()));
    }
    let rows = Arc::new(Access::of(settings).connect(&settings.cluster)?);
    let data = &settings.data;
    let opened = Directory::open(data.join(ENGINE));
    let disk =
        opened.with_context(|| format!("the data directory {} was not opened", data.display()))?;
    let peers = Arc::new(HttpPeers::new(
        PortAgent::new(files(settings)).context("ports_ca_file")?,
    ));
    let around = Surroundings {
        rows: rows.clone(),
        disk: Arc::new(disk),
        spare: Arc::new(SpareDirectories::new(data.join(TAKEOVERS))),
        clock: Arc::new(SystemClock::new()),
        peers: peers.clone(),
    };
    let store =
        ClusterStore::start(options(settings)?, around).context("the port was not opened")?;
    let secret = store.secret(&proposal())?;
    peers.begin(&store, secret.clone());
    let view = View {
        store: store.clone(),
        rows,
        secret,
    };
    Ok(Extensions {
        store: Some(store),
        cluster: Some(Arc::new(view)),
        ..extensions
    })
}

/// Returns the files of TLS for requests to the other ports.
fn files(settings: &Settings) -> Option<PortFiles> {
    let authorities = settings.ports_ca_file.clone()?;
    let own = settings.tls.certificate.clone();
    let own = own.zip(settings.tls.key.clone());
    let own = own.filter(|_| settings.tls.client_ca.is_some());
    Some(PortFiles { authorities, own })
}

/// Returns a text that nobody can guess, for a cluster that has no secret yet.
#[allow(clippy::disallowed_methods, reason = "a secret must be random")]
pub fn proposal() -> String {
    let part = || RandomState::new().hash_one("seiner");
    format!(
        "{:016x}{:016x}{:016x}{:016x}",
        part(),
        part(),
        part(),
        part()
    )
}

/// Returns the settings of the port.
fn options(settings: &Settings) -> Result<PortOptions, Failure> {
    let name = match settings.port_name.is_empty() {
        true => host_name()?,
        false => settings.port_name.clone(),
    };
    let address = match settings.port_address.is_empty() {
        true if settings.listen.ip().is_unspecified() => {
            let text = format!(
                "port_address: other ports cannot reach {}; give the address under which they reach this host",
                settings.listen
            );
            return Err(Failure::Usage(text));
        }
        true => settings.listen.to_string(),
        false => settings.port_address.clone(),
    };
    let address = match settings.tls.certificate {
        Some(_) => format!("{SECURE}{address}"),
        None => address,
    };
    let classes = settings.classes.named().iter();
    let is_plain = |class: &&Class| {
        let (keep, copies) = (Keep::default(), Copies::default());
        class.name == DEFAULT && class.keep == keep && class.copies == copies
    };
    let classes: Vec<Class> = classes.filter(|class| !is_plain(class)).cloned().collect();
    Ok(PortOptions {
        address,
        acknowledge: match settings.acknowledge {
            seiner_server::Acknowledge::Local => Acknowledge::Local,
            seiner_server::Acknowledge::One => Acknowledge::Replicated(Level::One),
            seiner_server::Acknowledge::Quorum => Acknowledge::Replicated(Level::Quorum),
        },
        handover_every: settings.handover,
        replica_sync: settings.replica_sync,
        grid: Grid {
            shelves: settings.shelves,
            period_ns: settings.period.as_nanos() as u64,
        },
        classes: (!classes.is_empty()).then_some(classes),
        engine: seiner_engine::Options {
            classes: Default::default(),
            ..settings.options()
        },
        ..PortOptions::new(name)
    })
}

/// Returns the name of the host.
fn host_name() -> Result<String, Failure> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name =
        name.context("port_name: the name of the host cannot be read; give the port a name")?;
    Ok(name.trim().to_string())
}

/// Cluster as the server shows it.
struct View {
    store: Arc<ClusterStore>,
    rows: Arc<CassandraRows>,
    secret: String,
}

impl ClusterView for View {
    fn ports(&self) -> Result<Value, Error> {
        let ports = self.store.ports()?;
        let rates = ports.iter().map(|port| port.samples_per_second);
        let mean = rates.sum::<f64>() / ports.len().max(1) as f64;
        let own = self.store.info().name;
        let shown = ports
            .iter()
            .map(|port| with_weight(port, mean, port.name == own));
        Ok(Value::Array(shown.collect()))
    }

    fn status(&self) -> ClusterStatus {
        let (info, counts) = (self.store.info(), self.store.counts());
        let statistics = self.rows.statistics();
        let nodes = self.rows.nodes().into_iter().map(|node| NodeStatus {
            address: node.address.to_string(),
            is_up: node.is_up,
        });
        ClusterStatus {
            port: info.name,
            keyspace: self.rows.keyspace().to_string(),
            unflushed_rows: info.unflushed_rows,
            handover_lag_s: info.handover_lag_s,
            handovers: counts.handovers,
            samples_handed_over: counts.samples,
            bundles: counts.bundles,
            bundle_bytes: counts.bytes,
            expired_samples: counts.expired,
            takeovers: counts.takeovers,
            requests: statistics.requests,
            retries: statistics.retries,
            written_bytes: statistics.bytes_written,
            read_bytes: statistics.bytes_read,
            nodes: nodes.collect(),
            trouble: info.trouble,
        }
    }

    fn trouble(&self) -> Option<String> {
        self.store.trouble()
    }

    fn better_port(&self, rows_per_second: f64) -> Option<String> {
        self.store.better_port(rows_per_second)
    }

    fn able_ports(&self) -> Vec<String> {
        self.store.able_ports()
    }

    fn hand_over(&self) -> Result<(), Error> {
        self.store.hand_over()
    }

    fn is_secret(&self, text: &str) -> bool {
        // All bytes are compared, so that the time of an answer does not reveal how many are right.
        let differences = text
            .bytes()
            .zip(self.secret.bytes())
            .filter(|(a, b)| a != b)
            .count();
        text.len() == self.secret.len() && differences == 0
    }

    fn exchange(&self, request: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
        answer(&self.store, request, body)
    }
}

/// Returns a port with its weight, as JSON.
fn with_weight(port: &PortInfo, mean: f64, is_own: bool) -> Value {
    let mut shown = serde_json::to_value(port).unwrap_or_default();
    shown["weight"] = json!(port.weight(mean));
    shown["is_this"] = json!(is_own);
    shown
}
