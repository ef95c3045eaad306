//! Bit flips at rest, on a copy of the disk, so that one run covers many cases.

use super::{Done, World};
use crate::answers::{self, CheckError};
use crate::generator::batch;
use crate::names::Lines;
use crate::oracle::Oracle;
use crate::samples::{Samples, each, first_difference};
use seiner_engine::{Engine, Error, SegmentInfo};
use seiner_platform::Disk;
use seiner_platform::sim::SimDisk;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of samples in a row.
const FIELDS: u64 = 14;

/// Name of the file with the names of all sources.
const CATALOG: &str = "catalog";

/// Prefix of the names of journal files.
const JOURNAL: &str = "journal-";

/// Prefix of the names of segments.
const SEGMENT: &str = "segment-";

/// A copy of the store with flipped bits.
struct DamagedStore {
    engine: Engine,
    oracle: Oracle,
    /// Damaged files.
    damaged_files: BTreeSet<String>,
    /// Segments before the damage.
    segments: Vec<SegmentInfo>,
}

impl World {
    /// Makes everything durable, copies the disk, flips bits in the copy and opens it. No answer may be wrong.
    /// Missing data must be reported and must have been in the damaged files.
    pub(super) fn damage(&mut self) -> Done {
        let flushes = !self.plan.journals() || self.rng.chance(1, 3);
        let result = if flushes {
            self.engine().flush()
        } else {
            self.engine().commit()
        };
        if self.done("flush or commit", result)?.is_none() {
            return Ok(());
        }
        self.oracle.set_all_durable();
        let segments = self.engine().segments();
        let fork = self.disk.fork(self.rng.next_u64()).restart();
        let damaged_files = match self.rng.chance(1, 3) {
            true => self.remove_file(&fork),
            false => self.turn_bits(&fork),
        };
        let engine = match self.open_copy(&fork) {
            Ok(engine) => engine,
            // Only a damaged header of the catalog prevents a store from opening.
            Err(Error::Damage { file, .. })
                if file == CATALOG && damaged_files.contains(CATALOG) =>
            {
                self.event("the catalog is rejected".to_string());
                return Ok(());
            }
            Err(error) => return self.violation(format!("a damaged store does not open: {error}")),
        };
        self.event(format!("started: {}", engine.recovery()));
        let mut damaged_store = DamagedStore {
            engine,
            oracle: self.oracle.clone(),
            damaged_files,
            segments,
        };
        if let Err(what) = self
            .examine(&mut damaged_store)
            .and_then(|()| self.exercise(&mut damaged_store, &fork))
        {
            return self.violation(format!("damaged {:?}: {what}", damaged_store.damaged_files));
        }
        Ok(())
    }

    fn open_copy(&self, disk: &SimDisk) -> Result<Engine, Error> {
        let clock = Arc::new(self.clock.clone());
        Engine::open((self.wrap)(disk.clone()), clock, self.plan.options.clone())
    }

    /// Removes a file on which other data depend.
    fn remove_file(&mut self, disk: &SimDisk) -> BTreeSet<String> {
        let depends = |name: &str| {
            let open = name.ends_with(".open") && name.matches('.').count() == 1;
            name.starts_with(JOURNAL) || name.starts_with(SEGMENT) && !open
        };
        let mut files = disk.files();
        files.retain(|(name, len)| depends(name) && *len > 0);
        let Some(last) = files.len().checked_sub(1) else {
            return BTreeSet::new();
        };
        let name = files
            .swap_remove(self.rng.between(0, last as u64) as usize)
            .0;
        disk.remove(&name).expect("the disk has no faults");
        self.event(format!("{name} is gone"));
        BTreeSet::from([name])
    }

    fn turn_bits(&mut self, disk: &SimDisk) -> BTreeSet<String> {
        let files: Vec<(String, u64)> = disk
            .files()
            .into_iter()
            .filter(|(_, len)| *len > 0)
            .collect();
        let mut damaged_files = BTreeSet::new();
        for _ in 0..self.rng.between(1, 3) {
            let Some(last) = files.len().checked_sub(1) else {
                break;
            };
            let (name, len) = &files[self.rng.between(0, last as u64) as usize];
            // The most important bytes are at the beginning and at the end.
            let edge = (*len).min(300);
            let byte = match self.rng.below(4) {
                0 => self.rng.below(edge),
                1 => len - 1 - self.rng.below(edge),
                _ => self.rng.below(*len),
            };
            disk.flip_bit(name, byte * 8 + self.rng.below(8));
            self.event(format!(
                "a bit of byte {byte} of {name} ({len} bytes) turns over"
            ));
            damaged_files.insert(name.clone());
        }
        damaged_files
    }

