//! The array under faults, from a seed: members die, lose and tear what was not flushed, have sectors that cannot be read
//! or, where they have checksums, that are wrong and do not say so; power is cut at any step; and every read is checked
//! against what was written.
//!
//! Blocks have eight bytes here, which makes a run a fraction of a millisecond; everything else is the array's own code.

use super::record::Recorder;
use crate::block::Block;
use crate::galois;
use crate::geometry::{Geometry, Level};
use crate::mark::Mark;
use crate::merging::Merging;
use crate::request::{Action, Failure, Nanos, Operation, Outcome, Reply, Request, Token};
use crate::shard::{MemberState, Shard, ShardSettings};
use seiner_platform::sim::SimRng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A block of eight bytes: the write that made it, and which of its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TinyBlock([u8; 8]);

impl Block for TinyBlock {
    fn zero() -> TinyBlock {
        TinyBlock::default()
    }

    fn add(&mut self, other: &TinyBlock) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, other)| *sum ^= other);
    }

    fn add_scaled(&mut self, factor: u8, other: &TinyBlock) {
        for (sum, other) in self.0.iter_mut().zip(other.0) {
            let product = (0..8).rev().fold(0, |sum, bit| {
                galois::double(sum) ^ if factor >> bit & 1 == 1 { other } else { 0 }
            });
            *sum ^= product;
        }
    }

    fn syndromes(data: &[&TinyBlock]) -> (TinyBlock, TinyBlock) {
        let (mut p, mut q) = (TinyBlock::zero(), TinyBlock::zero());
        for (column, block) in data.iter().enumerate() {
            p.add(block);
            q.add_scaled(galois::coefficient(column), block);
        }
        (p, q)
    }

    fn same(&self, other: &TinyBlock) -> bool {
        self == other
    }
}

/// Severity of the faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// At no time more members are lost than the level tolerates. No request may fail.
    Borne,
    /// More members may be lost. Requests may fail, but no wrong data may be read.
    Beyond,
}

/// Something wrong on purpose, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Members acknowledge a write now and then, and forget it.
    ForgottenWrites,
    /// After a power cut, syndromes are not made to fit.
    NoResync,
    /// Members have checksums and do not look at them.
    UncheckedReads,
    /// After a power cut, checksums of what was being written count like all others.
    NoAdoption,
    /// Writes begin before the intent record has their region.
    EarlyWrites,
    /// A region leaves the intent record before its writes are durable.
    EarlyClears,
    /// While a member is missing, writes begin before the intent record has their stripe.
    EarlyStripes,
    /// While a member is missing, stripes leave the intent record before their writes are durable.
    EarlyStripeClears,
}

impl Canary {
    /// Every deliberate fault with its name, the severity of runs that show it, and the number of seeds among which
    /// several do. An error of the record shows only if power is cut, and a member is then lost or missing, before the
    /// stripe is written again.
    pub const ALL: [(Canary, &str, Severity, u64); 8] = [
        (
            Canary::ForgottenWrites,
            "forgotten writes",
            Severity::Borne,
            500,
        ),
        (Canary::NoResync, "no resync", Severity::Borne, 500),
        (
            Canary::UncheckedReads,
            "unchecked reads",
            Severity::Borne,
            500,
        ),
        (
            Canary::NoAdoption,
            "no adoption of checksums",
            Severity::Borne,
            500,
        ),
        (
            Canary::EarlyWrites,
            "writes before their region is on record",
            Severity::Borne,
            2000,
        ),
        (
            Canary::EarlyClears,
            "regions off the record too early",
            Severity::Borne,
            2000,
        ),
        (
            Canary::EarlyStripes,
            "writes before their stripe is on record",
            Severity::Beyond,
            2000,
        ),
        (
            Canary::EarlyStripeClears,
            "stripes off the record too early",
            Severity::Beyond,
            6000,
        ),
    ];
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of answered requests.
    pub answered: u64,
    /// Of these, with an error.
    pub failed: u64,
    /// Members that died.
    pub deaths: u64,
    /// Members rebuilt.
    pub rebuilt: u64,
    /// Sectors that became unreadable.
    pub sectors: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Sectors that became wrong without saying so.
    pub corrupted: u64,
    /// Of these, those that the array found.
    pub found: u64,
    /// Blocks that were trimmed.
    pub trimmed: u64,
    /// Stripes that lost data of which the syndrome that was left over said, after a power cut, that nothing is in doubt.
    pub vouched: u64,
    /// Members that were filled in the end although some stripes could not be at first.
    pub resumed: u64,
    /// Marks that left the intent record while the array ran.
    pub cleared: u64,
    /// Power cuts with single stripes on record.
    pub cuts_with_stripes: u64,
}

