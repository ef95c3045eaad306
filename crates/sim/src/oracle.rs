//! Reference model of the store: maps in memory, where the last write wins.

use crate::datum::{Datum, digest};
use crate::generator::Entry;
use crate::retention_model::RetentionModel;
use crate::rollup_model::RollupModel;
use crate::samples::{Samples, Series, each, first_difference, sum_of};
use std::collections::{BTreeSet, HashMap};

/// An accepted row.
#[derive(Clone, Debug)]
struct Accepted {
    source: u32,
    time: i64,
    cells: Vec<(u32, Datum)>,
}

/// Contents of a correct store, and the rows that it may lose in a crash.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Samples that must exist after a crash.
    durable: Samples,
    /// [`sum_of`] of `durable`.
    durable_sum: u64,
    /// Current samples: `durable` with the rows of `tail` applied.
    live: Samples,
    /// Accepted rows that may not be durable, in the order of acceptance.
    tail: Vec<Accepted>,
    /// Number of rows accepted before the first of `tail`.
    before_tail: u64,
    /// Everything that was ever accepted, for the tests of damage; otherwise `None`.
    archive: Option<Archive>,
    /// Model of a store with retention. If it is set, `live` is the last answer of the store, and
    /// the other fields are unused.
    pub(crate) retention: Option<RetentionModel>,
    /// Model of a store with roll-ups. If it is set, the other fields are unused.
    pub(crate) rollups: Option<RollupModel>,
}

/// Everything that was ever accepted.
#[derive(Clone, Debug, Default)]
struct Archive {
    /// Digests of all samples.
    samples: BTreeSet<u64>,
    /// All rows, in the order of acceptance.
    rows: Vec<Accepted>,
}

impl Oracle {
    /// Returns an empty store. With `keeps_archive` it keeps everything that it accepts.
    pub fn new(keeps_archive: bool) -> Oracle {
        Oracle {
            archive: keeps_archive.then(Archive::default),
            ..Oracle::default()
        }
    }

    /// Returns an oracle for a store with retention.
    pub(crate) fn expiring(retention: RetentionModel) -> Oracle {
        Oracle {
            retention: Some(retention),
            ..Oracle::default()
        }
    }

    /// Returns an oracle for a store with roll-ups.
    pub(crate) fn rolling_up(rollups: RollupModel) -> Oracle {
        Oracle {
            rollups: Some(rollups),
            ..Oracle::default()
        }
    }

    pub(crate) fn live(&self) -> &Samples {
        &self.live
    }

    /// Sets the samples that a store with retention returned last.
    pub(crate) fn set_live(&mut self, found: Samples) {
        self.live = found;
    }

    /// Number of accepted rows.
    pub fn accepted(&self) -> u64 {
        let counted = self.before_tail + self.tail.len() as u64;
        let counted = self.rollups.as_ref().map_or(counted, RollupModel::accepted);
        self.retention
            .as_ref()
            .map_or(counted, RetentionModel::accepted)
    }

    /// Returns true if a row may be rejected as too old.
    pub(crate) fn may_be_too_old(&self, entry: &Entry) -> bool {
        let retention = self.retention.as_ref();
        let rollups = self.rollups.as_ref();
        retention.is_some_and(|retention| retention.may_be_too_old(entry))
            || rollups.is_some_and(|rollups| rollups.may_be_too_old(entry))
    }

    pub(crate) fn accept(&mut self, entry: &Entry) {
        if let Some(rollups) = &mut self.rollups {
            return rollups.accept(entry);
        }
        if let Some(retention) = &mut self.retention {
            return retention.accept(entry);
        }
        let row = Accepted {
            source: entry.source,
            time: entry.time,
            cells: entry.cells.clone(),
        };
        if let Some(archive) = &mut self.archive {
            archive.samples.extend(
                row.cells
                    .iter()
                    .map(|(field, datum)| digest(&(row.source, *field, row.time, datum))),
            );
            archive.rows.push(row.clone());
        }
        row.apply(&mut self.live);
        self.tail.push(row);
    }

