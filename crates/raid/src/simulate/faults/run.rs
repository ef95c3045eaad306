//! One run: the array on simulated members, its requests, and the check of its answers.

use super::block::TinyBlock;
use super::disk::{Disk, DiskSums};
use super::{Canary, Severity, Summary};
use crate::block::Block;
use crate::geometry::{Geometry, Level};
use crate::mark::Mark;
use crate::merging::Merging;
use crate::request::{Action, Failure, Nanos, Operation, Reply, Request, Token};
use crate::shard::{MemberState, Shard, ShardSettings};
use crate::simulate::record::Recorder;
use seiner_platform::sim::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A write to a block, in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub(super) value: TinyBlock,
    pub(super) acknowledged: Option<u64>,
}

/// Request in flight.
pub enum InFlight {
    Read {
        start: u64,
        since: u64,
    },
    Write {
        start: u64,
        versions: Vec<usize>,
        durable: bool,
    },
    Flush {
        covered: Vec<usize>,
    },
    Internal,
    Resync {
        stripe: u64,
    },
}

/// A run in progress.
pub struct FaultRun {
    pub(super) rng: Rng,
    pub(super) geometry: Geometry,
    pub(super) settings: ShardSettings,
    pub(super) severity: Severity,
    pub(super) canary: Option<Canary>,
    pub(super) shard: Shard<TinyBlock>,
    pub(super) disks: Vec<Disk>,
    pub(super) running: Vec<Operation<TinyBlock>>,
    /// Number of operations per member in flight, those that wait for the intent record included.
    pub(super) busy: Vec<usize>,
    /// Intent record; `None` if the level has no syndromes.
    pub(super) recorder: Option<Recorder<TinyBlock>>,
    pub(super) flights: BTreeMap<Token, InFlight>,
    /// Answers that wait until doubtful stripes are recorded.
    pub(super) withheld: Vec<Reply<TinyBlock>>,
    /// Writes of every block.
    pub(super) versions: Vec<Vec<Version>>,
    /// For every block, the first version that a power cut can restore.
    pub(super) durable: Vec<usize>,
    pub(super) next_token: Token,
    pub(super) step: u64,
    pub(super) now: Nanos,
    /// Member that may have unreadable sectors in a run of severity [`Severity::Tolerated`].
    pub(super) weak: usize,
    /// Members with stripes that were retried.
    pub(super) resuming: BTreeSet<usize>,
    pub(super) summary: Summary,
}

impl FaultRun {
    pub(super) fn new(seed: u64, severity: Severity, canary: Option<Canary>) -> FaultRun {
        let mut rng = Rng::new(seed);
        let level = *rng.pick(&[
            Level::Raid0,
            Level::Raid1,
            Level::Raid5,
            Level::Raid5,
            Level::Raid6,
            Level::Raid6,
        ]);
        let members = match level {
            Level::Raid0 | Level::Raid1 => rng.between(2, 4),
            Level::Raid5 => rng.between(3, 6),
            Level::Raid6 => rng.between(4, 7),
        } as usize;
        let strip = 4096 << rng.below(3);
        let stripes = rng.between(2, 6);
        let geometry = Geometry::new(level, members, strip, strip * stripes)
            .expect("within the bounds of every level");
        let settings = ShardSettings {
            merging: *rng.pick(&Merging::ALL),
            longest_hold: rng.between(1, 2000) * 1000,
            member_depth: rng.between(1, 64) as usize,
            region_stripes: rng.between(1, 3),
            checksums: geometry.syndromes() > 0 && rng.chance(1, 2),
            checked_above: false,
        };
        let size = (stripes * u64::from(geometry.rows())) as usize;
        let disk = || Disk {
            cached: vec![TinyBlock::zero(); size],
            stable: vec![TinyBlock::zero(); size],
            unreadable: BTreeSet::new(),
            dead: false,
            sums: settings.checksums.then(|| DiskSums::new(size)),
            corrupt: BTreeMap::new(),
            canary,
        };
        let blocks = geometry.blocks() as usize;
        let blank = Version {
            value: TinyBlock::zero(),
            acknowledged: Some(0),
        };
        FaultRun {
            weak: rng.below(members as u64) as usize,
            rng,
            geometry,
            settings,
            severity,
            canary,
            shard: Shard::new(geometry, settings),
            disks: (0..members).map(|_| disk()).collect(),
            running: Vec::new(),
            busy: vec![0; members],
            recorder: (geometry.syndromes() > 0)
                .then(|| Recorder::new(settings.region_stripes, geometry.stripes())),
            flights: BTreeMap::new(),
            withheld: Vec::new(),
            versions: vec![vec![blank]; blocks],
            durable: vec![0; blocks],
            next_token: 1,
            step: 0,
            now: 0,
            resuming: BTreeSet::new(),
            summary: Summary::default(),
        }
    }

