//! Faults of members: bad sectors, silent corruption, deaths, and replacements.

use super::Severity;
use super::block::TinyBlock;
use super::run::{FaultRun, InFlight};
use crate::shard::MemberState;

impl FaultRun {
    /// Makes a sector of a member unreadable.
    pub(super) fn damage(&mut self) {
        let spare = self.missing() < self.geometry.syndromes();
        let member = match self.severity {
            Severity::Tolerated if spare => self.weak,
            Severity::Tolerated => return,
            Severity::Excessive => self.rng.below(self.disks.len() as u64) as usize,
        };
        let sector = self.rng.below(self.disks[member].cached.len() as u64);
        self.disks[member].unreadable.insert(sector);
        self.summary.sectors += 1;
    }

    /// Corrupts a sector of a member silently.
    pub(super) fn corrupt(&mut self) {
        let spare = self.missing() < self.geometry.syndromes();
        let member = match self.severity {
            _ if !self.settings.checksums => return,
            Severity::Tolerated if spare => self.weak,
            Severity::Tolerated => return,
            Severity::Excessive => self.rng.below(self.disks.len() as u64) as usize,
        };
        let sector = self.rng.below(self.disks[member].cached.len() as u64);
        let disk = &mut self.disks[member];
        let at = sector as usize;
        // Contents that are only in the cache cannot become corrupt.
        if disk.cached[at] != disk.stable[at] || disk.corrupt.contains_key(&sector) {
            return;
        }
        disk.corrupt.insert(sector, disk.cached[at]);
        let noise = TinyBlock((self.rng.next_u64() | 1 << 60).to_le_bytes());
        (disk.cached[at], disk.stable[at]) = (noise, noise);
        self.summary.corrupted += 1;
    }

    /// Kills a member: its operations fail.
    pub(super) fn kill(&mut self) {
        let member = self.rng.below(self.disks.len() as u64) as usize;
        let weak = usize::from(member != self.weak && self.disks[self.weak].is_damaged());
        let is_tolerated = self.missing() + weak < self.geometry.syndromes();
        if self.disks[member].dead || (self.severity == Severity::Tolerated && !is_tolerated) {
            return;
        }
        self.disks[member].dead = true;
        self.summary.deaths += 1;
        if self.rng.chance(1, 2) {
            self.shard.lose_member(member);
        }
    }

    /// Replaces a dead member by an empty disk, which is rebuilt.
    pub(super) fn replace(&mut self) {
        let gone = |member: &usize| *self.shard.member(*member) == MemberState::Gone;
        let Some(member) =
            (0..self.disks.len()).find(|member| gone(member) && self.busy[*member] == 0)
        else {
            return;
        };
        let disk = &mut self.disks[member];
        let noise = TinyBlock(self.rng.next_u64().to_le_bytes());
        disk.cached.fill(noise);
        disk.stable.fill(noise);
        disk.unreadable.clear();
        disk.corrupt.clear();
        disk.dead = false;
        if let Some(sums) = &mut disk.sums {
            sums.cached.fill(7);
            sums.stable.fill(7);
        }
        self.shard.replace_member(member);
        for stripe in 0..self.geometry.stripes() {
            let token = self.token(InFlight::Internal);
            self.shard.rebuild(self.now, token, member, stripe);
        }
        self.summary.rebuilt += 1;
    }

    /// Retries stripes whose rebuild failed before, as the coordinator does when they are no longer doubtful.
    pub(super) fn resume(&mut self) {
        for member in 0..self.disks.len() {
            let MemberState::Rebuilding { below, done } = self.shard.member(member).clone() else {
                continue;
            };
            let lacking = (below..self.geometry.stripes()).filter(|stripe| !done.contains(stripe));
            for stripe in lacking.collect::<Vec<_>>() {
                let token = self.token(InFlight::Internal);
                self.shard.rebuild(self.now, token, member, stripe);
            }
            self.resuming.insert(member);
        }
    }

    /// Counts members that were rebuilt completely since their stripes were retried.
    pub(super) fn count_resumed(&mut self) {
        let shard = &self.shard;
        let full = |member: &usize| *shard.member(*member) == MemberState::Up;
        let resumed = self.resuming.iter().filter(|member| full(member)).count();
        self.summary.resumed += resumed as u64;
        self.resuming
            .retain(|member| matches!(shard.member(*member), MemberState::Rebuilding { .. }));
    }
}
