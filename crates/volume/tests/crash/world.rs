//! One run: random operations on files, crashes, and the comparison with the models.

use crate::model::{Model, VALUES};
use crate::volume::{VolumeKind, mount, mount_as};
use seiner_platform::sim::{Rng, SimDisk};
use seiner_platform::{Disk, File};
use seiner_volume::{BLOCK, VolumeDisk, VolumeShape};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

/// Number of a created file, independent of its name.
type Id = usize;

/// A run in progress.
pub struct World {
    pub rng: Rng,
    pub shape: VolumeShape,
    pub kind: VolumeKind,
    pub unflushed: Arc<Mutex<BTreeSet<u64>>>,
    pub sim: SimDisk,
    pub disk: VolumeDisk,
    pub models: BTreeMap<Id, Model>,
    pub next: Id,
    /// Names of the files since they were last synced, the present state last.
    pub names: Vec<BTreeMap<String, Id>>,
    pub open: Vec<(Id, Arc<dyn File>)>,
    pub log: Vec<String>,
}

impl World {
    pub fn new(seed: u64, kind: VolumeKind) -> World {
        let mut rng = Rng::new(seed);
        let stripe_blocks = *rng.pick(&[1, 4, 16, 20]);
        let unit = stripe_blocks * 16u64.div_ceil(stripe_blocks);
        let shape = VolumeShape {
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
    pub fn cycle(&mut self, cut: u64, power: bool) -> Result<(), String> {
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
        if matches!(self.kind, VolumeKind::Degraded | VolumeKind::Secretive) {
            self.shred();
        }
        let unflushed = self.unflushed.clone();
        let mounted = mount_as(&self.sim, self.shape, self.kind, unflushed);
        self.disk = mounted.map_err(|error| error.to_string())?;
        self.compare()
    }

    /// Overwrites some blocks of the stripes that were being written with noise.
    pub fn shred(&mut self) {
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

    pub fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>, String> {
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
    pub fn finish(&mut self) -> Result<(), String> {
        for name in self.disk.list().unwrap() {
            self.disk.remove(&name).map_err(|error| error.to_string())?;
        }
        self.disk.sync_names().map_err(|error| error.to_string())?;
        match self.disk.free().unwrap() == Some(self.disk.capacity()) {
            true => Ok(()),
            false => Err("some space is lost".to_string()),
        }
    }
}
