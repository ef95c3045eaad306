//! Files on a volume that loses unflushed writes: random operations from a seed, with a power cut or a kill at any of
//! them. The files found afterwards are compared with a model.
#![allow(clippy::unwrap_used)]

use seiner_platform::sim::{SimDisk, SimRng};
use seiner_platform::{Disk, File};
use seiner_volume::{BLOCK, Blocks, FileBlocks, OpenError, Shape, VolumeDisk};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

/// Number of a created file, independent of its name.
type Id = usize;

/// Exclusive upper bound of the bytes that files contain.
const VALUES: u8 = 32;

/// Contents that a file may have after a crash.
#[derive(Clone, Default)]
struct Model {
    /// Contents seen by readers.
    live: Vec<u8>,
    /// Contents at the last sync.
    synced: Vec<u8>,
    /// Contents that an interrupted sync would have made durable.
    syncing: Option<Vec<u8>>,
    /// Set of the values of each byte since the last sync, one bit per value; the synced value comes in addition.
    since: Vec<u32>,
}

impl Model {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.live.len() < end {
            self.set_len(end);
        }
        for (at, &byte) in (offset..).zip(bytes) {
            self.live[at] = byte;
            self.note(at, byte);
        }
    }

    fn set_len(&mut self, len: usize) {
        let before = self.live.len();
        self.live.resize(len, 0);
        (before..len).for_each(|at| self.note(at, 0));
    }

    fn note(&mut self, at: usize, byte: u8) {
        if self.since.len() <= at {
            self.since.resize(at + 1, 0);
        }
        self.since[at] |= 1 << byte;
    }

    fn sync(&mut self) {
        *self = Model::found(self.live.clone());
    }

    fn found(bytes: Vec<u8>) -> Model {
        Model {
            synced: bytes.clone(),
            live: bytes,
            ..Model::default()
        }
    }

    fn explains(&self, found: &[u8]) -> bool {
        let lens = [Some(&self.synced), self.syncing.as_ref()];
        let is_len = lens
            .into_iter()
            .flatten()
            .any(|bytes| bytes.len() == found.len());
        let may_be = |(at, byte): (usize, &u8)| {
            self.synced.get(at) == Some(byte)
                || self
                    .since
                    .get(at)
                    .is_some_and(|some| *byte < VALUES && some >> byte & 1 == 1)
        };
        is_len && found.iter().enumerate().all(may_be)
    }
}

/// State and honesty of the simulated volume.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All members are present.
    Whole,
    /// Members are missing: after a crash the stripes that were being written may hold anything.
    Degraded,
    /// Members are missing, but the volume reports that it is whole.
    Secretive,
    /// Flushes are acknowledged without effect.
    Forgetful,
}

/// A volume, and the stripes that were written since the last flush.
struct Volume {
    blocks: FileBlocks,
    kind: Kind,
    unflushed: Arc<Mutex<BTreeSet<u64>>>,
}

impl Blocks for Volume {
    fn shape(&self) -> Shape {
        self.blocks.shape()
    }

    fn is_whole(&self) -> bool {
        self.kind != Kind::Degraded
    }

    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.blocks.read(start, buffer)
    }

    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let stripe = self.shape().stripe_blocks;
        let end = start + (bytes.len() / BLOCK) as u64;
        self.unflushed
            .lock()
            .unwrap()
            .extend(start / stripe..end.div_ceil(stripe));
        self.blocks.write(start, bytes)
    }

    fn flush(&self) -> io::Result<()> {
        if self.kind == Kind::Forgetful {
            return Ok(());
        }
        self.blocks.flush()?;
        self.unflushed.lock().unwrap().clear();
        Ok(())
    }

    fn trim(&self, start: u64, blocks: u64) {
        // No file contains this byte. A failure of this write is noticed by the next operation.
        let _ = self.write(start, &vec![0xee; blocks as usize * BLOCK]);
    }
}

struct World {
    rng: SimRng,
    shape: Shape,
    kind: Kind,
    unflushed: Arc<Mutex<BTreeSet<u64>>>,
    sim: SimDisk,
    disk: VolumeDisk,
    models: BTreeMap<Id, Model>,
    next: Id,
    /// Names of the files since they were last synced, the present state last.
    names: Vec<BTreeMap<String, Id>>,
    open: Vec<(Id, Arc<dyn File>)>,
    log: Vec<String>,
}