    /// Records that the first `accepted` rows survive a crash.
    pub(crate) fn set_durable(&mut self, accepted: u64) {
        if let Some(rollups) = &mut self.rollups {
            return rollups.set_durable(accepted);
        }
        if let Some(retention) = &mut self.retention {
            return retention.set_durable(accepted);
        }
        let rows = (accepted.saturating_sub(self.before_tail) as usize).min(self.tail.len());
        for row in self.tail.drain(..rows) {
            self.durable_sum = self.durable_sum.wrapping_add(row.apply(&mut self.durable));
        }
        self.before_tail += rows as u64;
    }

    /// Records that all accepted rows survive a crash.
    pub(crate) fn set_all_durable(&mut self) {
        self.set_durable(self.accepted());
    }

    /// Adopts the answer of a store with a journal after a crash: the durable rows and a prefix of
    /// the rows accepted after them.
    ///
    /// # Errors
    /// A description of a sample that is missing or was never accepted.
    pub(crate) fn adopt_prefix(
        &mut self,
        found: Samples,
        power_failed: bool,
    ) -> Result<(), String> {
        let kept = self.find_prefix(&found)?;
        self.tail.truncate(kept);
        self.live = self.durable.clone();
        self.tail.iter().for_each(|row| {
            row.apply(&mut self.live);
        });
        if let Some(difference) = first_difference(&self.live, &found) {
            return Err(difference);
        }
        if power_failed {
            self.set_all_durable();
        }
        Ok(())
    }

    /// Returns the number of rows of the tail that explain the answer of a store with a journal
    /// after a crash.
    ///
    /// # Errors
    /// A description of samples that are missing or were never accepted, if no number of rows
    /// matches.
    pub(crate) fn find_prefix(&self, found: &Samples) -> Result<usize, String> {
        let target = sum_of(found);
        let mut sum = self.durable_sum;
        let mut kept = (sum == target).then_some(0);
        let mut written: HashMap<(Series, i64), &Datum> = HashMap::new();
        for (index, row) in self.tail.iter().enumerate() {
            for (field, datum) in &row.cells {
                let (series, time) = ((row.source, *field), row.time);
                let durable = || {
                    self.durable
                        .get(&series)
                        .and_then(|samples| samples.get(&time))
                };
                if let Some(old) = written.insert((series, time), datum).or_else(durable) {
                    sum = sum.wrapping_sub(digest(&(series, time, old)));
                }
                sum = sum.wrapping_add(digest(&(series, time, datum)));
            }
            if sum == target {
                kept = Some(index + 1);
            }
        }
        kept.ok_or_else(|| self.diagnose(found))
    }

    /// Adopts the answer of a store without a journal after a crash. It must contain the durable
    /// samples, unless they were overwritten, and may contain any samples accepted since.
    ///
    /// # Errors
    /// A description of a sample that is missing or was never accepted.
    pub(crate) fn adopt_subset(
        &mut self,
        found: Samples,
        power_failed: bool,
    ) -> Result<(), String> {
        let mut since: HashMap<(Series, i64), Vec<&Datum>> = HashMap::new();
        for row in &self.tail {
            for (field, datum) in &row.cells {
                since
                    .entry(((row.source, *field), row.time))
                    .or_default()
                    .push(datum);
            }
        }
        let newer = |series, time, datum: &Datum| {
            since
                .get(&(series, time))
                .is_some_and(|values| values.contains(&datum))
        };
        for (series, time, datum) in each(&self.durable) {
            match found.get(&series).and_then(|samples| samples.get(&time)) {
                Some(there) if there == datum || newer(series, time, there) => {}
                there => {
                    return Err(format!(
                        "durable {series:?} at {time}: {datum:?} became {there:?}"
                    ));
                }
            }
        }
        let mut tail = Vec::new();
        for (series, time, datum) in each(&found) {
            if self
                .durable
                .get(&series)
                .and_then(|samples| samples.get(&time))
                == Some(datum)
            {
                continue;
            }
            if !newer(series, time, datum) {
                return Err(format!(
                    "{series:?} at {time}: {datum:?} was never accepted"
                ));
            }
            tail.push(Accepted {
                source: series.0,
                time,
                cells: vec![(series.1, datum.clone())],
            });
        }
        self.tail = tail;
        self.live = found;
        if power_failed {
            self.set_all_durable();
        }
        Ok(())
    }

