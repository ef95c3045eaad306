//! A client of a real array: keeps a fixed number of writes outstanding and counts the answers.

use super::cell::{Cell, Outcome, Pattern};
use anyhow::{Result, anyhow};
use seiner_platform::sim::Rng;
use seiner_raid::{Array, BLOCK_BYTES, Block, Command, Counters, Page};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// An answered write: its latency in ns, and its result.
type Answered = (u64, Result<(), seiner_raid::Failure>);

/// Generator of writes.
struct Source {
    pattern: Pattern,
    rng: Rng,
    next: u64,
    size: u64,
    data: Vec<Page>,
}

impl Source {
    fn new(array: &Array, cell: &Cell) -> Source {
        let mut rng = Rng::new(1);
        let mut page = Page::zero();
        // Random bytes: some devices write compressible or repeated data faster than real data.
        for word in page.bytes_mut().chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        Source {
            pattern: cell.pattern,
            rng,
            next: 0,
            size: array.bytes() / BLOCK_BYTES as u64,
            data: vec![page; cell.blocks as usize],
        }
    }

    fn submit(&mut self, array: &Array, sender: &Sender<Answered>) {
        let blocks = self.data.len() as u64;
        let start = match self.pattern {
            Pattern::Random => self.rng.below(self.size / blocks) * blocks,
            Pattern::Sequential => {
                if self.next + blocks > self.size {
                    self.next = 0;
                }
                let start = self.next;
                self.next += blocks;
                start
            }
        };
        let command = Command::Write {
            start,
            data: self.data.clone(),
            durable: false,
        };
        let (begin, sender) = (crate::time::now(), sender.clone());
        let then = move |result: Result<Vec<Page>, _>| {
            let took = begin.elapsed().as_nanos() as u64;
            // The receiver is gone if the client has given up.
            let _ = sender.send((took, result.map(drop)));
        };
        array.submit(command, Box::new(then));
    }
}

/// Measures one combination.
pub fn measure(array: &Array, cell: &Cell) -> Result<Outcome> {
    let mut source = Source::new(array, cell);
    if cell.blocks > source.size {
        return Err(anyhow!(
            "a write of {} blocks does not fit a volume of {}",
            cell.blocks,
            source.size
        ));
    }
    let (sender, receiver) = channel();
    (0..cell.depth).for_each(|_| source.submit(array, &sender));
    let begin = crate::time::now();
    let mut measuring: Option<(Instant, Counters)> = None;
    let mut latencies: Vec<u64> = Vec::new();
    let mut outstanding = cell.depth;
    let mut outcome = Outcome::default();
    while outstanding > 0 {
        let (took, result) = receiver.recv().expect("this function holds a sender");
        result.map_err(|failure| anyhow!("a write failed: {failure}"))?;
        let now = crate::time::now();
        let over = now >= begin + cell.warm_up() + cell.time;
        if over {
            outstanding -= 1;
            if let Some((since, before)) = measuring.take() {
                outcome.seconds = (now - since).as_secs_f64();
                outcome.counters = counters(array)?.since(&before);
            }
            continue;
        }
        if measuring.is_some() {
            latencies.push(took);
        } else if now >= begin + cell.warm_up() {
            measuring = Some((crate::time::now(), counters(array)?));
        }
        source.submit(array, &sender);
    }
    outcome.writes = latencies.len() as u64;
    outcome.blocks = outcome.writes * cell.blocks;
    latencies.sort_unstable();
    let at = |percent: usize| {
        let place = latencies.len().saturating_sub(1) * percent / 100;
        latencies.get(place).copied().unwrap_or(0)
    };
    (outcome.p50, outcome.p99) = (at(50), at(99));
    Ok(outcome)
}

fn counters(array: &Array) -> Result<Counters> {
    let status = array.status();
    Ok(status
        .ok_or_else(|| anyhow!("the array ended unexpectedly"))?
        .counters)
}