/// A member with a cache that forgets.
struct Disk {
    cached: Vec<TinyBlock>,
    stable: Vec<TinyBlock>,
    unreadable: BTreeSet<u64>,
    dead: bool,
    /// Checksums of what should be there.
    sums: Option<Sums>,
    /// Sectors that are wrong, and what they should be.
    corrupt: BTreeMap<u64, TinyBlock>,
    canary: Option<Canary>,
}

/// Checksums of a member: like data they may be lost until it is flushed, and by themselves.
#[derive(Clone)]
struct Sums {
    cached: Vec<u32>,
    stable: Vec<u32>,
}

impl Sums {
    fn new(size: usize) -> Sums {
        Sums {
            cached: vec![sum(TinyBlock::zero()); size],
            stable: vec![sum(TinyBlock::zero()); size],
        }
    }
}

/// A checksum of a block.
fn sum(word: TinyBlock) -> u32 {
    (u64::from_le_bytes(word.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A write to a block, in the order of arrival.
#[derive(Clone, Copy, Debug)]
struct Version {
    value: TinyBlock,
    acknowledged: Option<u64>,
}

/// A request on its way.
enum InFlight {
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

struct World {
    rng: SimRng,
    geometry: Geometry,
    settings: ShardSettings,
    severity: Severity,
    canary: Option<Canary>,
    shard: Shard<TinyBlock>,
    disks: Vec<Disk>,
    running: Vec<Operation<TinyBlock>>,
    /// Operations of each member that have not ended, those that wait for the intent record included.
    busy: Vec<usize>,
    /// Intent record; none if the level has no syndromes.
    recorder: Option<Recorder<TinyBlock>>,
    flights: BTreeMap<Token, InFlight>,
    /// Answers that wait until doubtful stripes are on record.
    withheld: Vec<Reply<TinyBlock>>,
    /// Writes of every block.
    versions: Vec<Vec<Version>>,
    /// Of every block, the first version that a power cut can bring back.
    durable: Vec<usize>,
    next_token: Token,
    step: u64,
    now: Nanos,
    /// The member that may have unreadable sectors in a run that is borne.
    weak: usize,
    /// Members of which stripes were tried again.
    resuming: BTreeSet<usize>,
    summary: Summary,
}

/// Runs a seed.
///
/// # Errors
/// Says what was wrong, and in which step.
pub fn run(seed: u64, severity: Severity, canary: Option<Canary>) -> Result<Summary, String> {
    let mut world = World::new(seed, severity, canary);
    let steps = world.rng.between(30, 300);
    let done = (0..steps)
        .try_for_each(|_| world.step())
        .and_then(|()| world.finish());
    match done {
        Ok(()) => Ok(world.summary),
        Err(wrong) => Err(format!(
            "seed {seed}, {severity:?}, step {}, {:?} of {} with {}: {wrong}",
            world.step,
            world.geometry.level(),
            world.geometry.members(),
            world.settings.merging.name()
        )),
    }
}

/// Runs many seeds on all cores. Calls `ended` from time to time with the number of seeds that have ended.
///
/// # Errors
/// The description of the fault that the lowest failing seed found.
pub fn run_all(
    seeds: Range<u64>,
    severity: Severity,
    ended: &(dyn Fn(u64) + Sync),
) -> Result<Summary, String> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Summary::default(), None::<(u64, String)>));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(SHARE, Ordering::Relaxed);
                    if first >= seeds.end {
                        return;
                    }
                    let share = first..seeds.end.min(first + SHARE);
                    let done: Vec<_> = share
                        .clone()
                        .map(|seed| (seed, run(seed, severity, None)))
                        .collect();
                    let mut found = found.lock().expect("no thread panics with the lock");
                    for (seed, one) in done {
                        match one {
                            Ok(summary) => found.0.add(&summary),
                            Err(wrong) if found.1.as_ref().is_none_or(|(at, _)| seed < *at) => {
                                found.1 = Some((seed, wrong));
                            }
                            Err(_) => {}
                        }
                    }
                    drop(found);
                    ended(share.end - share.start);
                }
            });
        }
    });
    match found.into_inner().expect("no thread panics with the lock") {
        (sum, None) => Ok(sum),
        (_, Some((_, wrong))) => Err(wrong),
    }
}

/// Seeds that a thread runs before it says so.
const SHARE: u64 = 64;

impl Summary {
    fn add(&mut self, other: &Summary) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.deaths += other.deaths;
        self.rebuilt += other.rebuilt;
        self.sectors += other.sectors;
        self.cuts += other.cuts;
        self.corrupted += other.corrupted;
        self.found += other.found;
        self.trimmed += other.trimmed;
        self.vouched += other.vouched;
        self.resumed += other.resumed;
        self.cleared += other.cleared;
        self.cuts_with_stripes += other.cuts_with_stripes;
    }
}