    /// Adopts the answer of a damaged store: any samples that were accepted at some time. Returns
    /// the number of samples that are missing or have an older value.
    ///
    /// # Errors
    /// A description of a sample that was never accepted.
    pub(crate) fn adopt_remains(&mut self, found: Samples) -> Result<usize, String> {
        let archive = self.archive();
        for (series, time, datum) in each(&found) {
            if !archive
                .samples
                .contains(&digest(&(series.0, series.1, time, datum)))
            {
                return Err(format!(
                    "{series:?} at {time}: {datum:?} was never accepted"
                ));
            }
        }
        let right = each(&self.live)
            .filter(|(series, time, datum)| {
                found.get(series).and_then(|samples| samples.get(time)) == Some(*datum)
            })
            .count();
        let wrong = each(&self.live).count() - right;
        self.before_tail = self.accepted();
        self.tail.clear();
        self.durable.clone_from(&found);
        self.durable_sum = sum_of(&found);
        self.live = found;
        Ok(wrong)
    }

    /// Returns true if `found` was the state of the store at some moment. Then only the last rows are
    /// missing.
    pub(crate) fn was(&self, found: &Samples) -> bool {
        let target = sum_of(found);
        let (mut sum, mut state) = (0u64, Samples::new());
        target == 0
            || self.archive().rows.iter().any(|row| {
                sum = sum.wrapping_add(row.apply(&mut state));
                sum == target
            })
    }

    fn archive(&self) -> &Archive {
        self.archive
            .as_ref()
            .expect("an archive is kept for tests of damage")
    }

    /// Describes why no prefix of the accepted rows gives the found samples.
    fn diagnose(&self, found: &Samples) -> String {
        let has = |series: &Series, time: &i64, datum: &Datum| {
            found.get(series).and_then(|samples| samples.get(time)) == Some(datum)
        };
        let mut overwritten = BTreeSet::new();
        let mut accepted: HashMap<(Series, i64), Vec<&Datum>> = HashMap::new();
        let mut rows = String::new();
        for row in &self.tail {
            let there = row
                .cells
                .iter()
                .filter(|(field, datum)| has(&(row.source, *field), &row.time, datum))
                .count();
            rows.push(if there == row.cells.len() {
                '+'
            } else if there == 0 {
                '.'
            } else {
                '~'
            });
            for (field, datum) in &row.cells {
                overwritten.insert(((row.source, *field), row.time));
                accepted
                    .entry(((row.source, *field), row.time))
                    .or_default()
                    .push(datum);
            }
        }
        let lost: Vec<String> = each(&self.durable)
            .filter(|(series, time, datum)| {
                !has(series, time, datum) && !overwritten.contains(&(*series, *time))
            })
            .map(|(series, time, datum)| {
                format!(
                    "{series:?} at {time}: {datum:?}, found {:?}",
                    found.get(&series).and_then(|s| s.get(&time))
                )
            })
            .collect();
        let invented: Vec<String> = each(found)
            .filter(|(series, time, datum)| {
                self.durable
                    .get(series)
                    .and_then(|samples| samples.get(time))
                    != Some(*datum)
                    && !accepted
                        .get(&(*series, *time))
                        .is_some_and(|values| values.contains(datum))
            })
            .map(|(series, time, datum)| format!("{series:?} at {time}: {datum:?}"))
            .collect();
        format!(
            "no prefix of the accepted rows: of {} durable samples {} lost {:?}; {} invented {:?}; \
             rows accepted since, + found . missing ~ partly: {rows}",
            each(&self.durable).count(),
            lost.len(),
            &lost[..lost.len().min(3)],
            invented.len(),
            &invented[..invented.len().min(3)],
        )
    }
}

