//! Power cuts, and the state of the array after the restart.

use super::disk::Disk;
use super::run::{FaultRun, InFlight, Version};
use super::{Canary, Severity};
use crate::geometry::Level;
use crate::mark::Mark;
use crate::request::{Action, Request};
use crate::shard::{MemberState, Shard};
use std::collections::BTreeSet;

impl FaultRun {
    /// Cuts the power and restarts the array. Unflushed writes may be lost, block by block. Writes in flight may
    /// have taken effect.
    pub(super) fn cut_power(&mut self) -> Result<(), String> {
        // A power cut together with a lost sector is one fault more than a stripe in writing tolerates.
        let lost = self.missing() > 0 || self.disks.iter().any(Disk::is_damaged);
        if self.severity == Severity::Tolerated && lost {
            return Ok(());
        }
        self.summary.cuts += 1;
        for operation in std::mem::take(&mut self.running) {
            if let (Action::Write { .. }, true) = (&operation.action, self.rng.chance(1, 2)) {
                self.disks[operation.member].perform(&operation.action, false);
            }
        }
        for disk in &mut self.disks {
            disk.cut_power(&mut self.rng);
        }
        self.busy.fill(0);
        let recorder = self.recorder.take();
        self.recorder = recorder.map(|recorder| recorder.after_cut(&mut self.rng));
        let marks = self.recorder.as_ref().map(|recorder| recorder.marks());
        let marks = marks.cloned().unwrap_or_default();
        let (size, stripes) = (self.settings.region_stripes, self.geometry.stripes());
        let marked: BTreeSet<u64> = marks
            .iter()
            .flat_map(|mark| mark.stripes(size, stripes))
            .collect();
        let alone = marks.iter().any(|mark| matches!(mark, Mark::Stripe(_)));
        self.summary.cuts_with_stripes += u64::from(alone);
        self.summary.found += self.shard.counters().corrupt;
        self.summary.trimmed += self.shard.counters().trimmed;
        // In marked stripes the contents are accepted as valid, so that corruption there is not found.
        let rows = u64::from(self.geometry.rows());
        for disk in &mut self.disks {
            disk.restore(|sector| marked.contains(&(sector / rows)));
        }
        let gone: Vec<MemberState> = (0..self.disks.len())
            .map(|member| self.shard.member(member).clone())
            .collect();
        let doubtful = self.recorder.as_ref().map(|recorder| recorder.doubts());
        let doubtful = doubtful.cloned().unwrap_or_default();
        self.flights.clear();
        self.withheld.clear();
        self.shard = Shard::new(self.geometry, self.settings);
        // Members that were not rebuilt yet count as lost. Lost members and doubtful stripes stay so.
        let lost = gone
            .iter()
            .enumerate()
            .filter(|(_, state)| **state != MemberState::Up);
        lost.for_each(|(member, _)| {
            self.disks[member].dead = true;
            self.shard.lose_member(member);
        });
        self.shard.doubt(doubtful);
        self.resuming.clear();
        self.resync()?;
        self.count_proved(&marked);
        self.learn()
    }

    /// Counts stripes with lost data that were being written and are not doubtful.
    fn count_proved(&mut self, marked: &BTreeSet<u64>) {
        if self.canary.is_some() || self.missing() > self.geometry.syndromes() {
            return;
        }
        let doubtful: BTreeSet<u64> = self.shard.doubtful_stripes().collect();
        let lost_data = |stripe: u64| {
            let mut columns = 0..self.geometry.data_columns();
            columns.any(|column| {
                let member = self.geometry.member(stripe, column);
                *self.shard.member(member) != MemberState::Up
            })
        };
        let proved = (0..self.geometry.stripes()).filter(|&stripe| {
            self.geometry.level() == Level::Raid6
                && marked.contains(&stripe)
                && lost_data(stripe)
                && !doubtful.contains(&stripe)
        });
        self.summary.proved += proved.count() as u64;
    }

    /// Resyncs the recorded regions.
    fn resync(&mut self) -> Result<(), String> {
        if self.canary == Some(Canary::NoResync) {
            return Ok(());
        }
        let stripes = 0..self.geometry.stripes();
        let recorder = self.recorder.as_mut();
        let unsynced = recorder.map(|recorder| recorder.take_unsynced(stripes));
        for stripe in unsynced.unwrap_or_default() {
            let token = self.token(InFlight::Resync { stripe });
            self.shard.resync(self.now, token, stripe);
        }
        let severity = std::mem::replace(&mut self.severity, Severity::Excessive);
        let done = self.drain();
        self.severity = severity;
        done
    }

    /// Reads all blocks after a power cut. Each block must contain a version that is durable or later, which
    /// becomes its only version.
    fn learn(&mut self) -> Result<(), String> {
        for block in 0..self.geometry.blocks() {
            let token = self.next_token + 1;
            self.next_token = token;
            self.shard.request(
                self.now,
                token,
                Request::Read {
                    start: block,
                    blocks: 1,
                },
            );
            let value = loop {
                let mut replies = self.take_output().into_iter();
                if let Some(reply) = replies.find(|reply| reply.token == token) {
                    break reply.result;
                }
                self.complete()?;
            };
            let history = &mut self.versions[block as usize];
            let candidates = &history[self.durable[block as usize]..];
            let kept = match value {
                Ok(value) => match candidates
                    .iter()
                    .find(|version| value.contains(&version.value))
                {
                    Some(version) => Version {
                        acknowledged: Some(self.step),
                        ..*version
                    },
                    None => {
                        return Err(format!(
                            "after a power cut block {block} reads {value:?}, not one of {candidates:?}"
                        ));
                    }
                },
                // The version is unknown. Any version may return with the member. Versions that were not durable
                // may be lost.
                Err(_) if self.severity == Severity::Excessive => {
                    let later = history.iter_mut().skip(self.durable[block as usize] + 1);
                    later.for_each(|version| version.acknowledged = None);
                    continue;
                }
                Err(failure) => return Err(format!("after a power cut: {failure}")),
            };
            *history = vec![kept];
            self.durable[block as usize] = 0;
        }
        Ok(())
    }
}
