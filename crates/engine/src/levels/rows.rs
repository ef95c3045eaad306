//! Rows of levels as plain values, and the choice of the rows that count.

use crate::answer::Bucket;
use crate::retention::rollup::step_start;
use seiner_model::Strings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Figures of a field, row by row.
#[derive(Clone, Debug)]
pub(crate) struct LevelField {
    /// Name of the field in the source.
    pub field: Arc<str>,
    /// Buckets, one per row. A bucket and its first and last sample have the time at which the step
    /// begins.
    pub buckets: Vec<Bucket>,
    /// Last text of each row, if the field is a text.
    pub texts: Option<Strings>,
}

/// Rows of a level of one source.
#[derive(Debug)]
pub(crate) struct LevelRows {
    /// Length of a step, ns.
    pub step: u64,
    /// Times of the rows, ascending, each with the minimum number of samples that the row counts.
    pub rows: Vec<(i64, u64)>,
    pub fields: Vec<LevelField>,
}

impl LevelField {
    /// Adds the rows of another level.
    pub fn extend(&mut self, other: &LevelField) {
        self.buckets.extend(&other.buckets);
        if let (Some(texts), Some(others)) = (&mut self.texts, &other.texts) {
            (0..others.len()).for_each(|at| texts.push(others.get(at)));
        }
    }

    /// Treats the figures as those of integers, if none of them can be rounded.
    pub fn take_for_integers(&mut self) {
        for bucket in self.buckets.iter_mut().filter(|one| one.exact.is_none()) {
            *bucket = bucket.of_integers().unwrap_or(*bucket);
        }
    }

    /// Combines rows into longer steps.
    pub fn join(&mut self, step: u64) {
        let mut order: Vec<usize> = (0..self.buckets.len()).collect();
        order.sort_by_key(|&at| self.buckets[at].first.0);
        let mut joined: Vec<Bucket> = Vec::new();
        let mut texts: Vec<&str> = Vec::new();
        for at in order {
            let start = step_start(self.buckets[at].start, step);
            let bucket = Bucket {
                start,
                ..self.buckets[at]
            };
            let text = self.texts.as_ref().map(|texts| texts.get(at));
            match joined.last_mut() {
                Some(last) if last.start == start => {
                    last.absorb(&bucket);
                    texts.pop();
                }
                _ => joined.push(bucket),
            }
            texts.extend(text);
        }
        self.texts = self.texts.is_some().then(|| strings(&texts));
        self.buckets = joined;
    }

    /// Keeps the rows for which `keep` returns true.
    pub fn retain(&mut self, keep: impl Fn(i64) -> bool) {
        if let Some(texts) = &self.texts {
            let rows = self.buckets.iter().enumerate();
            let kept = rows.filter(|(_, bucket)| keep(bucket.start));
            let kept: Vec<&str> = kept.map(|(at, _)| texts.get(at)).collect();
            self.texts = Some(strings(&kept));
        }
        self.buckets.retain(|bucket| keep(bucket.start));
    }
}

pub(super) fn strings(texts: &[&str]) -> Strings {
    let mut strings = Strings::default();
    texts.iter().for_each(|text| strings.push(text));
    strings
}

impl LevelRows {
    /// Exclusive end of the step that contains this row.
    pub fn end_of(&self, time: i64) -> i64 {
        step_start(time, self.step).saturating_add(self.step as i64)
    }

    /// Exclusive end of the step of the last row.
    pub fn end(&self) -> Option<i64> {
        self.rows.last().map(|(time, _)| self.end_of(*time))
    }

    fn retain(&mut self, keep: impl Fn(i64) -> bool) {
        self.rows.retain(|(time, _)| keep(*time));
        for field in &mut self.fields {
            field.retain(&keep);
        }
    }

    pub fn field(&self, name: &str) -> Option<&LevelField> {
        self.fields.iter().find(|field| *field.field == *name)
    }
}

