//! An array as a volume of blocks.

use crate::blocks::{BLOCK, Blocks, Shape};
use seiner_raid::{Array, Command, Condition, Failure, Level, Page};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes on their way to the members at most; beyond, whoever writes waits.
const UNDER_WAY: usize = 32 << 20;
/// How long it is believed that the array is as it was: so long after the loss of a member, a crash finds what one finds
/// that comes at the same time.
const BELIEVED: Duration = Duration::from_millis(50);

/// An array. Writes are handed over and not waited for, so that those of several files, and those that follow each other,
/// meet in the array and can be merged.
pub struct ArrayBlocks {
    array: Arc<Array>,
    traffic: Arc<Traffic>,
    /// What was seen when somebody last looked, and when that was.
    seen: Mutex<Option<(Instant, Seen)>>,
}

/// How the array is.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// All members are there.
    whole: bool,
    /// What is trimmed can be written again whatever others do.
    keeps_room: bool,
}

/// What is under way.
#[derive(Default)]
struct Traffic {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: usize,
    /// Writes that have not ended, by the number of flushes begun before them.
    unfinished: BTreeMap<u64, usize>,
    flushes: u64,
    failure: Option<Failure>,
}

impl Traffic {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is made in one go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for another write; answers its epoch.
    fn enter(&self, bytes: usize) -> io::Result<u64> {
        let full = |state: &mut State| state.bytes >= UNDER_WAY && state.failure.is_none();
        let waited = self.changed.wait_while(self.state(), full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        state.bytes += bytes;
        let epoch = state.flushes;
        *state.unfinished.entry(epoch).or_default() += 1;
        Ok(epoch)
    }

    /// A write has ended.
    fn leave(&self, epoch: u64, bytes: usize, failure: Option<Failure>) {
        let mut state = self.state();
        state.bytes -= bytes;
        let left = state.unfinished.get_mut(&epoch);
        let left = left.expect("a write ends once");
        *left -= 1;
        if *left == 0 {
            state.unfinished.remove(&epoch);
        }
        state.failure = state.failure.or(failure);
        self.changed.notify_all();
    }

    /// Waits for all writes that came before.
    fn settle(&self, epoch: u64) -> io::Result<()> {
        let writes = |state: &mut State| {
            let oldest = state.unfinished.first_key_value();
            oldest.is_some_and(|(&oldest, _)| oldest < epoch)
        };
        let waited = self.changed.wait_while(self.state(), writes);
        waited.unwrap_or_else(PoisonError::into_inner).check()
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        self.failure.map_or(Ok(()), |failure| Err(failed(failure)))
    }
}

fn failed(failure: Failure) -> io::Error {
    io::Error::other(format!("the array: {failure}"))
}

impl ArrayBlocks {
    /// Puts files on an array.
    pub fn new(array: Arc<Array>) -> ArrayBlocks {
        let traffic = Arc::default();
        let seen = Mutex::default();
        ArrayBlocks {
            array,
            traffic,
            seen,
        }
    }

    fn look(&self) -> Seen {
        let mut last = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, seen)) = *last
            && at.elapsed() < BELIEVED
        {
            return seen;
        }
        let status = self.array.status();
        let seen = status.map_or_else(Seen::default, |status| Seen {
            whole: status.condition == Condition::Whole,
            keeps_room: status.members.iter().all(|member| member.keeps_room),
        });
        *last = Some((Instant::now(), seen));
        seen
    }
}

impl Blocks for ArrayBlocks {
    fn shape(&self) -> Shape {
        let geometry = self.array.geometry();
        Shape {
            blocks: geometry.blocks(),
            // Where there are no syndromes, nothing is read for a write whatever its size.
            stripe_blocks: match geometry.level() {
                Level::Raid0 | Level::Raid1 => 1,
                Level::Raid5 | Level::Raid6 => u64::from(geometry.stripe_blocks()),
            },
        }
    }

    fn is_whole(&self) -> bool {
        self.look().whole
    }

    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()> {
        let blocks = (buffer.len() / BLOCK) as u64;
        let pages = self.array.read(start, blocks).map_err(failed)?;
        for (piece, page) in buffer.chunks_exact_mut(BLOCK).zip(&pages) {
            piece.copy_from_slice(page.bytes());
        }
        Ok(())
    }

    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len();
        let epoch = self.traffic.enter(len)?;
        let traffic = self.traffic.clone();
        let command = Command::Write {
            start,
            data: bytes.chunks_exact(BLOCK).map(Page::copy_of).collect(),
            durable: false,
        };
        let ended =
            move |result: Result<Vec<Page>, Failure>| traffic.leave(epoch, len, result.err());
        self.array.submit(command, Box::new(ended));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let epoch = {
            let mut state = self.traffic.state();
            state.flushes += 1;
            state.flushes
        };
        // It lets go what is held, and waits for all writes that were handed over before.
        self.array.flush().map_err(failed)?;
        self.traffic.settle(epoch)
    }

    fn trim(&self, start: u64, blocks: u64) {
        let seen = self.look();
        if seen.whole && seen.keeps_room {
            // Nobody needs these blocks, and a member that is lost by it shows when something is written.
            let _ = self.array.trim(start, blocks);
        }
    }
}
