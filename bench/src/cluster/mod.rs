//! Cluster for benchmarks: nodes of Cassandra and ports, each a process, on this machine.

pub mod layers;
pub mod ledger;
pub mod namespaces;
pub mod proxy;
pub mod row_per_sample;

use crate::client::Connection;
use crate::process::Server;
use anyhow::{Context, Result};
use seiner_cassandra::local::{LocalCluster, Options, obstacle};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of the ports of a benchmark.
#[derive(Clone, Debug)]
pub struct PortSettings {
    /// Path of our server.
    pub program: PathBuf,
    /// Keyspace.
    pub keyspace: String,
    /// Copies of each row.
    pub replicas: usize,
    /// More arguments of `seiner serve`.
    pub arguments: Vec<String>,
}

/// Place of a port on the network.
#[derive(Clone, Debug)]
pub struct PortPlace {
    /// Address for HTTP.
    pub address: SocketAddr,
    /// Network namespace of the process.
    pub namespace: Option<String>,
}

/// Ports of a cluster.
pub struct Ports {
    settings: PortSettings,
    url: String,
    folder: PathBuf,
    places: Vec<PortPlace>,
    servers: Vec<Option<Server>>,
}

impl Ports {
    /// Starts one port per place, and waits until all answer.
    pub fn start(
        settings: PortSettings,
        nodes: &LocalCluster,
        count: usize,
        places: Vec<PortPlace>,
        folder: &Path,
    ) -> Result<Ports> {
        let hosts = (1..=count).map(|node| nodes.address(node).to_string());
        let hosts: Vec<String> = hosts.collect();
        let mut ports = Ports {
            url: format!(
                "cassandra://{}/{}?rf={}",
                hosts.join(","),
                settings.keyspace,
                settings.replicas
            ),
            settings,
            folder: folder.to_path_buf(),
            servers: places.iter().map(|_| None).collect(),
            places,
        };
        for port in 0..ports.places.len() {
            ports.begin(port)?;
        }
        Ok(ports)
    }

    /// Returns the URL of the cluster.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the addresses of all ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.address).collect()
    }

    /// Returns a running port.
    pub fn server(&self, port: usize) -> Option<&Server> {
        self.servers[port].as_ref()
    }

    /// Starts a port, with its files if it has any, and waits until it answers.
    pub fn begin(&mut self, port: usize) -> Result<()> {
        let place = &self.places[port];
        let mut command = match &place.namespace {
            None => Command::new(&self.settings.program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]);
                command.arg(&self.settings.program);
                command
            }
        };
        let name = format!("port{}", port + 1);
        command
            .args(["serve", "--cluster", &self.url, "--port-name", &name])
            .args(["--listen", &place.address.to_string()])
            .args(["--host-sensors", "off"])
            .args(&self.settings.arguments)
            .arg("--data")
            .arg(self.folder.join(&name));
        if !place.address.ip().is_loopback() {
            command.args(["--allow-remote", "true", "--access", "open"]);
        }
        let log = self.folder.join(format!("{name}.log"));
        let mut server = Server::start(command, place.address, &log)?;
        server
            .wait_until(|address| health(address).is_some())
            .with_context(|| format!("starting {name}"))?;
        self.servers[port] = Some(server);
        Ok(())
    }

    /// Kills a port as a crash does.
    pub fn kill(&mut self, port: usize) -> Result<()> {
        match self.servers[port].take() {
            Some(mut server) => server.kill(),
            None => Ok(()),
        }
    }

    /// Stops a port in good order. It hands its rows over first.
    pub fn stop(&mut self, port: usize) -> Result<()> {
        match self.servers[port].take() {
            Some(server) => server.stop(),
            None => Ok(()),
        }
    }

    /// Stops all ports.
    pub fn stop_all(&mut self) -> Result<()> {
        (0..self.places.len()).try_for_each(|port| self.stop(port))
    }
}

/// Starts light nodes of Cassandra.
pub fn start_nodes(options: Options) -> Result<Arc<LocalCluster>> {
    if let Some(obstacle) = obstacle(&options) {
        anyhow::bail!("no cluster can run on this machine: {obstacle}");
    }
    let nodes = options.nodes;
    eprintln!("starting {nodes} nodes of Cassandra");
    Ok(Arc::new(
        LocalCluster::start(options).context("Cassandra was not started")?,
    ))
}

/// Returns the places of ports on loopback.
pub fn loopback_places(count: usize) -> Result<Vec<PortPlace>> {
    // The listeners are open together, so that the numbers differ.
    let listeners = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listeners: Vec<TcpListener> = listeners.collect::<Result<_, _>>()?;
    let places = listeners.iter().map(|listener| {
        Ok(PortPlace {
            address: listener.local_addr()?,
            namespace: None,
        })
    });
    places.collect()
}

/// Returns the answer of a port to `/health`, if it is good.
fn health(address: SocketAddr) -> Option<()> {
    let answer = Connection::open(address).ok()?.get("/health").ok()?;
    (answer.status == 200).then_some(())
}

/// Returns a part of the status of a port.
pub fn status(address: SocketAddr) -> Result<Value> {
    let answer = Connection::open(address)?.get("/status")?.text()?;
    Ok(serde_json::from_str(&answer)?)
}

/// Hands over all rows of a port.
pub fn hand_over(address: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(address)?;
    connection.post("/api/v1/flush", b"")?.text()?;
    Ok(())
}

/// Calls a function until it returns true. Returns the time that this took; `None` if it exceeds the limit.
pub fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    loop {
        if holds() {
            return Some(start.elapsed());
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns an address of IPv4 as the address of a port of HTTP.
pub fn at(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address), port)
}
