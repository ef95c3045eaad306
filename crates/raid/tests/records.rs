//! Power cuts at any write, of data or of a record, while an array is created, assembled, written, loses and
//! replaces members, and is stopped. Afterwards the array is assembled, or rejected with a reason and a remedy, and
//! no wrong data are read.
//!
//! The arrays are real, with their threads. A seed determines the power cuts, but not the interleaving of threads.
//! `SEINER_SIM_RUNS` divided by 10 is the number of seeds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Power, page};
use seiner_platform::sim::Rng;
use seiner_raid::{
    Array, ArraySettings, AssembleError, Block, Condition, Creation, Level, Member, OrderError,
    Page, Ram, SuperblockError, create,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BYTES: u64 = 1_400_000;
/// Number of disks in addition to the initial members.
const MORE: usize = 3;

/// A disk with a cache. At a power cut, pages that were not flushed are lost at random.
struct Disk {
    number: usize,
    stable: Ram,
    cache: Mutex<BTreeMap<u64, Page>>,
    power: Arc<Power>,
    /// True if the disk acknowledges records and discards them. The test must detect this fault.
    forgets: AtomicBool,
}

impl Disk {
    fn is_record(&self, offset: u64) -> bool {
        offset < 12288 || offset + 4096 >= self.bytes()
    }

    /// Restores the power.
    fn restore_power(&self, rng: &mut Rng) {
        for (offset, page) in std::mem::take(&mut *self.cache.lock().unwrap()) {
            if rng.chance(1, 2) {
                self.stable.write(offset, &[page], true).unwrap();
            }
        }
    }
}

impl Member for Disk {
    fn name(&self) -> String {
        format!("disk{}", self.number)
    }

    fn bytes(&self) -> u64 {
        self.stable.bytes()
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        self.power.spend(0)?;
        // The lock is held throughout, because a flush in between could hide pages from this read.
        let cache = self.cache.lock().unwrap();
        self.stable.read(offset, pages)?;
        for (at, page) in (offset..).step_by(4096).zip(pages) {
            if let Some(cached) = cache.get(&at) {
                *page = cached.clone();
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()> {
        self.power.spend(1)?;
        if self.is_record(offset) && self.forgets.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut cache = self.cache.lock().unwrap();
        for (at, page) in (offset..).step_by(4096).zip(pages) {
            cache.remove(&at);
            match durable {
                true => self.stable.write(at, std::slice::from_ref(page), true)?,
                false => drop(cache.insert(at, page.clone())),
            }
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.power.spend(1)?;
        for (offset, page) in std::mem::take(&mut *self.cache.lock().unwrap()) {
            self.stable.write(offset, &[page], true)?;
        }
        Ok(())
    }

    fn is_instant(&self) -> bool {
        true
    }
}

struct World {
    rng: Rng,
    power: Arc<Power>,
    disks: Vec<Arc<Disk>>,
    creation: Creation,
    /// Disks that a user would name for the assembly.
    named: Vec<usize>,
    /// Possible contents of each block after a power cut. The last one is the contents while there is power.
    possible: Vec<Vec<u64>>,
    /// Blocks whose last write failed: it may or may not have taken effect.
    unsure: BTreeSet<usize>,
    next: u64,
    summary: Summary,
}

#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    cuts: u64,
    cut_creations: u64,
    cut_assemblies: u64,
    left_out: u64,
    degraded: u64,
    doubtful: u64,
    replaced: u64,
    stopped: u64,
}

fn settings(rng: &mut Rng) -> ArraySettings {
    ArraySettings {
        shards: rng.between(1, 2) as usize,
        patience: Duration::from_secs(20),
        ..ArraySettings::default()
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let (level, count) = *rng.pick(&[
            (Level::Raid1, 2),
            (Level::Raid1, 3),
            (Level::Raid5, 4),
            (Level::Raid6, 5),
            (Level::Raid6, 5),
        ]);
        let power = Power::for_writes(u64::MAX);
        let disk = |number| {
            Arc::new(Disk {
                number,
                stable: Ram::new(BYTES),
                cache: Mutex::default(),
                power: power.clone(),
                forgets: AtomicBool::new(false),
            })
        };
        World {
            creation: Creation {
                level,
                strip_bytes: 4096 << rng.below(2),
                smallest: false,
                overwrite: true,
                zeroed: true,
                checksums: rng.chance(1, 2),
            },
            disks: (0..count + MORE).map(disk).collect(),
            named: (0..count).collect(),
            power: power.clone(),
            rng,
            possible: Vec::new(),
            unsure: BTreeSet::new(),
            next: 0,
            summary: Summary::default(),
        }
    }

    fn power(&self, steps: u64) {
        self.power.set(steps);
    }

    fn is_on(&self) -> bool {
        self.power.left() > 0
    }

    /// Restores the power after a cut.
    fn restart(&mut self) {
        for disk in &self.disks {
            disk.restore_power(&mut self.rng);
        }
        self.power(u64::MAX);
    }

    fn members(&self) -> Vec<Arc<dyn Member>> {
        let named = self.named.iter();
        named
            .map(|&at| self.disks[at].clone() as Arc<dyn Member>)
            .collect()
    }

    /// Creates an array, possibly in several attempts.
    fn create(&mut self) {
        if self.rng.chance(1, 3) {
            self.power(self.rng.clone().between(1, 4 * self.named.len() as u64));
            if create(&self.members(), &self.creation).is_err() {
                self.summary.cut_creations += 1;
                self.restart();
                // A partly created array is not assembled, or contains nothing.
                let settings = settings(&mut self.rng);
                if let Ok(array) = Array::assemble(self.members(), false, settings) {
                    let blocks = array.bytes() / 4096;
                    let read = array.read(0, blocks).unwrap();
                    assert!(read.iter().all(|page| page.same(&Page::zero())));
                    array.stop().unwrap();
                }
            }
            self.power(u64::MAX);
        }
        let superblock = create(&self.members(), &self.creation).unwrap();
        let blocks = superblock.geometry().unwrap().blocks();
        self.possible = vec![vec![0]; blocks as usize];
    }

    /// Assembles the array, and applies the remedies of errors.
    fn assemble(&mut self) -> Result<Array, String> {
        if self.rng.chance(1, 4) {
            self.power(self.rng.clone().between(1, 40));
        }
        let mut degraded = false;
        for _ in 0..20 {
            let settings = settings(&mut self.rng);
            let error = match Array::assemble(self.members(), degraded, settings) {
                Ok(array) => return Ok(array),
                Err(error) => error,
            };
            if !self.is_on() {
                self.summary.cut_assemblies += 1;
                self.restart();
                continue;
            }
            match &error {
                AssembleError::Stale { name, .. }
                | AssembleError::Twice { other: name, .. }
                | AssembleError::Superblock {
                    name,
                    error: SuperblockError::Missing | SuperblockError::Damaged { .. },
                } => {
                    let out = self
                        .named
                        .iter()
                        .position(|at| format!("disk{at}") == *name);
                    self.named.remove(out.unwrap());
                    self.summary.left_out += 1;
                }
                AssembleError::Missing { .. } => degraded = true,
                _ => return Err(format!("not assembled: {error}")),
            }
        }
        Err("not assembled in twenty attempts".to_string())
    }

    /// Reads everything. Each block must have one of its possible contents and keep it.
    fn check(&mut self, array: &Array) -> Result<(), String> {
        let whole = array
            .status()
            .is_some_and(|status| status.condition == Condition::Whole);
        for block in 0..self.possible.len() {
            let read = array.read(block as u64, 1);
            if !self.is_on() {
                return Ok(());
            }
            match read {
                Ok(pages) => {
                    let tag = u64::from_le_bytes(pages[0].bytes()[..8].try_into().unwrap());
                    let right = match tag {
                        0 => Page::zero(),
                        tag => page(7, tag),
                    };
                    if !self.possible[block].contains(&tag) || !pages[0].same(&right) {
                        return Err(format!(
                            "block {block} holds {tag}, not one of {:?}",
                            self.possible[block]
                        ));
                    }
                    self.possible[block] = vec![tag];
                    self.unsure.remove(&block);
                }
                Err(failure) if whole => return Err(format!("block {block}: {failure}")),
                Err(_) => self.summary.doubtful += 1,
            }
        }
        Ok(())
    }

    fn wait_for_tasks(&self, array: &Array) {
        common::eventually("tasks are over", || {
            let status = array.status();
            status.is_none_or(|status| !self.is_on() || status.tasks.iter().all(|task| task.over))
        });
    }

    /// Executes a random operation. The power may fail during the operation.
    fn act(&mut self, array: &Array) {
        let members = array.geometry().members();
        match self.rng.below(100) {
            0..70 => self.write(array),
            70..80 => {
                if array.flush().is_ok() {
                    self.keep();
                }
            }
            80..84 => {
                let member = self.rng.below(members as u64) as usize;
                if array.fail(member).is_ok() {
                    self.summary.degraded += 1;
                }
            }
            84..92 => {
                let unused = (0..self.disks.len()).find(|at| !self.named.contains(at));
                let Some(disk) = unused else { return };
                let lost = (0..members).find(|&member| {
                    array.status().is_some_and(|status| {
                        status.members[member].completeness == seiner_raid::Completeness::Gone
                    })
                });
                let device = self.disks[disk].clone();
                let done = match lost {
                    Some(member) => array.replace(member, device),
                    None if self.rng.chance(1, 3) => array.add_spare(device),
                    None => return,
                };
                if !matches!(done, Err(OrderError::There(_) | OrderError::NoMember(..))) {
                    self.named.push(disk);
                    self.summary.replaced += 1;
                }
            }
            _ => self.wait_for_tasks(array),
        }
    }

    fn write(&mut self, array: &Array) {
        let size = self.possible.len() as u64;
        let blocks = self.rng.between(1, 6);
        let start = self.rng.below(size - blocks);
        let durable = self.rng.chance(1, 5);
        self.next += 1;
        let tag = self.next;
        let done = array.write(start, vec![page(7, tag); blocks as usize], durable);
        for block in start as usize..(start + blocks) as usize {
            self.possible[block].push(tag);
            match done.is_ok() {
                true => self.unsure.remove(&block),
                false => self.unsure.insert(block),
            };
            if durable && done.is_ok() {
                self.possible[block] = vec![tag];
            }
        }
    }

    /// Makes the acknowledged writes the only possible contents.
    fn keep(&mut self) {
        for (block, possible) in self.possible.iter_mut().enumerate() {
            if !self.unsure.contains(&block) {
                let last = possible.pop().unwrap();
                *possible = vec![last];
            }
        }
    }

    fn round(&mut self) -> Result<(), String> {
        let array = self.assemble()?;
        if self.rng.chance(1, 2) {
            self.wait_for_tasks(&array);
        }
        self.check(&array)?;
        if self.is_on() {
            let steps = self.rng.between(1, 400);
            self.power(steps);
        }
        for _ in 0..self.rng.between(10, 60) {
            if !self.is_on() {
                break;
            }
            self.act(&array);
        }
        if self.is_on() && array.stop().is_ok() {
            self.summary.stopped += 1;
            self.keep();
        }
        self.summary.cuts += u64::from(!self.is_on());
        self.power(0);
        drop(array);
        self.restart();
        Ok(())
    }
}

/// Runs a seed. Returns a description of the fault, if there is one.
fn run(seed: u64, forgets: bool) -> Result<Summary, String> {
    let mut world = World::new(seed);
    world.create();
    for disk in &world.disks {
        disk.forgets.store(forgets, Ordering::SeqCst);
    }
    let done = (0..5).try_for_each(|_| world.round()).and_then(|()| {
        let array = world.assemble()?;
        world.power(u64::MAX);
        world.wait_for_tasks(&array);
        world.check(&array)?;
        if array.status().unwrap().condition != Condition::Whole {
            return Ok(());
        }
        let before = array.status().unwrap().counters.repaired;
        array.scrub().map_err(|rejection| rejection.to_string())?;
        world.wait_for_tasks(&array);
        let status = array.status().unwrap();
        let failed: u64 = status.tasks.iter().map(|task| task.failed).sum();
        match (failed, status.counters.repaired - before) {
            (0, 0) => Ok(()),
            (failed, repaired) => Err(format!(
                "{failed} stripes do not fit, {repaired} blocks repaired"
            )),
        }
    });
    done.map(|()| world.summary).map_err(|wrong| {
        let creation = &world.creation;
        format!(
            "seed {seed}, {:?} of {}: {wrong}",
            creation.level,
            world.disks.len() - MORE
        )
    })
}

#[test]
fn after_a_power_cut_an_array_is_assembled_or_rejected_and_reads_are_correct() {
    let seeds =
        std::env::var("SEINER_SIM_RUNS").map_or(150, |runs| runs.parse::<u64>().unwrap() / 10);
    let mut sum = Summary::default();
    for seed in 0..seeds {
        let one = run(seed, false).unwrap_or_else(|wrong| panic!("{wrong}"));
        sum.cuts += one.cuts;
        sum.cut_creations += one.cut_creations;
        sum.cut_assemblies += one.cut_assemblies;
        sum.left_out += one.left_out;
        sum.degraded += one.degraded;
        sum.doubtful += one.doubtful;
        sum.replaced += one.replaced;
        sum.stopped += one.stopped;
    }
    println!("{sum:?}");
    assert!(
        sum.cuts > 2 * seeds && sum.cut_creations > seeds / 10,
        "{sum:?}"
    );
    assert!(
        sum.cut_assemblies > seeds / 10 && sum.left_out > seeds / 10,
        "{sum:?}"
    );
    assert!(
        sum.degraded > seeds / 5 && sum.replaced > seeds / 10 && sum.stopped > seeds / 10,
        "{sum:?}"
    );
}

#[test]
fn lost_records_are_detected() {
    let found = (0..60).filter(|&seed| run(seed, true).is_err()).count();
    println!("found by {found} of 60 seeds");
    assert!(found > 3, "found by {found} of 60 seeds");
}
