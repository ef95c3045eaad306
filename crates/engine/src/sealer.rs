//! The sealer: makes blocks of taken buffers and adds them to the log.

use crate::error::Error;
use crate::sealing::encode::Encoder;
use crate::shared::Shared;
use crate::state::State;
use crate::volume::Volume;
use seiner_platform::critical;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks that are appended under one lock.
const BLOCKS_A_LOCK: usize = 32;

/// Encoder of a store. One thread at a time uses it, so that blocks join the log in the order in which
/// their buffers were taken.
#[derive(Default)]
pub struct Sealer(Mutex<Encoder>);

impl Sealer {
    /// Seals the buffers that were taken before the call.
    ///
    /// # Errors
    /// When no segment can be begun. Buffers that are not sealed stay in the queue.
    pub fn run(&self, shared: &Shared, volume: &dyn Volume) -> Result<(), Error> {
        let end = shared.lock().sealing.end();
        let mut encoder = self.pause();
        while run_some(&mut encoder, shared, volume, end)? {}
        Ok(())
    }

    /// Keeps others from sealing as long as the result lives. The lock comes before that of the state.
    pub fn pause(&self) -> MutexGuard<'_, Encoder> {
        // What an encoder has is made anew each time, so that a panic leaves nothing behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seals some buffers before the position `end` of the queue. Returns whether there were any.
fn run_some(
    encoder: &mut Encoder,
    shared: &Shared,
    volume: &dyn Volume,
    end: u64,
) -> Result<bool, Error> {
    encoder.clear();
    shared.lock().copy_taken(end, encoder);
    critical::assert_outside("encoding blocks");
    encoder.encode();
    let mut left = encoder.blocks();
    let any = !left.is_empty();
    while !left.is_empty() {
        let mut state = shared.lock_with_slot(volume)?;
        state.sealer_memory = encoder.memory();
        let some = &left[..left.len().min(BLOCKS_A_LOCK)];
        let done = state.append_encoded(some, encoder);
        left = &left[done..];
    }
    Ok(any)
}

/// Seals all taken buffers of a state that no other thread has yet, as a start does.
///
/// # Errors
/// When no segment can be begun.
pub fn run_alone(state: &mut State, encoder: &mut Encoder) -> Result<(), Error> {
    while state.sealing.len() > 0 {
        encoder.clear();
        state.copy_taken(state.sealing.end(), encoder);
        encoder.encode();
        let mut left = encoder.blocks();
        while !left.is_empty() {
            let done = state.append_encoded(left, encoder);
            left = &left[done..];
            if state.ready.is_empty() && !left.is_empty() {
                let number = state.number_segment();
                let file = state.volume.claim(number)?;
                state.ready.push_back((number, file));
            }
        }
    }
    Ok(())
}
