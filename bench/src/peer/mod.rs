//! Servers of the comparison: start, load, flush and queries.

pub mod analysis;
pub mod influx;
pub mod prometheus;
pub mod questdb;
pub mod seiner;
pub mod victoria;

use self::analysis::Analysis;
use crate::client::Connection;
use crate::process::Server;
use crate::protocol::{Body, Protocol};
use crate::workload::{Workload, tags};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Query that every server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// All samples of one series.
    Series {
        /// Number of the host.
        host: u32,
        /// Number of the sensor at the host.
        sensor: u32,
    },
    /// The mean of each minute of each of the 100 series of a host.
    MinuteMeans {
        /// Number of the host.
        host: u32,
    },
}

impl Question {
    /// Returns the minimum and maximum number of values in a correct answer. The numbers differ
    /// because some servers name a minute by its start and some by its end.
    pub fn expected(&self, workload: &Workload) -> (usize, usize) {
        let ticks = workload.ticks as usize;
        match self {
            Question::Series { .. } => (ticks, ticks),
            Question::MinuteMeans { .. } => (100 * (ticks / 6), 100 * (ticks / 6 + 3)),
        }
    }
}

/// Interface to one kind of server.
pub trait Peer: Sync {
    /// Returns the name of the server.
    fn name(&self) -> &'static str;
    /// Returns the version, or the reason why the server cannot take part.
    fn version(&self) -> Result<String>;
    /// Starts the server on an empty or existing folder, with its data in the subfolder `data`.
    fn spawn(&self, folder: &Path) -> Result<Server>;
    /// Returns true if the server answers requests.
    fn ready(&self, address: SocketAddr) -> bool;
    /// Prepares the server for the first write.
    fn prepare(&self, _connection: &mut Connection) -> Result<()> {
        Ok(())
    }
    /// Returns the request target that accepts bodies.
    fn write_target(&self) -> &'static str;
    /// Returns the body for lines of a workload: by default the lines, as line protocol.
    fn body(&self, lines: &[u8]) -> Result<Body> {
        Protocol::Lines.body(lines)
    }
    /// Brings the data into their final form. Returns false if the server still changes the data.
    fn flush(&self, connection: &mut Connection, folder: &Path) -> Result<bool>;
    /// Returns the number of samples that the server returns for the interval of a workload.
    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64>;
    /// Returns the number of samples of each source, by host and sensor.
    fn stored_by_source(
        &self,
        connection: &mut Connection,
        workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>>;
    /// Returns the target of the GET request for a query.
    fn target(&self, question: Question, workload: &Workload) -> String;
    /// Returns the target of the GET request for a question over many series. `None` if the server cannot answer it.
    fn analysis(&self, _analysis: Analysis, _run: usize, _workload: &Workload) -> Option<String> {
        None
    }
    /// Returns the number of values in an answer.
    fn values(&self, answer: &str) -> Result<usize>;
    /// Returns a note on the settings, for readers.
    fn remark(&self) -> String;
}

/// Starts a server and waits until it answers.
pub fn start(peer: &dyn Peer, folder: &Path) -> Result<Server> {
    let mut server = peer
        .spawn(folder)
        .with_context(|| format!("starting {}", peer.name()))?;
    server
        .wait_until(|address| peer.ready(address))
        .with_context(|| format!("starting {}", peer.name()))?;
    Ok(server)
}

/// Returns the data directory in a server's folder.
pub fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn answers(address: SocketAddr, target: &str) -> bool {
    let response = Connection::open(address)
        .ok()
        .and_then(|mut connection| connection.get(target).ok());
    response.is_some_and(|response| (200..300).contains(&response.status))
}

/// Returns the version of a Debian package whose program is on the path.
fn packaged(program: &str, package: &str) -> Result<String> {
    let remedy = || format!("{program} is not installed: apt-get install {package}");
    Command::new(program)
        .arg("--help")
        .output()
        .with_context(remedy)?;
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${Version}", package])
        .output();
    Ok(match output {
        Ok(output) if output.status.success() => {
            format!("{} (Debian)", String::from_utf8_lossy(&output.stdout))
        }
        _ => "of unknown version".to_string(),
    })
}

/// Returns the host and sensor numbers of tag values such as `host_00012` and `temp_35`.
fn source_of(host: &str, sensor: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.rsplit('_').next()?.parse().ok();
    Some((number(host)?, number(sensor)?))
}

/// Returns the values of the tags `host` and `sensor` of a source.
fn host_and_sensor(host: u32, sensor: u32) -> (String, String) {
    let [(_, host), _, (_, sensor)] = tags(host, sensor);
    (host, sensor)
}