    pub(super) fn step(&mut self) -> Result<(), String> {
        self.step += 1;
        match self.rng.below(1000) {
            0..250 => self.write(),
            250..350 => self.read(),
            350..365 => self.flush(),
            365..369 => self.damage(),
            369..377 => self.corrupt(),
            377..381 => self.kill(),
            381..390 => self.replace(),
            390..394 => self.cut_power()?,
            394..400 => self.trim(),
            400..406 => self.resume(),
            406..426 => self.keep_up(),
            426..434 => self.rest()?,
            434..450 => self.pass_time()?,
            _ => self.complete()?,
        }
        self.collect()?;
        self.count_resumed();
        Ok(())
    }

    fn submit(&mut self, flight: InFlight, request: Request<TinyBlock>) {
        let token = self.token(flight);
        self.shard.request(self.now, token, request);
    }

    pub(super) fn token(&mut self, flight: InFlight) -> Token {
        self.next_token += 1;
        self.flights.insert(self.next_token, flight);
        self.next_token
    }

    /// Draws a run of blocks, short ones more often.
    fn place(&mut self) -> (u64, u64) {
        let size = self.geometry.blocks();
        let most = if self.rng.chance(1, 4) {
            size
        } else {
            3.min(size)
        };
        let blocks = self.rng.between(1, most);
        (self.rng.between(0, size - blocks), blocks)
    }

    fn write(&mut self) {
        let (start, blocks) = self.place();
        let durable = self.rng.chance(1, 10);
        let mut versions = Vec::new();
        let mut data = Vec::new();
        for at in 0..blocks {
            let value = TinyBlock(((self.next_token + 1) << 16 | (at + 1)).to_le_bytes());
            let history = &mut self.versions[(start + at) as usize];
            history.push(Version {
                value,
                acknowledged: None,
            });
            versions.push(history.len() - 1);
            data.push(value);
        }
        self.submit(
            InFlight::Write {
                start,
                versions,
                durable,
            },
            Request::Write {
                start,
                data,
                durable,
            },
        );
    }

    /// Trims blocks. Later reads return the old contents or zeroes.
    fn trim(&mut self) {
        let (start, blocks) = (0, self.geometry.blocks());
        let start = self.rng.between(start, blocks - 1);
        let blocks = self.rng.between(1, blocks - start);
        let size = u64::from(self.geometry.stripe_blocks());
        for block in start.next_multiple_of(size)..(start + blocks) / size * size {
            // Waiting writes may take effect later, so the answer to the trim hides none of them.
            self.versions[block as usize].push(Version {
                value: TinyBlock::zero(),
                acknowledged: None,
            });
        }
        self.submit(InFlight::Internal, Request::Trim { start, blocks });
    }

    fn read(&mut self) {
        let (start, blocks) = self.place();
        self.submit(
            InFlight::Read {
                start,
                since: self.step,
            },
            Request::Read { start, blocks },
        );
    }

    fn flush(&mut self) {
        let covered = self
            .versions
            .iter()
            .map(|history| latest_acknowledged(history, self.step))
            .collect();
        self.submit(InFlight::Flush { covered }, Request::Flush);
    }

    /// Returns the number of members that are lost or not yet rebuilt.
    pub(super) fn missing(&self) -> usize {
        (0..self.disks.len())
            .filter(|&member| {
                *self.shard.member(member) != MemberState::Up || self.disks[member].dead
            })
            .count()
    }

    fn pass_time(&mut self) -> Result<(), String> {
        self.now += self.rng.below(200_000);
        self.shard.tick(self.now);
        match self.shard.deadline() {
            Some(at) if at <= self.now => Err(format!(
                "something is held beyond {at}, and it is {}",
                self.now
            )),
            _ => Ok(()),
        }
    }

