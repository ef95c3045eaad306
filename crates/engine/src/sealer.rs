//! Sealer: encodes taken buffers into blocks and adds these to the log.

use crate::error::Error;
use crate::locks::Locks;
use crate::log::Log;
use crate::opened::Parts;
use crate::sealing::encode::Encoder;
use crate::volume::Volume;
use seiner_platform::critical;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks that are appended under one lock.
const BLOCKS_A_LOCK: usize = 32;
/// Buffers that are freed under one lock.
const FREED_A_LOCK: usize = 512;

/// Encoder of a store. One thread at a time uses it, so that blocks are added to the log in the
/// order in which their buffers were taken.
pub struct Sealer(Mutex<Encoder>);

impl Sealer {
    /// Creates the sealer of a store.
    pub fn new(encoder: Encoder) -> Sealer {
        Sealer(Mutex::new(encoder))
    }

    /// Seals the buffers that were taken before the call.
    ///
    /// # Errors
    /// If no segment can be begun. Buffers that are not sealed stay in the queue.
    pub fn run(&self, locks: &Locks, volume: &dyn Volume) -> Result<(), Error> {
        let end = locks.head().sealing().end();
        let mut encoder = self.pause();
        while run_some(&mut encoder, locks, volume, end)? {}
        Ok(())
    }

    /// Prevents other threads from sealing while the result lives. This lock comes before the locks
    /// of head and log.
    pub fn pause(&self) -> MutexGuard<'_, Encoder> {
        // The encoder is cleared before each use, so a panic leaves nothing behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seals some buffers before the position `end` of the queue. Returns whether there were any.
///
/// Between the two locks, a block is in the log and its buffer is still in the queue. Readers
/// decide by [`Log::logged`].
///
/// [`Log::logged`]: crate::log::Log::logged
fn run_some(
    encoder: &mut Encoder,
    locks: &Locks,
    volume: &dyn Volume,
    end: u64,
) -> Result<bool, Error> {
    encoder.clear();
    while locks.head().copy_taken(end, encoder) {}
    critical::assert_outside("encoding blocks");
    encoder.encode();
    if encoder.has_small() {
        let lanes = locks.log().lanes_of(encoder.all());
        encoder.bundle(&lanes);
        let mut log = locks.log_with_slots(volume, |log| log.slots_for(encoder.lanes()))?;
        log.append_all(encoder);
        drop(log);
        free(locks, encoder, encoder.len());
        return Ok(true);
    }
    let mut left = encoder.blocks();
    let any = !left.is_empty();
    while !left.is_empty() {
        let mut log = locks.log_with_slot(volume)?;
        let done = log.append_encoded(&left[..left.len().min(BLOCKS_A_LOCK)], encoder);
        drop(log);
        free(locks, encoder, done);
        left = &left[done..];
    }
    Ok(any)
}

/// Frees the first taken buffers, some under each lock.
fn free(locks: &Locks, encoder: &Encoder, mut count: usize) {
    while count > 0 {
        let some = count.min(FREED_A_LOCK);
        let mut head = locks.head();
        head.sealer_memory = encoder.memory();
        head.free_taken(some);
        count -= some;
    }
}

/// Seals all taken buffers of a store that no other thread uses yet.
///
/// # Errors
/// If no segment can be begun.
pub(crate) fn run_alone(
    Parts { head, log, .. }: &mut Parts,
    volume: &dyn Volume,
    encoder: &mut Encoder,
) -> Result<(), Error> {
    let claim = |log: &mut Log| -> Result<(), Error> {
        let number = log.number_segment();
        let file = volume.claim(number)?;
        log.add_slots([(number, file)]);
        Ok(())
    };
    while head.sealing().len() > 0 {
        encoder.clear();
        while head.copy_taken(head.sealing().end(), encoder) {}
        encoder.encode();
        if encoder.has_small() {
            let lanes = log.lanes_of(encoder.all());
            encoder.bundle(&lanes);
            while log.slots() < log.slots_for(encoder.lanes()) {
                claim(log)?;
            }
            log.append_all(encoder);
            head.free_taken(encoder.len());
            continue;
        }
        let mut left = encoder.blocks();
        while !left.is_empty() {
            let done = log.append_encoded(left, encoder);
            head.free_taken(done);
            left = &left[done..];
            if !log.has_slot() && !left.is_empty() {
                claim(log)?;
            }
        }
    }
    Ok(())
}
