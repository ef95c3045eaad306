//! Another server under the load of `soak`. The server has no disk budget, so the soak shows its
//! behaviour on a full disk.

use crate::client::{Connection, shortened};
use crate::log::store::STEP;
use crate::log::stream::Stream;
use crate::peer::{self, Peer};
use crate::process::{DiskUse, Server};
use crate::volume::Volume;
use anyhow::{Context, Result, bail, ensure};
use seiner_platform::{Clock, SystemClock};
use serde::Serialize;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of batches of the stream per request: some ten thousand rows.
const BATCHES: usize = 10;
/// Multiple of the budget that an ordinary folder may take before the run ends.
const BEYOND: f64 = 1.2;
/// Time for which rows are offered while the disk is full, and again after space was added.
const FULL: Duration = Duration::from_secs(10);
const ROOM: Duration = Duration::from_secs(30);
/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum time of a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Growth of a full volume, as a share of its size.
const MORE_ROOM: f64 = 0.25;
/// Interval between two measurements of a folder.
const SAMPLE: Duration = Duration::from_millis(50);

/// Task of every server.
pub struct Task<'a> {
    /// Number of rows that the server must store to pass.
    pub rows: u64,
    /// Maximum disk usage, in bytes.
    pub budget: u64,
    /// Bytes per row in our blocks, to express progress in multiples of the volume.
    pub row_bytes: f64,
    /// Directory in which volumes are made.
    pub output: &'a Path,
}

/// Result of one server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Fared {
    pub server: String,
    pub rows_offered: u64,
    pub rows_acknowledged: u64,
    pub requests_failed: u64,
    /// Multiples of the volume stored before the server failed or exceeded its space, measured in
    /// our blocks of the same rows.
    pub turns: Option<f64>,
    /// Answer to the first failed request.
    pub first_error: Option<String>,
    /// Maximum disk usage of its folder, bytes.
    pub most: u64,
    /// Number of requests acknowledged after the first failure, before space was added.
    pub acknowledged_when_full: u64,
    /// True if the server exited before it was stopped.
    pub ended: bool,
    /// True if the server accepted rows again after the volume was enlarged, without a restart;
    /// `None` if it was not enlarged.
    pub accepts_again: Option<bool>,
    /// True if the server accepted rows after a restart; `None` if it needed no restart.
    pub after_restart: Option<bool>,
    /// Reason for the end of the run.
    pub end: String,
    pub seconds: f64,
}

/// Measures a folder continuously during `work`, into `most`. Returns the number of measurements.
pub fn watching<T>(folder: &Path, most: &AtomicU64, work: impl FnOnce() -> T) -> (T, u64) {
    let stop = AtomicBool::new(false);
    let samples = AtomicU64::new(0);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(DiskUse::allocated_at_once(folder), Ordering::Relaxed);
                samples.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(SAMPLE);
            }
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    });
    (result, samples.into_inner())
}

/// Feeds a server on its own volume until it has stored all rows, or fails.
pub fn run(peer: &dyn Peer, stream: Stream, task: &Task<'_>) -> Result<Fared> {
    let folder = tempfile::tempdir_in(task.output)?;
    let mut volume = Volume::make(peer::data(folder.path()), task.budget)?;
    let own = volume.is_own();
    let most = AtomicU64::new(0);
    let began = Instant::now();
    let mut feeder = Feeder {
        peer,
        task,
        folder: folder.path(),
        server: peer::start(peer, folder.path())?,
        connection: None,
        stream,
        time: SystemClock::new().now(),
        body: Vec::new(),
        fared: Fared {
            server: peer.name().to_string(),
            ..Fared::default()
        },
    };
    peer.prepare(&mut Connection::open(feeder.server.address)?)?;
    let (failed, _) = watching(volume.path(), &most, || {
        let failed = feeder.until_it_fails(&most, own)?;
        if failed {
            feeder.insist(FULL)?;
        }
        anyhow::Ok(failed)
    });
    if failed? {
        volume.grow(MORE_ROOM)?;
        feeder.with_room()?;
    }
    let Feeder { fared, server, .. } = feeder;
    drop(server);
    Ok(Fared {
        most: most.into_inner(),
        seconds: began.elapsed().as_secs_f64(),
        ..fared
    })
}

/// Feeder of one server.
struct Feeder<'a> {
    peer: &'a dyn Peer,
    task: &'a Task<'a>,
    folder: &'a Path,
    server: Server,
    connection: Option<Connection>,
    stream: Stream,
    /// Time of the next row.
    time: i64,
    body: Vec<u8>,
    fared: Fared,
}