    /// Ends a random operation of a member.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        let record = self.is_record_pending();
        let choices = self.running.len() as u64 + u64::from(record);
        if choices == 0 {
            return self.pass_time();
        }
        let at = self.rng.below(choices) as usize;
        if at == self.running.len() {
            let recorder = self
                .recorder
                .as_mut()
                .expect("the recorder has a pending record");
            self.running.extend(recorder.advance());
            return Ok(());
        }
        let operation = self.running.swap_remove(at);
        self.busy[operation.member] -= 1;
        let forgets = self.canary == Some(Canary::ForgottenWrites) && self.rng.chance(1, 20);
        let outcome = self.disks[operation.member].perform(&operation.action, forgets);
        self.now += self.rng.below(20_000);
        self.shard.completed(self.now, operation.id, outcome);
        Ok(())
    }

    /// Returns whether a record write is due or in progress.
    fn is_record_pending(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_pending)
    }

    /// Starts operations, except for writes in regions that are not recorded yet.
    fn begin(&mut self, operations: Vec<Operation<TinyBlock>>) {
        for operation in operations {
            self.busy[operation.member] += 1;
            let started = match (&mut self.recorder, &operation.action) {
                (Some(recorder), Action::Write { start, .. } | Action::Discard { start, .. }) => {
                    let stripe = start / u64::from(self.geometry.rows());
                    match self.shard.mark(stripe) {
                        Some(mark) => {
                            let early = match self.canary {
                                Some(Canary::EarlyWrites) => true,
                                Some(Canary::EarlyStripes) => matches!(mark, Mark::Stripe(_)),
                                _ => false,
                            };
                            match recorder.admit(mark, operation) {
                                None if early => recorder.admit_early(mark),
                                admitted => admitted.into_iter().collect(),
                            }
                        }
                        // The write rebuilds a member and does not affect syndromes.
                        None => vec![operation],
                    }
                }
                _ => vec![operation],
            };
            self.running.extend(started);
        }
        let (recorder, shard) = (&mut self.recorder, &self.shard);
        if let Some(recorder) = recorder {
            let early = self.canary == Some(Canary::EarlyStripeClears);
            recorder.request(|| match early {
                true => BTreeSet::new(),
                false => shard.dirty_marks(),
            });
        }
    }

    /// Maintains the intent record.
    fn keep_up(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let before = recorder.marks().len();
        let flush = match self.canary {
            Some(Canary::EarlyClears) => {
                let none = BTreeSet::new();
                recorder.maintain(&none) | recorder.maintain(&none)
            }
            _ => recorder.maintain(&self.shard.dirty_marks()),
        };
        self.summary.cleared += before.saturating_sub(recorder.marks().len()) as u64;
        if flush {
            self.submit(InFlight::Internal, Request::Flush);
        }
    }

    /// Waits for all requests and maintains the record a few times, so that regions leave it.
    fn rest(&mut self) -> Result<(), String> {
        self.drain()?;
        for _ in 0..self.rng.between(1, 6) {
            self.keep_up();
            self.drain()?;
        }
        Ok(())
    }

    /// Starts the requested operations. Returns the answers that may be given.
    pub(super) fn take_output(&mut self) -> Vec<Reply<TinyBlock>> {
        let output = std::mem::take(self.shard.output());
        self.begin(output.operations);
        let shard = &self.shard;
        if let Some(recorder) = &mut self.recorder {
            let doubts = || shard.doubtful_stripes().collect();
            recorder.note_doubts(shard.doubt_changes(), doubts);
        }
        self.withheld.extend(output.replies);
        match self.recorder.as_ref().is_none_or(Recorder::has_doubts) {
            true => std::mem::take(&mut self.withheld),
            false => Vec::new(),
        }
    }

    /// Starts the requested operations and checks the answers.
    fn collect(&mut self) -> Result<(), String> {
        self.take_output()
            .into_iter()
            .try_for_each(|reply| self.check(reply))
    }

    fn check(&mut self, reply: Reply<TinyBlock>) -> Result<(), String> {
        let flight = self.flights.remove(&reply.token).ok_or("answered twice")?;
        self.summary.answered += 1;
        if let (InFlight::Resync { stripe }, Some(recorder)) = (&flight, &mut self.recorder) {
            // A doubtful stripe counts as resynced: it cannot be improved.
            let done = matches!(reply.result, Ok(_) | Err(Failure::Doubtful { .. }));
            recorder.resynced(*stripe, done);
        }
        let data = match reply.result {
            Ok(data) => data,
            Err(failure) => {
                self.summary.failed += 1;
                return match self.severity {
                    Severity::Tolerated => Err(format!(
                        "failed although the level tolerates the loss: {failure}"
                    )),
                    Severity::Excessive => Ok(()),
                };
            }
        };
        match flight {
            InFlight::Internal | InFlight::Resync { .. } => {}
            InFlight::Flush { covered } => {
                for (durable, covered) in self.durable.iter_mut().zip(covered) {
                    *durable = covered.max(*durable);
                }
            }
            InFlight::Write {
                start,
                versions,
                durable,
            } => {
                for (at, version) in versions.into_iter().enumerate() {
                    let block = start as usize + at;
                    self.versions[block][version].acknowledged = Some(self.step);
                    if durable {
                        self.durable[block] = self.durable[block].max(version);
                    }
                }
            }
            InFlight::Read { start, since } => {
                for (at, value) in data.into_iter().enumerate() {
                    let history = &self.versions[start as usize + at];
                    let oldest = latest_acknowledged(history, since);
                    if !history[oldest..]
                        .iter()
                        .any(|version| version.value == value)
                    {
                        return Err(format!(
                            "block {} reads {value:?}, and holds one of {:?}",
                            start + at as u64,
                            &history[oldest..]
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs until no request is in flight.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.collect()?;
        while !self.running.is_empty()
            || self.shard.deadline().is_some()
            || self.is_record_pending()
        {
            self.complete()?;
            self.collect()?;
        }
        match self.flights.len() {
            0 => Ok(()),
            left => Err(format!("{left} requests are never answered")),
        }
    }

    /// Waits for all requests, then reads and checks all blocks.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.drain()?;
        self.summary.found += self.shard.counters().corrupt;
        self.summary.trimmed += self.shard.counters().trimmed;
        self.step += 1;
        for start in 0..self.geometry.blocks() {
            self.submit(
                InFlight::Read {
                    start,
                    since: self.step,
                },
                Request::Read { start, blocks: 1 },
            );
        }
        self.drain()
    }
}

/// Returns the index of the last version that was acknowledged before a step.
fn latest_acknowledged(history: &[Version], before: u64) -> usize {
    let known = |version: &Version| version.acknowledged.is_some_and(|step| step < before);
    history.iter().rposition(known).unwrap_or(0)
}
