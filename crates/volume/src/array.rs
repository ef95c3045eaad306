//! Adapter: a RAID array as a volume of blocks.

use crate::blocks::{BLOCK, Blocks, VolumeShape};
use seiner_raid::{Array, Command, Condition, Failure, Level, Page};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum bytes in flight to the members; beyond it, writers wait.
const MAX_IN_FLIGHT: usize = 32 << 20;
/// Maximum age of the cached state of the array. A crash within this time after the loss of a member has the same
/// effect as a crash at the moment of the loss.
const STATE_MAX_AGE: Duration = Duration::from_millis(50);

/// An array as a volume of blocks. Writes are submitted without waiting, so that the array can merge concurrent
/// writes of several files and successive writes of one.
pub struct ArrayBlocks {
    array: Arc<Array>,
    traffic: Arc<Traffic>,
    /// Last known state, with the time at which it was read.
    last_state: Mutex<Option<(Instant, ArrayState)>>,
}

/// State of the array.
#[derive(Clone, Copy, Default)]
struct ArrayState {
    /// True if all members are present.
    whole: bool,
    /// True if trimmed blocks keep their space on every member, so that they can always be written again.
    keeps_space: bool,
}

/// Writes in flight.
#[derive(Default)]
struct Traffic {
    state: Mutex<TrafficState>,
    changed: Condvar,
}

#[derive(Default)]
struct TrafficState {
    bytes: usize,
    /// Unfinished writes, by the number of flushes begun before them.
    unfinished: BTreeMap<u64, usize>,
    flushes: u64,
    failure: Option<Failure>,
}

impl Traffic {
    fn state(&self) -> MutexGuard<'_, TrafficState> {
        // A panic cannot leave a change half made: each change is a single step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for space for another write; returns the write's epoch, which is the number of flushes begun so far.
    fn enter(&self, bytes: usize) -> io::Result<u64> {
        let full =
            |state: &mut TrafficState| state.bytes >= MAX_IN_FLIGHT && state.failure.is_none();
        let waited = self.changed.wait_while(self.state(), full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        state.bytes += bytes;
        let epoch = state.flushes;
        *state.unfinished.entry(epoch).or_default() += 1;
        Ok(epoch)
    }

    /// Notes that a write has ended.
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

    /// Waits for all writes of epochs before `epoch`.
    fn wait_for_epochs(&self, epoch: u64) -> io::Result<()> {
        let writes = |state: &mut TrafficState| {
            let oldest = state.unfinished.first_key_value();
            oldest.is_some_and(|(&oldest, _)| oldest < epoch)
        };
        let waited = self.changed.wait_while(self.state(), writes);
        waited.unwrap_or_else(PoisonError::into_inner).check()
    }
}

impl TrafficState {
    fn check(&self) -> io::Result<()> {
        self.failure.map_or(Ok(()), |failure| Err(failed(failure)))
    }
}

fn failed(failure: Failure) -> io::Error {
    io::Error::other(format!("the array: {failure}"))
}

impl ArrayBlocks {
    /// Creates a volume on an array.
    pub fn new(array: Arc<Array>) -> ArrayBlocks {
        let traffic = Arc::default();
        let last_state = Mutex::default();
        ArrayBlocks {
            array,
            traffic,
            last_state,
        }
    }

    fn look(&self) -> ArrayState {
        let mut last = self
            .last_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((at, last_state)) = *last
            && at.elapsed() < STATE_MAX_AGE
        {
            return last_state;
        }
        let status = self.array.status();
        let last_state = status.map_or_else(ArrayState::default, |status| ArrayState {
            whole: status.condition == Condition::Whole,
            keeps_space: status.members.iter().all(|member| member.keeps_space),
        });
        *last = Some((Instant::now(), last_state));
        last_state
    }
}

impl Blocks for ArrayBlocks {
    fn shape(&self) -> VolumeShape {
        let geometry = self.array.geometry();
        VolumeShape {
            blocks: geometry.blocks(),
            // Levels without syndromes read nothing for a write of any size.
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
        // The flush releases held writes and waits for all writes submitted before it.
        self.array.flush().map_err(failed)?;
        self.traffic.wait_for_epochs(epoch)
    }

    fn trim(&self, start: u64, blocks: u64) {
        let last_state = self.look();
        if last_state.whole && last_state.keeps_space {
            // These blocks are not needed. A member that fails during the trim is detected at the next write.
            let _ = self.array.trim(start, blocks);
        }
    }
}
