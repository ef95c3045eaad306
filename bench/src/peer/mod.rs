//! The servers that are compared: how each is started, fed, settled and asked.

pub mod influx;
pub mod questdb;
pub mod seiner;
pub mod victoria;

use crate::client::Connection;
use crate::process::Server;
use crate::workload::{Workload, tags};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A question that every server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// All samples of one series.
    Series {
        /// Its host.
        host: u32,
        /// Its number at the host.
        sensor: u32,
    },
    /// The mean of each minute of each of the 100 series of a host.
    MinuteMeans {
        /// The host.
        host: u32,
    },
}

impl Question {
    /// How many values the right answer has: the least and the most, as servers differ in
    /// whether a minute is named by its start or its end.
    pub fn expected(&self, workload: &Workload) -> (usize, usize) {
        let ticks = workload.ticks as usize;
        match self {
            Question::Series { .. } => (ticks, ticks),
            Question::MinuteMeans { .. } => (100 * (ticks / 6), 100 * (ticks / 6 + 3)),
        }
    }
}

/// A server of some make.
pub trait Peer: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// Its version, or why it cannot take part.
    fn version(&self) -> Result<String>;
    /// Starts it on an empty or existing folder, with its data under `data` in it.
    fn spawn(&self, folder: &Path) -> Result<Server>;
    /// Whether it answers requests.
    fn ready(&self, address: SocketAddr) -> bool;
    /// Prepares it for the first write.
    fn prepare(&self, _connection: &mut Connection) -> Result<()> {
        Ok(())
    }
    /// Where line protocol goes to.
    fn write_target(&self) -> &'static str;
    /// Brings its data into the form in which they stay; false if they still change.
    fn settle(&self, connection: &mut Connection, folder: &Path) -> Result<bool>;
    /// How many samples it answers for, over the interval of a workload.
    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64>;
    /// The same for each source, by host and sensor.
    fn stored_by_source(
        &self,
        connection: &mut Connection,
        workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>>;
    /// The target of the GET request that asks a question.
    fn target(&self, question: Question, workload: &Workload) -> String;
    /// How many values an answer has.
    fn values(&self, answer: &str) -> Result<usize>;
    /// What a reader must know of its settings.
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

/// Where a server keeps its data in its folder.
pub fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn answers(address: SocketAddr, target: &str) -> bool {
    let response = Connection::open(address)
        .ok()
        .and_then(|mut connection| connection.get(target).ok());
    response.is_some_and(|response| (200..300).contains(&response.status))
}

/// The version of a Debian package whose program is on the path.
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

/// The host and sensor numbers of tag values such as `host_00012` and `temp_35`.
fn source_of(host: &str, sensor: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.rsplit('_').next()?.parse().ok();
    Some((number(host)?, number(sensor)?))
}

/// The values of the tags `host` and `sensor` of a source.
fn host_and_sensor(host: u32, sensor: u32) -> (String, String) {
    let [(_, host), _, (_, sensor)] = tags(host, sensor);
    (host, sensor)
}