/// Adds the rows of a part of a level. Levels must be added in order of their steps.
pub(super) fn put_part(levels: &mut Vec<LevelRows>, part: LevelRows) {
    match levels.last_mut() {
        Some(last) if last.step == part.step => {
            last.rows.extend(part.rows);
            last.rows.sort_unstable();
            // Of two parts of a row, the part that counts more samples is kept.
            last.rows.reverse();
            last.rows.dedup_by_key(|(time, _)| *time);
            last.rows.reverse();
            last.fields.extend(part.fields);
        }
        _ => levels.push(part),
    }
}

/// Keeps one row per step: the finest level, unless a coarser row counts more samples than finer
/// rows and samples together.
pub(super) fn leave_the_finest(levels: &mut [LevelRows], samples: &[i64]) {
    // Levels without rows are skipped.
    let spans = levels.iter().filter_map(|level| {
        let (first, _) = level.rows.first()?;
        Some((*first, level.end()?))
    });
    let spans: Vec<(i64, i64)> = spans.collect();
    let apart = |pair: &[(i64, i64)]| pair[1].1 <= pair[0].0;
    if samples.is_empty() && spans.windows(2).all(apart) {
        return;
    }
    // Finer rows by time: the number of samples they count, and the index of their level.
    let mut finer: BTreeMap<i64, (u64, Option<usize>)> =
        samples.iter().map(|&time| (time, (1, None))).collect();
    let mut left_out: Vec<BTreeSet<i64>> = vec![BTreeSet::new(); levels.len()];
    for (at, level) in levels.iter().enumerate() {
        for &(time, count) in &level.rows {
            let within = time..level.end_of(time);
            let others: Vec<_> = finer
                .range(within)
                .map(|(&time, &row)| (time, row))
                .collect();
            let counted: u64 = others.iter().map(|(_, (count, _))| count).sum();
            let has_samples = others.iter().any(|(_, (_, level))| level.is_none());
            if !others.is_empty() && (counted >= count || has_samples) {
                left_out[at].insert(time);
                continue;
            }
            for (time, (_, level)) in others {
                finer.remove(&time);
                left_out[level.expect("samples are not left out")].insert(time);
            }
            finer.insert(time, (count, Some(at)));
        }
    }
    for (level, out) in levels.iter_mut().zip(left_out) {
        level.retain(|time| !out.contains(&time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Builds a level from the length of its steps in seconds, and rows with their sample counts.
    fn level(step: u64, rows: &[(i64, u64)]) -> LevelRows {
        LevelRows {
            step: step * SECOND as u64,
            rows: rows
                .iter()
                .map(|&(at, count)| (at * SECOND, count))
                .collect(),
            fields: Vec::new(),
        }
    }

    fn left(mut levels: Vec<LevelRows>) -> Vec<Vec<i64>> {
        leave_the_finest(&mut levels, &[]);
        let times = |level: &LevelRows| level.rows.iter().map(|(at, _)| at / SECOND).collect();
        levels.iter().map(times).collect()
    }

    /// Regression: rows were counted twice because only neighbouring levels were compared.
    #[test]
    fn rows_of_two_levels_are_counted_once_despite_an_empty_level_between() {
        let fine = level(2, &[(108, 1), (110, 3)]);
        let found = left(vec![fine, level(10, &[]), level(20, &[(100, 4)])]);
        assert_eq!(found, [vec![108, 110], vec![], vec![]]);
        // The row of the coarser level stays if the finer rows do not count all samples.
        let fine = level(2, &[(110, 3), (120, 1)]);
        let found = left(vec![fine, level(10, &[]), level(20, &[(100, 4)])]);
        assert_eq!(found, [vec![120], vec![], vec![100]]);
        let found = left(vec![
            level(2, &[(120, 1)]),
            level(10, &[]),
            level(20, &[(100, 4)]),
        ]);
        assert_eq!(found, [vec![120], vec![], vec![100]]);
    }
}