impl Accepted {
    /// Applies the row. Returns the change of [`sum_of`] the samples.
    fn apply(&self, samples: &mut Samples) -> u64 {
        let mut change = 0u64;
        for (field, datum) in &self.cells {
            let series = (self.source, *field);
            let old = samples
                .entry(series)
                .or_default()
                .insert(self.time, datum.clone());
            if let Some(old) = old {
                change = change.wrapping_sub(digest(&(series, self.time, &old)));
            }
            change = change.wrapping_add(digest(&(series, self.time, datum)));
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn entry(time: i64, value: i64) -> Entry {
        Entry {
            source: 0,
            name: Vec::new(),
            time,
            cells: vec![(0, Datum::I64(value))],
            defect: None,
        }
    }

    fn oracle(entries: &[Entry], durable: u64) -> Oracle {
        let mut oracle = Oracle::new(true);
        entries.iter().for_each(|entry| oracle.accept(entry));
        oracle.set_durable(durable);
        oracle
    }

    fn samples(samples: &[(i64, i64)]) -> Samples {
        let series: BTreeMap<i64, Datum> = samples
            .iter()
            .map(|&(time, value)| (time, Datum::I64(value)))
            .collect();
        if series.is_empty() {
            Samples::new()
        } else {
            Samples::from([((0, 0), series)])
        }
    }

    #[test]
    fn after_a_crash_a_prefix_with_all_durable_rows_is_accepted() {
        let rows = [entry(1, 10), entry(2, 20), entry(1, 11), entry(3, 30)];
        let adopt = |found: &[(i64, i64)]| oracle(&rows, 2).adopt_prefix(samples(found), true);
        adopt(&[(1, 10), (2, 20)]).unwrap();
        adopt(&[(1, 11), (2, 20)]).unwrap();
        adopt(&[(1, 11), (2, 20), (3, 30)]).unwrap();
        assert!(
            adopt(&[(1, 10)]).unwrap_err().contains("lost"),
            "a durable row is missing"
        );
        assert!(adopt(&[(1, 10), (2, 20), (3, 30)]).is_err(), "a hole");
        assert!(
            adopt(&[(1, 10), (2, 21)])
                .unwrap_err()
                .contains("1 invented")
        );
    }

    #[test]
    fn without_a_journal_any_subset_of_later_rows_is_accepted() {
        let rows = [entry(1, 10), entry(2, 20), entry(1, 11), entry(3, 30)];
        let adopt = |found: &[(i64, i64)]| oracle(&rows, 2).adopt_subset(samples(found), true);
        adopt(&[(1, 10), (2, 20), (3, 30)]).unwrap();
        adopt(&[(1, 11), (2, 20)]).unwrap();
        assert!(adopt(&[(2, 20)]).is_err(), "a durable sample is missing");
        assert!(adopt(&[(1, 12), (2, 20)]).is_err(), "invented");
        assert!(adopt(&[(1, 10), (2, 20), (4, 0)]).is_err(), "invented");
    }

    #[test]
    fn the_rest_of_a_damaged_store_must_be_correct() {
        let rows = [entry(1, 10), entry(2, 20), entry(1, 11)];
        let adopt = |found: &[(i64, i64)]| oracle(&rows, 3).adopt_remains(samples(found));
        assert_eq!(adopt(&[(1, 11), (2, 20)]), Ok(0));
        assert_eq!(adopt(&[(1, 10)]), Ok(2));
        assert!(adopt(&[(1, 20)]).is_err());
        let was = |found: &[(i64, i64)]| oracle(&rows, 3).was(&samples(found));
        assert!(was(&[]) && was(&[(1, 10), (2, 20)]) && was(&[(1, 11), (2, 20)]));
        assert!(!was(&[(2, 20)]) && !was(&[(1, 11)]));
    }

    #[test]
    fn after_a_kill_found_rows_are_not_yet_durable() {
        let mut oracle = oracle(&[entry(1, 10), entry(2, 20)], 1);
        oracle
            .adopt_prefix(samples(&[(1, 10), (2, 20)]), false)
            .unwrap();
        oracle.adopt_prefix(samples(&[(1, 10)]), true).unwrap();
        assert!(oracle.adopt_prefix(samples(&[]), true).is_err());
    }
}