fn mount(sim: &SimDisk, shape: Shape) -> Result<VolumeDisk, OpenError> {
    mount_as(sim, shape, Kind::Whole, Arc::default())
}

fn mount_as(
    sim: &SimDisk,
    shape: Shape,
    kind: Kind,
    unflushed: Arc<Mutex<BTreeSet<u64>>>,
) -> Result<VolumeDisk, OpenError> {
    let file = sim.open("volume").or_else(|_| sim.create("volume"))?;
    sim.sync_names()?;
    let volume = Volume {
        blocks: FileBlocks::new(file, shape)?,
        kind,
        unflushed,
    };
    VolumeDisk::open(Arc::new(volume), *b"a volume of ours")
}

impl World {
    fn new(seed: u64, kind: Kind) -> World {
        let mut rng = SimRng::new(seed);
        let stripe_blocks = *rng.pick(&[1, 4, 16, 20]);
        let unit = stripe_blocks * 16u64.div_ceil(stripe_blocks);
        let shape = Shape {
            blocks: unit * (2 + 2 * 64u64.div_ceil(unit).max(8) + rng.between(6, 20))
                + rng.below(unit),
            stripe_blocks,
        };
        let sim = SimDisk::new(seed);
        drop(mount(&sim, shape).unwrap());
        let unflushed = Arc::default();
        let disk = mount_as(&sim, shape, kind, Arc::clone(&unflushed)).unwrap();
        World {
            rng,
            shape,
            kind,
            unflushed,
            sim,
            disk,
            models: BTreeMap::new(),
            next: 0,
            names: vec![BTreeMap::new()],
            open: Vec::new(),
            log: Vec::new(),
        }
    }

    fn seen(&self) -> BTreeMap<String, Id> {
        self.names.last().unwrap().clone()
    }

    fn name(&mut self) -> String {
        format!("file-{}", self.rng.below(6))
    }

    /// Runs a random operation. An error means the crash, or a lack of space.
    fn step(&mut self) -> io::Result<()> {
        match self.rng.below(100) {
            0..14 => self.create(),
            14..20 => self.remove(),
            20..28 => self.rename(),
            28..66 => self.write(),
            66..72 => self.set_len(),
            72..76 => self.reserve(),
            76..88 => self.sync(),
            88..95 => self.sync_names(),
            _ => {
                if !self.open.is_empty() {
                    let at = self.rng.below(self.open.len() as u64) as usize;
                    self.open.swap_remove(at);
                }
                self.read()
            }
        }
    }

