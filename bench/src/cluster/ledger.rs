//! Writers that keep a record of every acknowledgement, and the comparison of that record with what is stored.
//!
//! A writer sends numbered rows of its own sources, body by body. It sends a body again, to any port, until one port
//! acknowledges it. So the acknowledged rows of a source are the numbers from 0 on, and at most one body more may be
//! stored.

use crate::client::{Connection, encoded, shortened};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time of the first row, in seconds. A row's time is this plus its number.
const FIRST: u64 = 1_700_000_000;
/// Time after which a writer gives up on an answer and goes to another port.
const PATIENCE: Duration = Duration::from_secs(40);
/// Pause of a writer before it sends a body again.
const PAUSE: Duration = Duration::from_millis(50);
/// Weight of the latest body in the rate that a writer states.
const LATEST: f64 = 0.3;

/// Load of one writer.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of sources.
    pub sources: u32,
    /// Rows of each source in a body.
    pub rows: u32,
    /// Rows per second. `None`: as many as possible.
    pub rate: Option<f64>,
    /// True if the writer follows the advice of ports.
    pub follows: bool,
}

impl Load {
    /// Returns the rows of a body.
    fn body_rows(&self) -> u64 {
        u64::from(self.sources) * u64::from(self.rows)
    }
}

/// Counters and switches of a writer, which its observers read and set.
struct Shared {
    load: Load,
    ports: Vec<SocketAddr>,
    /// Number of acknowledged bodies.
    bodies: AtomicU64,
    /// Position of the port in use.
    port: AtomicUsize,
    /// Bodies that were sent again.
    repeated: AtomicU64,
    /// Longest time from the first attempt of a body to its acknowledgement, in ns, since the last look.
    slowest: AtomicU64,
    /// Answer that no good port gives.
    fault: Mutex<Option<String>>,
    ends: AtomicBool,
}

/// Running writer.
pub struct Writer {
    number: usize,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Record of a writer.
#[derive(Clone, Debug)]
pub struct Record {
    number: usize,
    load: Load,
    bodies: u64,
}

/// Comparison of records with stored rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Acknowledged rows.
    pub acknowledged: u64,
    /// Acknowledged rows that are not found.
    pub lost: u64,
    /// Rows that are found more than once.
    pub repeated: u64,
    /// Rows that nobody sent, or with another value.
    pub wrong: u64,
    /// Rows without an acknowledgement that are stored.
    pub unacknowledged: u64,
}

impl Verdict {
    /// Returns true if each acknowledged row is stored exactly once.
    #[cfg(test)]
    fn is_clean(&self) -> bool {
        self.lost + self.repeated + self.wrong == 0
    }

    /// Adds the result for other rows.
    fn add(&mut self, other: Verdict) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.wrong += other.wrong;
        self.unacknowledged += other.unacknowledged;
    }
}

