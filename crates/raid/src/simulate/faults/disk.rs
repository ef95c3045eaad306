//! Simulated member with a volatile cache, unreadable sectors, and optional checksums.

use super::Canary;
use super::block::TinyBlock;
use crate::block::Block;
use crate::request::{Action, Outcome};
use seiner_platform::sim::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Simulated member.
pub struct Disk {
    pub(super) cached: Vec<TinyBlock>,
    pub(super) stable: Vec<TinyBlock>,
    pub(super) unreadable: BTreeSet<u64>,
    pub(super) dead: bool,
    /// Checksums of the expected contents.
    pub(super) sums: Option<DiskSums>,
    /// Corrupt sectors, with their correct contents.
    pub(super) corrupt: BTreeMap<u64, TinyBlock>,
    pub(super) canary: Option<Canary>,
}

/// Checksums of a member. Like data, they may be lost until the member is flushed, independently of the data.
#[derive(Clone)]
pub struct DiskSums {
    pub(super) cached: Vec<u32>,
    pub(super) stable: Vec<u32>,
}

impl DiskSums {
    pub(super) fn new(size: usize) -> DiskSums {
        DiskSums {
            cached: vec![sum(TinyBlock::zero()); size],
            stable: vec![sum(TinyBlock::zero()); size],
        }
    }
}

/// Returns the checksum of a block.
fn sum(word: TinyBlock) -> u32 {
    (u64::from_le_bytes(word.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

impl Disk {
    pub(super) fn perform(
        &mut self,
        action: &Action<TinyBlock>,
        forgets: bool,
    ) -> Outcome<TinyBlock> {
        if self.dead {
            return Outcome::Gone;
        }
        match action {
            Action::Read { start, blocks } => {
                let range = *start..start + u64::from(*blocks);
                match self.verify(range.clone()) {
                    true => self.give(range),
                    false => Outcome::Corrupt,
                }
            }
            Action::Adopt { start, blocks } => {
                let range = *start..start + u64::from(*blocks);
                if self.canary == Some(Canary::NoAdoption) && !self.verify(range.clone()) {
                    return Outcome::Corrupt;
                }
                let given = self.give(range.clone());
                if let (Outcome::Read(words), Some(sums)) = (&given, &mut self.sums) {
                    for (at, word) in range.zip(words) {
                        sums.cached[at as usize] = sum(*word);
                        sums.stable[at as usize] = sum(*word);
                    }
                }
                given
            }
            Action::Discard { start, blocks } => {
                for at in *start..start + blocks {
                    self.unreadable.remove(&at);
                    self.cached[at as usize] = TinyBlock::zero();
                    if let Some(sums) = &mut self.sums {
                        sums.cached[at as usize] = sum(TinyBlock::zero());
                    }
                }
                Outcome::Done
            }
            Action::Write { .. } if forgets => Outcome::Done,
            Action::Write {
                start,
                data,
                durable,
            } => {
                for (at, value) in (*start..).zip(data) {
                    self.unreadable.remove(&at);
                    self.cached[at as usize] = *value;
                    if *durable {
                        self.stable[at as usize] = *value;
                        self.corrupt.remove(&at);
                    }
                    if let Some(sums) = &mut self.sums {
                        sums.cached[at as usize] = sum(*value);
                        if *durable {
                            sums.stable[at as usize] = sum(*value);
                        }
                    }
                }
                Outcome::Done
            }
            Action::Flush => {
                self.stable.clone_from(&self.cached);
                if let Some(sums) = &mut self.sums {
                    sums.stable.clone_from(&sums.cached);
                }
                self.forget_overwritten();
                Outcome::Done
            }
        }
    }

    pub(super) fn cut_power(&mut self, rng: &mut Rng) {
        for (stable, cached) in self.stable.iter_mut().zip(&self.cached) {
            if stable != cached && rng.chance(1, 2) {
                *stable = *cached;
            }
        }
        self.cached.clone_from(&self.stable);
        if let Some(sums) = &mut self.sums {
            for (stable, cached) in sums.stable.iter_mut().zip(&sums.cached) {
                if stable != cached && rng.chance(1, 2) {
                    *stable = *cached;
                }
            }
            sums.cached.clone_from(&sums.stable);
        }
        self.forget_overwritten();
    }

    fn give(&self, range: Range<u64>) -> Outcome<TinyBlock> {
        if self.unreadable.range(range.clone()).next().is_some() {
            return Outcome::Unreadable;
        }
        Outcome::Read(self.cached[range.start as usize..range.end as usize].to_vec())
    }

    /// Returns whether the contents match their checksums.
    fn verify(&self, range: Range<u64>) -> bool {
        let Some(sums) = &self.sums else {
            return true;
        };
        let fits = |at: u64| sum(self.cached[at as usize]) == sums.cached[at as usize];
        self.canary == Some(Canary::UncheckedReads) || range.into_iter().all(fits)
    }

    pub(super) fn is_damaged(&self) -> bool {
        !self.unreadable.is_empty() || !self.corrupt.is_empty()
    }

    /// Removes overwritten sectors from the list of corrupt sectors.
    fn forget_overwritten(&mut self) {
        if let Some(sums) = &self.sums {
            let (stable, of) = (&self.stable, &sums.stable);
            self.corrupt
                .retain(|&at, _| sum(stable[at as usize]) != of[at as usize]);
        }
    }

    /// Restores the correct contents of some sectors, as far as they are still corrupt.
    pub(super) fn restore(&mut self, which: impl Fn(u64) -> bool) {
        let corrupt = std::mem::take(&mut self.corrupt);
        for (sector, right) in corrupt {
            if !which(sector) {
                self.corrupt.insert(sector, right);
                continue;
            }
            let at = sector as usize;
            if self.cached[at] == self.stable[at] {
                self.cached[at] = right;
            }
            self.stable[at] = right;
        }
    }
}