    fn create(&mut self) -> io::Result<()> {
        let name = self.name();
        self.log.push(format!("create {name}"));
        let mut names = self.seen();
        let id = match names.get(&name) {
            Some(&id) => {
                self.models.get_mut(&id).unwrap().set_len(0);
                id
            }
            None => {
                self.next += 1;
                names.insert(name.clone(), self.next);
                self.models.insert(self.next, Model::default());
                self.names.push(names);
                self.next
            }
        };
        self.open.push((id, self.disk.create(&name)?));
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        let name = self.name();
        let mut names = self.seen();
        let known = names.remove(&name).is_some();
        self.log.push(format!("remove {name}"));
        if known {
            self.names.push(names);
            return self.disk.remove(&name);
        }
        let error = self.disk.remove(&name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        Ok(())
    }

    fn rename(&mut self) -> io::Result<()> {
        let (from, to) = (self.name(), self.name());
        let mut names = self.seen();
        let Some(id) = names.remove(&from) else {
            return Ok(());
        };
        names.insert(to.clone(), id);
        self.names.push(names);
        self.log.push(format!("rename {from} to {to}"));
        self.disk.rename(&from, &to)
    }

    /// Returns a file that is open or has a name.
    fn some_file(&mut self) -> io::Result<Option<(Id, Arc<dyn File>)>> {
        if self.open.is_empty() || self.rng.chance(1, 4) {
            let names = self.seen();
            let Some((name, id)) = names
                .iter()
                .nth(self.rng.below(names.len().max(1) as u64) as usize)
            else {
                return Ok(None);
            };
            let file = self.disk.open(name)?;
            self.open.push((*id, file.clone()));
            return Ok(Some((*id, file)));
        }
        let at = self.rng.below(self.open.len() as u64) as usize;
        Ok(Some(self.open[at].clone()))
    }

    fn write(&mut self) -> io::Result<()> {
        let Some((id, file)) = self.some_file()? else {
            return Ok(());
        };
        let len = self.models[&id].live.len();
        let most = *self.rng.pick(&[100, 3000, 20_000, 80_000]);
        let bytes = self.rng.between(1, most) as usize;
        let offset = match self.rng.below(4) {
            0 => self.rng.below(len as u64 + 1) as usize,
            1 if self.rng.chance(1, 4) => len + self.rng.below(100_000) as usize,
            _ => len,
        };
        let value = self.rng.below(31) as usize;
        let data: Vec<u8> = (0..bytes)
            .map(|at| 1 + ((value + at / 997) % 31) as u8)
            .collect();
        self.log.push(format!("write {bytes} at {offset} of {id}"));
        self.change(
            id,
            |model| model.put(offset, &data),
            || file.write_at(offset as u64, &data),
        )
    }

    /// Applies a change to the model and the file. A failed change may be done in part, except for lack of space.
    fn change(
        &mut self,
        id: Id,
        expected: impl FnOnce(&mut Model),
        done: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let model = self.models.get_mut(&id).unwrap();
        let before = model.clone();
        expected(model);
        let result = done();
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::StorageFull
        {
            *model = before;
        }
        result
    }

    fn set_len(&mut self) -> io::Result<()> {
        let Some((id, file)) = self.some_file()? else {
            return Ok(());
        };
        let len = self.models[&id].live.len();
        let new = match self.rng.below(3) {
            0 => len + self.rng.below(100_000) as usize,
            _ => self.rng.below(len as u64 + 1) as usize,
        };
        self.log.push(format!("set_len {new} of {id}"));
        self.change(id, |model| model.set_len(new), || file.set_len(new as u64))
    }

    fn reserve(&mut self) -> io::Result<()> {
        let Some((id, file)) = self.some_file()? else {
            return Ok(());
        };
        let len = self.models[&id].live.len() as u64 + self.rng.below(150_000);
        self.log.push(format!("reserve {len} of {id}"));
        file.reserve(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some((id, file)) = self.some_file()? else {
            return Ok(());
        };
        self.log.push(format!("sync {id}"));
        let model = self.models.get_mut(&id).unwrap();
        model.syncing = Some(model.live.clone());
        file.sync()?;
        model.sync();
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.log.push("sync_names".to_string());
        self.disk.sync_names()?;
        self.names = vec![self.seen()];
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let Some((id, file)) = self.some_file()? else {
            return Ok(());
        };
        let expected = &self.models[&id].live;
        assert_eq!(file.len()?, expected.len() as u64, "{:?}", self.log);
        let start = self.rng.below(expected.len() as u64 + 1) as usize;
        let end = start + self.rng.below((expected.len() - start) as u64 + 1) as usize;
        let mut found = vec![0; end - start];
        file.read_at(start as u64, &mut found)?;
        assert!(
            found == expected[start..end],
            "{start} to {end} of {id}: {:?}",
            self.log
        );
        let beyond = file.read_at(expected.len() as u64, &mut [0]).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        Ok(())
    }

    /// Runs operations until the crash, then checks the files that are found.
    fn cycle(&mut self, cut: u64, power: bool) -> Result<(), String> {
        self.sim.crash_after(Some(cut));
        while !self.sim.is_off() {
            match self.step() {
                Err(error) if !self.sim.is_off() => {
                    assert_eq!(
                        error.kind(),
                        io::ErrorKind::StorageFull,
                        "{error}: {:?}",
                        self.log
                    );
                }
                _ => {}
            }
        }
        self.open.clear();
        self.sim = match power {
            true => self.sim.crash(),
            false => self.sim.restart(),
        };
        self.log.push(format!("crash, power {power}"));
        if matches!(self.kind, Kind::Degraded | Kind::Secretive) {
            self.shred();
        }
        let unflushed = self.unflushed.clone();
        let mounted = mount_as(&self.sim, self.shape, self.kind, unflushed);
        self.disk = mounted.map_err(|error| error.to_string())?;
        self.compare()
    }

    /// Overwrites some blocks of the stripes that were being written with noise.
    fn shred(&mut self) {
        let file = self.sim.open("volume").unwrap();
        let stripe = self.shape.stripe_blocks;
        for number in std::mem::take(&mut *self.unflushed.lock().unwrap()) {
            for block in number * stripe..(number + 1) * stripe {
                if self.rng.chance(1, 2) {
                    let noise = [self.rng.next_u64() as u8 | VALUES; BLOCK];
                    file.write_at(block * BLOCK as u64, &noise).unwrap();
                }
            }
        }
        file.sync().unwrap();
    }

    fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let names = self.disk.list().unwrap().into_iter();
        let read = |name: String| {
            let file = self.disk.open(&name)?;
            let mut bytes = vec![0; file.len()? as usize];
            file.read_at(0, &mut bytes)?;
            Ok((name, bytes))
        };
        let read: io::Result<_> = names.map(read).collect();
        read.map_err(|error| error.to_string())
    }

    fn compare(&mut self) -> Result<(), String> {
        let found = self.contents()?;
        let mut known = BTreeMap::new();
        let mut may_be = |name: &String, id: &Id| {
            let seen = known.entry((name.clone(), *id));
            *seen.or_insert_with(|| self.models[id].explains(&found[name]))
        };
        let explains = |names: &&BTreeMap<String, Id>| {
            names.keys().eq(found.keys()) && names.iter().all(|(name, id)| may_be(name, id))
        };
        let Some(names) = self.names.iter().rev().find(explains).cloned() else {
            let lens: Vec<_> = found
                .iter()
                .map(|(name, bytes)| (name, bytes.len()))
                .collect();
            return Err(format!("found {lens:?}, known {:?}", self.names));
        };
        self.models = names
            .iter()
            .map(|(name, id)| (*id, Model::found(found[name].clone())))
            .collect();
        self.names = vec![names];
        Ok(())
    }

    /// Removes all files and checks that all space is free.
    fn finish(&mut self) -> Result<(), String> {
        for name in self.disk.list().unwrap() {
            self.disk.remove(&name).map_err(|error| error.to_string())?;
        }
        self.disk.sync_names().map_err(|error| error.to_string())?;
        match self.disk.free().unwrap() == Some(self.disk.capacity()) {
            true => Ok(()),
            false => Err("some room is lost".to_string()),
        }
    }
}

fn run(seed: u64, kind: Kind) -> Result<(), String> {
    let mut world = World::new(seed, kind);
    let cycles = world.rng.between(1, 5);
    let done = (0..cycles).try_for_each(|_| {
        let most = *world.rng.pick(&[5, 30, 150]);
        let (cut, power) = (world.rng.between(1, most), world.rng.chance(3, 4));
        world.cycle(cut, power)
    });
    done.and_then(|()| world.finish()).map_err(|what| {
        format!(
            "seed {seed}, {kind:?}, {:?}: {what}\n{:?}",
            world.shape, world.log
        )
    })
}

fn runs() -> u64 {
    std::env::var("SEINER_SIM_RUNS").map_or(150, |text| text.parse().expect("a number of runs"))
}

#[test]
fn what_was_synced_survives_power_cuts_and_kills() {
    for seed in 0..runs() {
        run(seed, Kind::Whole).unwrap();
    }
}

#[test]
fn what_was_synced_survives_though_stripes_that_were_being_written_are_anything() {
    for seed in 0..runs() {
        run(seed, Kind::Degraded).unwrap();
    }
}

/// Applies `done` to the file "a" with a power cut at operation `cut`; returns the contents found afterwards.
fn found_after(
    world: &mut World,
    cut: u64,
    done: impl FnOnce(&dyn File) -> io::Result<()>,
) -> Vec<u8> {
    let file = world.disk.open("a").unwrap();
    world.sim.crash_after(Some(cut));
    let _ = done(&*file);
    drop(file);
    world.sim = world.sim.crash();
    if world.kind == Kind::Degraded {
        world.shred();
    }
    let unflushed = world.unflushed.clone();
    world.disk = mount_as(&world.sim, world.shape, world.kind, unflushed).unwrap();
    world.contents().unwrap().remove("a").unwrap()
}

/// Regression, seed 181: zeroes behind the cut, in a rewritten block, while the table still had the old length.
#[test]
fn what_is_cut_off_stays_until_the_cut_is_durable() {
    let synced: Vec<u8> = (0..30_000).map(|at| 1 + (at / 997) as u8).collect();
    for seed in 0..60 {
        for cut in 1..5 {
            let mut world = World::new(seed, Kind::Whole);
            let file = world.disk.create("a").unwrap();
            file.write_at(0, &synced).unwrap();
            file.sync().unwrap();
            world.disk.sync_names().unwrap();
            let found = found_after(&mut world, cut, |file| {
                file.set_len(17_000)?;
                file.write_at(17_000, &[40; 500])?;
                file.sync()
            });
            let behind = [&synced[17_500..], &[]];
            assert!(behind.contains(&&found[17_500..]), "seed {seed}, cut {cut}");
        }
    }
}

/// Regression, seed 89: the end of a file was overwritten in place when no unit was free.
#[test]
fn a_full_volume_without_some_members_is_written_elsewhere_or_not_at_all() {
    for seed in 0..60 {
        for cut in 1..9 {
            let mut world = World::new(seed, Kind::Degraded);
            let file = world.disk.create("a").unwrap();
            world.disk.sync_names().unwrap();
            let mut synced = Vec::new();
            while file.write_at(synced.len() as u64, &[7; 65_000]).is_ok() {
                synced.resize(synced.len() + 65_000, 7);
                file.sync().unwrap();
            }
            let len = synced.len() as u64;
            let found = found_after(&mut world, cut, |file| {
                (0..9).try_for_each(|more| {
                    file.write_at(len + more, &[8])?;
                    file.sync()
                })
            });
            assert!(found.starts_with(&synced), "seed {seed}, cut {cut}");
        }
    }
}

/// Regression: a window on a unit that was moved already was written out within a write that begins before it.
#[test]
fn a_write_around_the_window_moves_all_units_that_count() {
    for seed in 0..60 {
        for cut in 1..9 {
            let mut world = World::new(seed, Kind::Degraded);
            let unit = world.disk.unit() as usize;
            let synced = vec![7; 3 * unit];
            let file = world.disk.create("a").unwrap();
            file.write_at(0, &synced).unwrap();
            file.sync().unwrap();
            world.disk.sync_names().unwrap();
            let found = found_after(&mut world, cut, |file| {
                file.write_at(unit as u64 + 10, &[8; 10])?;
                file.write_at(10, &vec![8; 3 * unit - 20])?;
                file.sync()
            });
            let is_known = found.iter().all(|byte| [7, 8].contains(byte));
            assert!(
                is_known && found.len() == synced.len(),
                "seed {seed}, cut {cut}"
            );
        }
    }
}

#[test]
fn power_may_go_at_every_operation() {
    for seed in 0..6 {
        // Repeats the same run with a later power cut each time.
        for cut in 1..100 {
            let kind = if seed % 2 == 0 {
                Kind::Whole
            } else {
                Kind::Degraded
            };
            let mut world = World::new(seed, kind);
            let done = world.cycle(cut, true).and_then(|()| world.finish());
            done.unwrap_or_else(|what| panic!("seed {seed}, cut {cut}: {what}\n{:?}", world.log));
        }
    }
}

#[test]
fn a_volume_that_does_not_flush_is_found_out() {
    let found = (0..40)
        .filter(|&seed| run(seed, Kind::Forgetful).is_err())
        .count();
    assert!(found > 10, "{found} of 40");
}

#[test]
fn a_volume_that_does_not_say_that_members_are_missing_is_found_out() {
    let found = (0..60)
        .filter(|&seed| run(seed, Kind::Secretive).is_err())
        .count();
    assert!(found > 5, "{found} of 60");
}

#[test]
fn the_power_may_go_while_a_volume_is_made() {
    let shape = Shape {
        blocks: 16 * 30,
        stripe_blocks: 4,
    };
    for seed in 0..40 {
        for cut in 1..20 {
            let sim = SimDisk::new(seed);
            let file = sim.create("volume").unwrap();
            sim.sync_names().unwrap();
            file.set_len(shape.blocks * BLOCK as u64).unwrap();
            file.sync().unwrap();
            sim.crash_after(Some(cut));
            let made = mount(&sim, shape).is_ok();
            let sim = sim.crash();
            match mount(&sim, shape) {
                Ok(disk) => assert!(disk.list().unwrap().is_empty()),
                // The first block lacks some sectors. Nothing is lost, and the volume can be cleared.
                Err(OpenError::Superblock(_)) => assert!(!made, "seed {seed}, cut {cut}"),
                Err(error) => panic!("seed {seed}, cut {cut}: {error}"),
            }
        }
    }
}
