//! Another server under the load of `soak`: it has no disk budget, so what it does on a full disk shows.

use crate::client::{Connection, shortened};
use crate::log::load::{STEP, Stream};
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

/// Batches of the stream in a request: some ten thousand rows.
const BATCHES: usize = 10;
/// What an ordinary folder may take over the budget before the run ends.
const BEYOND: f64 = 1.2;
/// How long it is offered rows although its disk is full, and how long once there is room again.
const FULL: Duration = Duration::from_secs(10);
const ROOM: Duration = Duration::from_secs(30);
/// Between requests after one that failed.
const PAUSE: Duration = Duration::from_millis(200);
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the volume grows by when it was full.
const MORE_ROOM: f64 = 0.25;
/// How often a folder is measured.
const SAMPLE: Duration = Duration::from_millis(50);

/// What is asked of every server.
pub struct Task<'a> {
    /// Rows after which it has borne it.
    pub rows: u64,
    /// What it may take, in bytes.
    pub budget: u64,
    /// What so many rows take in our blocks, for a measure of how far it came.
    pub row_bytes: f64,
    /// Where volumes are made.
    pub output: &'a Path,
}

/// How one fared.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Fared {
    pub server: String,
    pub rows_offered: u64,
    pub rows_acknowledged: u64,
    pub requests_failed: u64,
    /// How often the volume had been stored, in our blocks of the same rows, when it first failed or took
    /// too much.
    pub turns: Option<f64>,
    /// The answer to the request that failed first.
    pub first_error: Option<String>,
    /// The most that its folder took, bytes.
    pub most: u64,
    /// Requests acknowledged after the first that failed, while no room was given to it.
    pub acknowledged_when_full: u64,
    /// Whether it had ended by itself.
    pub ended: bool,
    /// Whether it took rows again once the volume was larger, without a restart; none if it was not made larger.
    pub goes_on: Option<bool>,
    /// Whether it did after a restart, where it needed one.
    pub after_restart: Option<bool>,
    /// Why the run ended.
    pub end: String,
    pub seconds: f64,
}

/// Measures a folder again and again while something is done, into `most`; answers how often.
pub fn watching<T>(folder: &Path, most: &AtomicU64, work: impl FnOnce() -> T) -> (T, u64) {
    let stop = AtomicBool::new(false);
    let samples = AtomicU64::new(0);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(DiskUse::of(folder).allocated, Ordering::Relaxed);
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

/// Feeds a server on a volume of its own until it has borne it, or cannot.
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

/// What feeds one.
struct Feeder<'a> {
    peer: &'a dyn Peer,
    task: &'a Task<'a>,
    folder: &'a Path,
    server: Server,
    connection: Option<Connection>,
    stream: Stream,
    /// When the next row was measured.
    time: i64,
    body: Vec<u8>,
    fared: Fared,
}

impl Feeder<'_> {
    /// Until a request fails on a volume of its own, which is what is answered, a folder takes too much,
    /// or all was offered.
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
        self.fared.end = "it took all that it was offered".to_string();
        Ok(false)
    }

    /// For some time, whatever it answers.
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

    /// The volume was full and is larger now: does it take rows again?
    fn with_room(&mut self) -> Result<()> {
        self.fared.ended = self.server.has_ended()?;
        let goes_on = !self.fared.ended && self.is_taken_within(ROOM)?;
        self.fared.goes_on = Some(goes_on);
        self.fared.end = "ended after its volume was full".to_string();
        if !goes_on {
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
                    let why = self.told(&format!("{error:#}"));
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

    /// Sends one request; answers whether it was acknowledged.
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
                    self.fared.first_error = Some(self.told(&why));
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

    /// The next rows, as line protocol; answers how many.
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

    /// What it said, without where its files are.
    fn told(&self, words: &str) -> String {
        let folder = self.folder.display().to_string();
        shortened(&words.replace(&folder, "…"))
    }
}

/// The servers named in a list such as `influxdb,victoriametrics`, told to keep rows as short as
/// they accept.
pub fn named(list: &str) -> Result<Vec<Box<dyn Peer>>> {
    let names = list.split(',').map(str::trim);
    let peers = names.filter(|name| !name.is_empty()).map(|name| {
        let peer: Box<dyn Peer> = match name {
            "influxdb" => Box::new(crate::peer::influx::Influx { shortest: true }),
            "victoriametrics" => Box::new(crate::peer::victoria::Victoria { shortest: true }),
            _ => bail!("there is no peer {name:?}; choose among influxdb,victoriametrics"),
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