impl Writer {
    /// Starts a writer, which uses the port at a position first.
    pub fn start(number: usize, load: Load, ports: Vec<SocketAddr>, port: usize) -> Writer {
        let shared = Arc::new(Shared {
            load,
            ports,
            bodies: AtomicU64::new(0),
            port: AtomicUsize::new(port),
            repeated: AtomicU64::new(0),
            slowest: AtomicU64::new(0),
            fault: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let run = shared.clone();
        let thread = thread::spawn(move || Sender::new(number, run).run());
        Writer {
            number,
            shared,
            thread: Some(thread),
        }
    }

    /// Returns the acknowledged rows.
    pub fn rows(&self) -> u64 {
        self.shared.bodies.load(SeqCst) * self.shared.load.body_rows()
    }

    /// Returns the position of the port in use.
    pub fn port(&self) -> usize {
        self.shared.port.load(SeqCst)
    }

    /// Returns the number of bodies that were sent again.
    pub fn repeated(&self) -> u64 {
        self.shared.repeated.load(SeqCst)
    }

    /// Returns the longest time until an acknowledgement since the last call.
    pub fn slowest(&self) -> Duration {
        Duration::from_nanos(self.shared.slowest.swap(0, SeqCst))
    }

    /// Ends the writer after its present body. Returns its record.
    ///
    /// # Errors
    /// If a port has given an answer that no good port gives.
    pub fn finish(mut self) -> Result<Record> {
        self.shared.ends.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a writer does not panic");
        }
        let fault = self.shared.fault.lock().expect("no writer panics").take();
        ensure!(
            fault.is_none(),
            "a port answered {}",
            fault.unwrap_or_default()
        );
        Ok(Record {
            number: self.number,
            load: self.shared.load,
            bodies: self.shared.bodies.load(SeqCst),
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
    }
}

/// Part of a writer that runs in its thread.
struct Sender {
    number: usize,
    shared: Arc<Shared>,
    connection: Option<Connection>,
    /// Rows per second, smoothed.
    rate: f64,
}

impl Sender {
    fn new(number: usize, shared: Arc<Shared>) -> Sender {
        Sender {
            number,
            shared,
            connection: None,
            rate: 0.0,
        }
    }

    fn run(mut self) {
        let mut due = Instant::now();
        let mut text = String::new();
        while !self.shared.ends.load(SeqCst) {
            let body = self.shared.bodies.load(SeqCst);
            write_body(self.number, &self.shared.load, body, &mut text);
            let began = Instant::now();
            while !self.send(&text) {
                if self.shared.ends.load(SeqCst) {
                    return;
                }
                self.shared.repeated.fetch_add(1, SeqCst);
                thread::sleep(PAUSE);
            }
            let took = began.elapsed();
            self.shared
                .slowest
                .fetch_max(took.as_nanos() as u64, SeqCst);
            self.shared.bodies.fetch_add(1, SeqCst);
            let rows = self.shared.load.body_rows() as f64;
            let latest = self
                .shared
                .load
                .rate
                .unwrap_or(rows / took.as_secs_f64().max(1e-6));
            self.rate += LATEST * (latest - self.rate);
            if let Some(rate) = self.shared.load.rate {
                // A writer that was held up does not catch up: its rate never exceeds the given one.
                due = Instant::now().max(due + Duration::from_secs_f64(rows / rate));
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// Sends a body once. Returns true if it is acknowledged.
    fn send(&mut self, text: &str) -> bool {
        let port = self.shared.port.load(SeqCst);
        if self.connection.is_none() {
            let opened = Connection::open(self.shared.ports[port]);
            self.connection = opened.ok().and_then(|mut open| {
                open.patience(PATIENCE).ok()?;
                Some(open)
            });
        }
        let Some(connection) = &mut self.connection else {
            self.go_on();
            return false;
        };
        let target = "/write?precision=s";
        let answer = match self.shared.load.follows {
            true => connection.post_at_rate(target, text.as_bytes(), self.rate),
            false => connection.post(target, text.as_bytes()),
        };
        match answer {
            Ok(answer) => {
                let advice = answer.ports.clone().filter(|_| self.shared.load.follows);
                let moved = advice.is_some_and(|ports| self.follow(&ports));
                match answer.status {
                    200..=299 => return true,
                    503 | 507 | 500 if moved => {}
                    503 | 507 | 500 => self.go_on(),
                    status => {
                        let text = String::from_utf8_lossy(&answer.body);
                        let fault = format!("{status}: {}", shortened(&text));
                        *self.shared.fault.lock().expect("no writer panics") = Some(fault);
                        self.shared.ends.store(true, SeqCst);
                    }
                }
                false
            }
            Err(_) => {
                self.go_on();
                false
            }
        }
    }

    /// Goes on to the next port.
    fn go_on(&mut self) {
        let next = (self.shared.port.load(SeqCst) + 1) % self.shared.ports.len();
        self.shared.port.store(next, SeqCst);
        self.connection = None;
    }

    /// Goes to the best of the ports that a port names.
    fn follow(&mut self, ports: &str) -> bool {
        let named = ports.split(',').find_map(|port| {
            let address: SocketAddr = port.parse().ok()?;
            self.shared.ports.iter().position(|known| *known == address)
        });
        match named {
            Some(port) if port != self.shared.port.load(SeqCst) => {
                self.shared.port.store(port, SeqCst);
                self.connection = None;
                true
            }
            _ => false,
        }
    }
}

/// Writes the lines of a body.
fn write_body(writer: usize, load: &Load, body: u64, text: &mut String) {
    text.clear();
    let first = body * u64::from(load.rows);
    for source in 0..load.sources {
        for number in first..first + u64::from(load.rows) {
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "count,writer=w{writer},sensor=s{source} v={number} {}",
                FIRST + number
            );
        }
    }
}

/// Time for which a read that fails is repeated: a node that has returned may not answer all reads at once.
const REPEATED: Duration = Duration::from_secs(60);

/// Compares records with the rows that a port returns.
pub fn verify(port: SocketAddr, records: &[Record]) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let mut connection = Connection::open(port)?;
    for record in records {
        for source in 0..record.load.sources {
            let start = Instant::now();
            let found = loop {
                let found = stored(&mut connection, record.number, source)
                    .with_context(|| format!("source {source} of writer {}", record.number));
                match found {
                    Ok(found) => break found,
                    Err(error) if start.elapsed() < REPEATED => {
                        eprintln!("a read is repeated: {error:#}");
                        std::thread::sleep(Duration::from_secs(1));
                        connection = Connection::open(port)?;
                    }
                    Err(error) => return Err(error),
                }
            };
            verdict.add(compare(record, &found));
        }
    }
    Ok(verdict)
}

/// Returns the rows of a source: times in ns and values.
fn stored(connection: &mut Connection, writer: usize, source: u32) -> Result<Vec<(i64, f64)>> {
    let selector = format!("count{{writer=\"w{writer}\",sensor=\"s{source}\"}}");
    let from = FIRST * 1_000_000_000;
    let to = (FIRST + 100_000_000) * 1_000_000_000;
    let target = format!(
        "/api/v1/query?select={}&from={from}&to={to}",
        encoded(&selector)
    );
    let answer = connection.get(&target)?.text()?;
    #[derive(serde::Deserialize)]
    struct Series {
        times: Vec<i64>,
        values: Vec<f64>,
    }
    #[derive(serde::Deserialize)]
    struct Answer {
        series: Vec<Series>,
        #[serde(default)]
        warnings: Vec<serde_json::Value>,
    }
    let answer: Answer = serde_json::from_str(&answer)?;
    ensure!(
        answer.warnings.is_empty(),
        "the answer may be incomplete: {:?}",
        answer.warnings
    );
    let rows = answer.series.into_iter();
    Ok(rows
        .flat_map(|series| series.times.into_iter().zip(series.values))
        .collect())
}

/// Compares the rows of one source with the record.
fn compare(record: &Record, found: &[(i64, f64)]) -> Verdict {
    let acknowledged = record.bodies * u64::from(record.load.rows);
    let sent = acknowledged + u64::from(record.load.rows);
    let mut seen = vec![0_u8; sent as usize];
    let mut verdict = Verdict {
        acknowledged,
        ..Verdict::default()
    };
    for (time, value) in found {
        let number = (time / 1_000_000_000 - FIRST as i64) as u64;
        match seen.get_mut(number as usize) {
            Some(count) if *value == number as f64 => *count = count.saturating_add(1),
            _ => verdict.wrong += 1,
        }
    }
    for (number, count) in seen.into_iter().enumerate() {
        let is_acknowledged = (number as u64) < acknowledged;
        match count {
            0 => verdict.lost += u64::from(is_acknowledged),
            1 => verdict.unacknowledged += u64::from(!is_acknowledged),
            _ => verdict.repeated += 1,
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_repeated_and_wrong_rows_are_told_apart() {
        let load = Load {
            sources: 1,
            rows: 2,
            rate: None,
            follows: false,
        };
        let record = Record {
            number: 0,
            load,
            bodies: 3,
        };
        let row = |number: u64| ((FIRST + number) as i64 * 1_000_000_000, number as f64);
        let whole: Vec<_> = (0..6).map(row).collect();
        assert!(compare(&record, &whole).is_clean());
        assert!(compare(&record, &(0..7).map(row).collect::<Vec<_>>()).is_clean());
        let lost = compare(&record, &whole[..5]);
        assert_eq!((lost.lost, lost.acknowledged), (1, 6));
        let mut other = whole.clone();
        other.push(row(2));
        other.push(row(20));
        other[0].1 = 5.0;
        let other = compare(&record, &other);
        assert_eq!((other.lost, other.repeated, other.wrong), (1, 1, 2));
        let mut text = String::new();
        write_body(3, &load, 1, &mut text);
        assert_eq!(
            text,
            "count,writer=w3,sensor=s0 v=2 1700000002\ncount,writer=w3,sensor=s0 v=3 1700000003\n"
        );
    }
}
