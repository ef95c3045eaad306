//! Feeds a server: every agent sends its bodies in order over its own connection.

use crate::client::{Connection, Response, shortened};
use crate::dataset::{AgentFile, Dataset};
use crate::workload::{Lines, Workload};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of attempts to send a body before the run is abandoned.
const ATTEMPTS: u32 = 600;

/// Measurements of a load on the client's side.
#[derive(Debug, Default, Clone, Copy)]
pub struct FeedResult {
    /// Time from the first byte sent to the last acknowledgement.
    pub wall: Duration,
    /// Number of bodies that were sent again because the server deferred them (429, 503 or 500).
    pub put_off: u64,
}

/// Number of acknowledged lines by agent. Other threads read it during the load.
#[derive(Debug)]
pub struct Acknowledged {
    lines: Vec<AtomicU64>,
}

impl Acknowledged {
    /// Creates counters at zero.
    pub fn new(agents: usize) -> Acknowledged {
        Acknowledged {
            lines: (0..agents).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Adds acknowledged lines of one agent.
    pub fn add(&self, agent: usize, lines: u64) {
        self.lines[agent].fetch_add(lines, Ordering::SeqCst);
    }

    /// Returns the number of acknowledged lines of one agent. They are the first lines of its file.
    pub fn by_agent(&self, agent: usize) -> u64 {
        self.lines[agent].load(Ordering::SeqCst)
    }

    /// Returns the number of acknowledged lines of all agents.
    pub fn total(&self) -> u64 {
        (0..self.lines.len())
            .map(|agent| self.by_agent(agent))
            .sum()
    }
}

/// Sends a data set. After an error, `acknowledged` contains the lines acknowledged before it.
pub fn feed(
    address: SocketAddr,
    target: &str,
    dataset: &Dataset,
    acknowledged: &Acknowledged,
) -> Result<FeedResult> {
    let senders = dataset.agents.iter().enumerate().map(|(number, agent)| {
        move || {
            send_file(address, target, agent, |lines| {
                acknowledged.add(number, lines)
            })
        }
    });
    run(senders)
}

/// Generates a workload while it is sent. Such a workload may exceed the size limit of files.
pub fn feed_generated(
    address: SocketAddr,
    target: &str,
    workload: &Workload,
    agents: u32,
    lines_per_body: u64,
) -> Result<FeedResult> {
    let acknowledged = Acknowledged::new(agents as usize);
    let count = &acknowledged;
    let senders = (0..agents).map(|agent| {
        let lines = Lines::new(workload, agent, agents);
        move || {
            send_generated(address, target, lines, lines_per_body, |lines| {
                count.add(agent as usize, lines)
            })
        }
    });
    run(senders)
}

/// Generates one agent's share of a workload while it is sent.
pub fn feed_share(
    address: SocketAddr,
    target: &str,
    workload: &Workload,
    (agent, agents): (u32, u32),
    lines_per_body: u64,
) -> Result<()> {
    let lines = Lines::new(workload, agent, agents);
    send_generated(address, target, lines, lines_per_body, |_| {})?;
    Ok(())
}

fn run<S: FnOnce() -> Result<u64> + Send>(senders: impl Iterator<Item = S>) -> Result<FeedResult> {
    let start = Instant::now();
    let put_off = thread::scope(|scope| {
        let running: Vec<_> = senders.map(|sender| scope.spawn(sender)).collect();
        let ended = running
            .into_iter()
            .map(|sender| sender.join().expect("a sender does not panic"));
        ended
            .collect::<Vec<Result<u64>>>()
            .into_iter()
            .sum::<Result<u64>>()
    })?;
    Ok(FeedResult {
        wall: start.elapsed(),
        put_off,
    })
}

fn send_file(
    address: SocketAddr,
    target: &str,
    agent: &AgentFile,
    count: impl Fn(u64),
) -> Result<u64> {
    let mut connection = Connection::open(address)?;
    let mut file =
        File::open(&agent.path).with_context(|| format!("opening {}", agent.path.display()))?;
    let mut put_off = 0;
    for body in &agent.bodies {
        put_off +=
            until_taken(|| connection.post_file(target, &mut file, body.start, body.length))?;
        count(body.lines);
    }
    Ok(put_off)
}

fn send_generated(
    address: SocketAddr,
    target: &str,
    mut lines: Lines,
    lines_per_body: u64,
    count: impl Fn(u64),
) -> Result<u64> {
    let mut connection = Connection::open(address)?;
    let (mut text, mut put_off) = (Vec::new(), 0);
    loop {
        text.clear();
        let written = lines.write(lines_per_body as usize, &mut text)?;
        if written == 0 {
            return Ok(put_off);
        }
        put_off += until_taken(|| connection.post(target, &text))?;
        count(written as u64);
    }
}

/// Sends a body until the server accepts it. Returns the number of deferrals.
pub fn until_taken(mut send: impl FnMut() -> Result<Response>) -> Result<u64> {
    for attempt in 0..ATTEMPTS {
        let response = send()?;
        match response.status {
            200..=299 => return Ok(u64::from(attempt)),
            429 | 500 | 503 => thread::sleep(Duration::from_millis(100)),
            status => {
                bail!(
                    "the server rejected a body: {status}: {}",
                    shortened(&String::from_utf8_lossy(&response.body))
                )
            }
        }
    }
    bail!("the server deferred a body {ATTEMPTS} times")
}