impl World {
    fn new(seed: u64, severity: Severity, canary: Option<Canary>) -> World {
        let mut rng = SimRng::new(seed);
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
            sums: settings.checksums.then(|| Sums::new(size)),
            corrupt: BTreeMap::new(),
            canary,
        };
        let blocks = geometry.blocks() as usize;
        let blank = Version {
            value: TinyBlock::zero(),
            acknowledged: Some(0),
        };
        World {
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

    fn step(&mut self) -> Result<(), String> {
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

    fn token(&mut self, flight: InFlight) -> Token {
        self.next_token += 1;
        self.flights.insert(self.next_token, flight);
        self.next_token
    }

    /// A run of blocks, short ones more often.
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
            // Writes that wait may come after it, so that it hides none of them when it is answered.
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

    /// Members that are gone or not yet rebuilt.
    fn missing(&self) -> usize {
        (0..self.disks.len())
            .filter(|&member| {
                *self.shard.member(member) != MemberState::Up || self.disks[member].dead
            })
            .count()
    }

    /// A sector of a member can no longer be read.
    fn damage(&mut self) {
        let spare = self.missing() < self.geometry.syndromes();
        let member = match self.severity {
            Severity::Borne if spare => self.weak,
            Severity::Borne => return,
            Severity::Beyond => self.rng.below(self.disks.len() as u64) as usize,
        };
        let sector = self.rng.below(self.disks[member].cached.len() as u64);
        self.disks[member].unreadable.insert(sector);
        self.summary.sectors += 1;
    }

    /// A sector of a member is no longer what was written.
    fn corrupt(&mut self) {
        let spare = self.missing() < self.geometry.syndromes();
        let member = match self.severity {
            _ if !self.settings.checksums => return,
            Severity::Borne if spare => self.weak,
            Severity::Borne => return,
            Severity::Beyond => self.rng.below(self.disks.len() as u64) as usize,
        };
        let sector = self.rng.below(self.disks[member].cached.len() as u64);
        let disk = &mut self.disks[member];
        let at = sector as usize;
        // What the cache has alone cannot rot.
        if disk.cached[at] != disk.stable[at] || disk.corrupt.contains_key(&sector) {
            return;
        }
        disk.corrupt.insert(sector, disk.cached[at]);
        let noise = TinyBlock((self.rng.next_u64() | 1 << 60).to_le_bytes());
        (disk.cached[at], disk.stable[at]) = (noise, noise);
        self.summary.corrupted += 1;
    }

    /// A member dies; its operations fail.
    fn kill(&mut self) {
        let member = self.rng.below(self.disks.len() as u64) as usize;
        let weak = usize::from(member != self.weak && self.disks[self.weak].is_damaged());
        let bears = self.missing() + weak < self.geometry.syndromes();
        if self.disks[member].dead || (self.severity == Severity::Borne && !bears) {
            return;
        }
        self.disks[member].dead = true;
        self.summary.deaths += 1;
        if self.rng.chance(1, 2) {
            self.shard.lose_member(member);
        }
    }

    /// An empty disk takes the place of a dead one, and is rebuilt.
    fn replace(&mut self) {
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

    /// Stripes that could not be filled before are tried again, as the keeper does when they are no longer in doubt.
    fn resume(&mut self) {
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

    /// Counts members that have been filled since stripes of theirs were tried again.
    fn count_resumed(&mut self) {
        let shard = &self.shard;
        let full = |member: &usize| *shard.member(*member) == MemberState::Up;
        let resumed = self.resuming.iter().filter(|member| full(member)).count();
        self.summary.resumed += resumed as u64;
        self.resuming
            .retain(|member| matches!(shard.member(*member), MemberState::Rebuilding { .. }));
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

    /// Some operation of a member ends.
    fn complete(&mut self) -> Result<(), String> {
        let record = self.is_record_pending();
        let choices = self.running.len() as u64 + u64::from(record);
        if choices == 0 {
            return self.pass_time();
        }
        let at = self.rng.below(choices) as usize;
        if at == self.running.len() {
            let recorder = self.recorder.as_mut().expect("its record is pending");
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

    /// Tells whether a record write is due or has not ended.
    fn is_record_pending(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_pending)
    }

    /// Begins operations, except for writes in regions that are not on record yet.
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
                        // It fills a member, which leaves syndromes as they are.
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

    /// Does the upkeep of the intent record.
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

    /// Lets everything end and does the upkeep a few times, so that regions leave the record.
    fn rest(&mut self) -> Result<(), String> {
        self.drain()?;
        for _ in 0..self.rng.between(1, 6) {
            self.keep_up();
            self.drain()?;
        }
        Ok(())
    }

    /// Starts what the array wants; returns its answers.
    fn take_output(&mut self) -> Vec<Reply<TinyBlock>> {
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

    /// Takes what the array wants, and checks its answers.
    fn collect(&mut self) -> Result<(), String> {
        self.take_output()
            .into_iter()
            .try_for_each(|reply| self.check(reply))
    }

    fn check(&mut self, reply: Reply<TinyBlock>) -> Result<(), String> {
        let flight = self.flights.remove(&reply.token).ok_or("answered twice")?;
        self.summary.answered += 1;
        if let (InFlight::Resync { stripe }, Some(recorder)) = (&flight, &mut self.recorder) {
            // A doubtful stripe is as much in order as it can be.
            let done = matches!(reply.result, Ok(_) | Err(Failure::Doubtful { .. }));
            recorder.resynced(*stripe, done);
        }
        let data = match reply.result {
            Ok(data) => data,
            Err(failure) => {
                self.summary.failed += 1;
                return match self.severity {
                    Severity::Borne => {
                        Err(format!("refused although the level bears it: {failure}"))
                    }
                    Severity::Beyond => Ok(()),
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

    /// Power is cut: what was not flushed may be lost, block by block; what was being written may be there. Then all is
    /// started again.
    fn cut_power(&mut self) -> Result<(), String> {
        // A sector that is lost together with the power is one fault more than a stripe being written bears.
        let lost = self.missing() > 0 || self.disks.iter().any(Disk::is_damaged);
        if self.severity == Severity::Borne && lost {
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
        // Where something was being written, what is there is taken for true: what rots just there is not found.
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
        // What was not yet rebuilt counts as gone; who was gone or in doubt before is so still.
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
        self.count_vouched(&marked);
        self.learn()
    }

    /// Counts stripes that lost data, were being written, and are not in doubt.
    fn count_vouched(&mut self, marked: &BTreeSet<u64>) {
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
        let vouched = (0..self.geometry.stripes()).filter(|&stripe| {
            self.geometry.level() == Level::Raid6
                && marked.contains(&stripe)
                && lost_data(stripe)
                && !doubtful.contains(&stripe)
        });
        self.summary.vouched += vouched.count() as u64;
    }

    /// Makes the syndromes of regions fit that are on record.
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
        let severity = std::mem::replace(&mut self.severity, Severity::Beyond);
        let done = self.drain();
        self.severity = severity;
        done
    }

    /// Reads everything after a power cut: each block holds a version that is durable or came later, and keeps it.
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
                // Not known: any of them may come back when the member does, and those that were not durable may be lost.
                Err(_) if self.severity == Severity::Beyond => {
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

    /// Lets everything end.
    fn drain(&mut self) -> Result<(), String> {
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

    /// Ends everything and reads it all.
    fn finish(&mut self) -> Result<(), String> {
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

/// The last version that was acknowledged before a step.
fn latest_acknowledged(history: &[Version], before: u64) -> usize {
    let known = |version: &Version| version.acknowledged.is_some_and(|step| step < before);
    history.iter().rposition(known).unwrap_or(0)
}

impl Disk {
    fn perform(&mut self, action: &Action<TinyBlock>, forgets: bool) -> Outcome<TinyBlock> {
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
                self.forget_what_is_right();
                Outcome::Done
            }
        }
    }

    fn cut_power(&mut self, rng: &mut SimRng) {
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
        self.forget_what_is_right();
    }

    fn give(&self, range: Range<u64>) -> Outcome<TinyBlock> {
        if self.unreadable.range(range.clone()).next().is_some() {
            return Outcome::Unreadable;
        }
        Outcome::Read(self.cached[range.start as usize..range.end as usize].to_vec())
    }

    /// Returns whether what is there has its checksums.
    fn verify(&self, range: Range<u64>) -> bool {
        let Some(sums) = &self.sums else {
            return true;
        };
        let fits = |at: u64| sum(self.cached[at as usize]) == sums.cached[at as usize];
        self.canary == Some(Canary::UncheckedReads) || range.into_iter().all(fits)
    }

    fn is_damaged(&self) -> bool {
        !self.unreadable.is_empty() || !self.corrupt.is_empty()
    }

    /// Sectors that were written since they became wrong are wrong no longer.
    fn forget_what_is_right(&mut self) {
        if let Some(sums) = &self.sums {
            let (stable, of) = (&self.stable, &sums.stable);
            self.corrupt
                .retain(|&at, _| sum(stable[at as usize]) != of[at as usize]);
        }
    }

    /// Some sectors become what they should be, as far as they are still wrong.
    fn restore(&mut self, which: impl Fn(u64) -> bool) {
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