    /// Checks that the remaining data are correct, and that missing data are reported and explained.
    fn examine(&mut self, damaged_store: &mut DamagedStore) -> Result<(), String> {
        let (found, errors) = remains(&damaged_store.engine, &self.source_index)?;
        let before = each(damaged_store.oracle.live()).count();
        // Damage at the end of the journal looks like a power failure during a write.
        let torn = damaged_store
            .damaged_files
            .iter()
            .any(|name| name.starts_with(JOURNAL))
            && damaged_store.oracle.was(&found);
        let missing = damaged_store.oracle.adopt_remains(found)?;
        let recovery = damaged_store.engine.recovery();
        let damaged = damaged_store.engine.status().damaged_segments;
        self.event(format!(
            "{missing} of {before} samples missing, {errors} errors, {damaged} segments damaged"
        ));
        self.report.checks += 1;
        self.report.damages += u64::from(missing > 0);
        let losses = !damaged_store.engine.losses().is_empty();
        let reported =
            errors > 0 || damaged > 0 || losses || !recovery.set_aside.is_empty() || torn;
        if missing > 0 && !reported {
            return Err(format!(
                "{missing} samples are missing and nothing is reported"
            ));
        }
        let of_segments = |name: &String| {
            damaged_store
                .segments
                .iter()
                .find(|segment| segment.file == *name)
        };
        // A query returns nothing for a source with an unreadable block.
        if errors == 0
            && damaged_store
                .damaged_files
                .iter()
                .all(|name| of_segments(name).is_some())
        {
            let rows: u64 = damaged_store
                .damaged_files
                .iter()
                .filter_map(of_segments)
                .map(|segment| segment.rows)
                .sum();
            if missing as u64 > rows * FIELDS {
                return Err(format!(
                    "{missing} samples are missing, the damaged files held {rows} rows"
                ));
            }
        }
        // The journal cannot be read without the names that the catalog and earlier records register.
        if damaged_store
            .damaged_files
            .iter()
            .any(|name| name == CATALOG || name.starts_with(JOURNAL))
        {
            return Ok(());
        }
        // A merge victim is reported under its name before the merge.
        let was_hit = |what: &str| {
            let mut names = damaged_store
                .damaged_files
                .iter()
                .map(|file| file.trim_end_matches(".merging"));
            names.any(|name| what.starts_with(name))
        };
        match recovery.set_aside.iter().find(|(what, _)| !was_hit(what)) {
            Some((file, why)) => Err(format!("{file} is set aside although it is intact: {why}")),
            None => Ok(()),
        }
    }

    /// Checks that the rest of the store works: it accepts rows, and the rows persist after a close and an open.
    fn exercise(&mut self, damaged_store: &mut DamagedStore, disk: &SimDisk) -> Result<(), String> {
        let rows = self.rng.between(1, 50);
        let entries = self.generator.entries(&mut self.rng, rows, None);
        let receipt = damaged_store
            .engine
            .append(&Lines, &batch(&entries))
            .map_err(|error| format!("append: {error}"))?;
        if receipt.rows != entries.len() {
            return Err(format!("{receipt:?} for {} rows", entries.len()));
        }
        entries
            .iter()
            .for_each(|entry| damaged_store.oracle.accept(entry));
        self.same(damaged_store, "after rows were added")?;
        damaged_store
            .engine
            .flush()
            .map_err(|error| format!("flush: {error}"))?;
        self.same(damaged_store, "after a flush")?;
        damaged_store
            .engine
            .close()
            .map_err(|error| format!("close: {error}"))?;
        damaged_store.engine = self
            .open_copy(&disk.restart())
            .map_err(|error| format!("opened again: {error}"))?;
        self.same(damaged_store, "when opened again")
    }

    /// Checks that each source has an exact answer, or no answer and a reported error.
    fn same(&self, damaged_store: &DamagedStore, when: &str) -> Result<(), String> {
        let (found, errors) = remains(&damaged_store.engine, &self.source_index)?;
        let answered: BTreeSet<u32> = found.keys().map(|series| series.0).collect();
        let mut expected = damaged_store.oracle.live().clone();
        let silent: BTreeSet<u32> = expected
            .keys()
            .map(|series| series.0)
            .filter(|source| !answered.contains(source))
            .collect();
        if silent.len() <= errors {
            expected.retain(|series, _| !silent.contains(&series.0));
        }
        if damaged_store.damaged_files.contains(CATALOG) {
            return self
                .at_least(damaged_store, expected, found)
                .map_err(|what| format!("{when}: {what}"));
        }
        match first_difference(&expected, &found) {
            None => Ok(()),
            Some(difference) => Err(format!("{when}: {difference}")),
        }
    }
}

impl World {
    /// Checks that samples of fields with lost names return when the fields are sent again.
    fn at_least(
        &self,
        damaged_store: &DamagedStore,
        expected: Samples,
        mut found: Samples,
    ) -> Result<(), String> {
        damaged_store.oracle.clone().adopt_remains(found.clone())?;
        for (series, samples) in &mut found {
            let wanted = expected.get(series);
            samples.retain(|time, _| wanted.is_some_and(|wanted| wanted.contains_key(time)));
        }
        found.retain(|_, samples| !samples.is_empty());
        first_difference(&expected, &found).map_or(Ok(()), Err)
    }
}

fn remains(
    engine: &Engine,
    source_index: &answers::SourceIndex,
) -> Result<(Samples, usize), String> {
    answers::select_remains(engine, source_index).map_err(|error| match error {
        CheckError::Wrong(what) => what,
        CheckError::Failed(error) => format!("reading fails: {error}"),
    })
}