impl Feeder<'_> {
    /// Feeds until a request fails on a volume of its own, a folder exceeds its limit, or all rows
    /// were offered. Returns true in the first case.
    fn until_it_fails(&mut self, most: &AtomicU64, own: bool) -> Result<bool> {
        while self.fared.rows_offered < self.task.rows {
            if !self.offer()? && own {
                return Ok(true);
            }
            let share = most.load(Ordering::Relaxed) as f64 / self.task.budget as f64;
            if !own && share > BEYOND {
                self.note_turns();
                self.fared.end = format!("stopped: it took {share:.2} of its budget");
                return Ok(false);
            }
        }
        self.fared.end = "it accepted all rows".to_string();
        Ok(false)
    }

    /// Offers rows for some time, even if requests fail.
    fn insist(&mut self, time: Duration) -> Result<()> {
        let before = self.fared.rows_acknowledged;
        let began = Instant::now();
        while began.elapsed() < time {
            if !self.offer()? {
                std::thread::sleep(PAUSE);
            }
        }
        self.fared.acknowledged_when_full = self.fared.rows_acknowledged - before;
        Ok(())
    }

    /// Offers rows after a full volume was enlarged, and records whether the server accepts them.
    fn with_room(&mut self) -> Result<()> {
        self.fared.ended = self.server.has_ended()?;
        let accepts_again = !self.fared.ended && self.is_taken_within(ROOM)?;
        self.fared.accepts_again = Some(accepts_again);
        self.fared.end = "ended after its volume was full".to_string();
        if !accepts_again {
            if !self.server.has_ended()? {
                self.server.kill()?;
            }
            self.connection = None;
            let taken = match peer::start(self.peer, self.folder) {
                Ok(server) => {
                    self.server = server;
                    self.is_taken_within(ROOM)?
                }
                Err(error) => {
                    let why = self.without_folder(&format!("{error:#}"));
                    self.fared.end = format!("it could not be started again: {why}");
                    false
                }
            };
            self.fared.after_restart = Some(taken);
        }
        Ok(())
    }

    fn is_taken_within(&mut self, time: Duration) -> Result<bool> {
        let began = Instant::now();
        while began.elapsed() < time {
            if self.offer()? {
                return Ok(true);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(false)
    }

    /// Sends one request. Returns true if it was acknowledged.
    fn offer(&mut self) -> Result<bool> {
        let rows = self.write_body()?;
        self.fared.rows_offered += rows;
        match self.send() {
            Ok(()) => {
                self.fared.rows_acknowledged += rows;
                Ok(true)
            }
            Err(error) => {
                self.connection = None;
                self.fared.requests_failed += 1;
                if self.fared.first_error.is_none() {
                    let mut why = format!("{error:#}");
                    if self.server.has_ended()? {
                        why = format!("{why}; it ended: {}", self.server.log_tail());
                    }
                    self.fared.first_error = Some(self.without_folder(&why));
                    self.note_turns();
                }
                Ok(false)
            }
        }
    }

    fn send(&mut self) -> Result<()> {
        if self.connection.is_none() {
            let mut connection = Connection::open(self.server.address)?;
            connection.patience(PATIENCE)?;
            self.connection = Some(connection);
        }
        let Some(connection) = &mut self.connection else {
            bail!("no connection");
        };
        let response = connection.post(self.peer.write_target(), &self.body)?;
        ensure!(
            (200..300).contains(&response.status),
            "{}: {}",
            response.status,
            shortened(&String::from_utf8_lossy(&response.body))
        );
        Ok(())
    }

    /// Writes the next rows as line protocol. Returns the number of rows.
    fn write_body(&mut self) -> Result<u64> {
        self.body.clear();
        let mut rows = 0;
        for _ in 0..BATCHES {
            let (sources, values) = self.stream.floats();
            for (source, value) in sources.iter().zip(&values) {
                writeln!(self.body, "m0,n={source} value={value} {}", self.time)?;
                self.time += STEP;
            }
            rows += sources.len() as u64;
        }
        Ok(rows)
    }

    fn note_turns(&mut self) {
        let bytes = self.fared.rows_acknowledged as f64 * self.task.row_bytes;
        self.fared.turns = Some(bytes / self.task.budget as f64);
    }

    /// Returns the text of an answer, without the path of the server's files.
    fn without_folder(&self, words: &str) -> String {
        let folder = self.folder.display().to_string();
        shortened(&words.replace(&folder, "…"))
    }
}

/// Returns the servers of a list such as `influxdb,victoriametrics`, with the shortest retention
/// that they accept.
pub fn named(list: &str) -> Result<Vec<Box<dyn Peer>>> {
    let names = list.split(',').map(str::trim);
    let peers = names.filter(|name| !name.is_empty()).map(|name| {
        let peer: Box<dyn Peer> = match name {
            "influxdb" => Box::new(crate::peer::influx::Influx { shortest: true }),
            "victoriametrics" => Box::new(crate::peer::victoria::Victoria {
                shortest: true,
                ..Default::default()
            }),
            _ => bail!("unknown peer {name:?}; choose among influxdb,victoriametrics"),
        };
        Ok(peer)
    });
    peers.collect::<Result<_>>().context("--peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named() {
        let names = |list| -> Vec<&str> {
            let peers = named(list).unwrap();
            peers.iter().map(|peer| peer.name()).collect()
        };
        assert_eq!(names(""), [""; 0]);
        assert_eq!(
            names("victoriametrics, influxdb"),
            ["VictoriaMetrics", "InfluxDB"]
        );
        let error = format!("{:#}", named("sqlite").err().unwrap());
        assert!(error.contains("sqlite") && error.contains("choose among"));
    }
}
