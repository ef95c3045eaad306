//! Intake: accepts rows and names from outside, with short holds of the lock.

use crate::buffer::number::Number;
use crate::buffer::run::{Floats, LINES_AHEAD, ROWS_AHEAD};
use crate::core::{Core, ROWS_A_LOCK};
use crate::dictionary::names::{NameHash, Names, hash_name};
use crate::dictionary::put_canonical;
use crate::error::{Error, Reason, Receipt};
use crate::head::Head;
use crate::locks::HeadGuard;
use crate::maps::HashMap;
use crate::recall::{Wanted, search};
use crate::writers::Turn;
use seiner_model::{
    Batch, Cell, Column, Columns, FieldColumn, FieldType, Notation, Row, SourceId, SourceKey, Value,
};
use std::ops::Range;

/// Numbers that stand for a row instead of a source: of a rejected row, and of one whose name is not known yet.
const REJECTED: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;

/// Appends rows in their order. Rows that cannot be accepted are rejected one by one and listed in
/// the receipt. All other rows are accepted.
///
/// # Errors
/// If the store accepts no more rows. Earlier rows of the batch may have been accepted.
pub(crate) fn append(
    core: &Core,
    notation: &dyn Notation,
    batch: &Batch<'_>,
) -> Result<Receipt, Error> {
    let mut receipt = Receipt::default();
    let mut scratch = Scratch::default();
    let mut turn = Turn::begin(core);
    for (start, rows) in (0..)
        .step_by(ROWS_A_LOCK)
        .zip(batch.rows.chunks(ROWS_A_LOCK))
    {
        scratch.hashes.clear();
        scratch.hashes.extend(
            rows.iter()
                .map(|row| hash_name(core.names_seed, notation.id(), row.name)),
        );
        let part = Part {
            notation,
            rows,
            start,
        };
        let mut head = turn.head()?;
        scratch.find(&head);
        head = scratch.add_unknown(core, &mut turn, head, &part, &mut receipt)?;
        let mut values = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if turn.is_long(&head) {
                let rounds = head.rounds();
                head = renew(core, &mut turn, head, &mut receipt)?;
                if head.rounds() != rounds {
                    scratch.find_again(&head, index);
                    head = scratch.add_unknown(core, &mut turn, head, &part, &mut receipt)?;
                }
            }
            scratch.fetch(&head, index);
            let source = scratch.sources[index];
            if source == REJECTED {
                continue;
            }
            let cells = batch.cells_of(row);
            if let Err(reason) = head.append(source, row.time, cells, &mut values, &mut receipt) {
                receipt.reject(start + index, reason);
            }
        }
        note_rows(core, &mut head, &mut receipt);
    }
    receipt.rejected.sort_by_key(|(row, _)| *row);
    Ok(receipt)
}

/// Returns the number of a source, and registers the source if it is new.
pub(crate) fn register(core: &Core, key: &SourceKey) -> Result<SourceId, Error> {
    let found = register_all(core, &[key])?.pop();
    let found = found.expect("there is a number or a reason for each key");
    found.map_err(Error::Rejected)
}

/// Returns the numbers of sources, or the reasons why they are rejected. Registers new sources.
///
/// # Errors
/// If the store accepts no more sources. Earlier sources may have been registered.
pub(crate) fn register_all(
    core: &Core,
    keys: &[&SourceKey],
) -> Result<Vec<Result<SourceId, Reason>>, Error> {
    let mut found = Vec::with_capacity(keys.len());
    let mut names = Vec::new();
    let mut turn = Turn::begin(core);
    for keys in keys.chunks(ROWS_A_LOCK) {
        names.clear();
        let named = keys.iter().map(|key| {
            let start = names.len();
            let hash = put_canonical(core.names_seed, key, &mut names);
            (start..names.len(), hash)
        });
        let named: Vec<(Range<usize>, NameHash)> = named.collect();
        let (mut head, recalled) = recall_keys(core, &mut turn, keys, &named)?;
        let dictionary = head.dictionary().clone();
        let mut dictionary = dictionary
            .write()
            .expect("no panic while the dictionary is locked");
        for (_, hash) in &named {
            head.names().prefetch(*hash);
        }
        // Numbers that the caller uses from now on. New sources have successive numbers.
        let mut used = 0..0;
        for (index, (key, (range, hash))) in keys.iter().zip(named).enumerate() {
            let source = match recalled.get(&index) {
                Some(source) => Ok(*source),
                None => head.register_named(&mut dictionary, key, &names[range], hash),
            };
            if let Ok(source) = source {
                if source != used.end {
                    head.pin(std::mem::replace(&mut used, source..source));
                }
                used.end = source + 1;
            }
            found.push(source.map(SourceId));
        }
        head.pin(used);
    }
    Ok(found)
}

/// Locks the head, and returns the numbers of the keys of dormant sources, by the places of the keys.
fn recall_keys<'a>(
    core: &'a Core,
    turn: &mut Turn<'a>,
    keys: &[&SourceKey],
    named: &[(Range<usize>, NameHash)],
) -> Result<(HeadGuard<'a>, HashMap<usize, u32>), Error> {
    let mut head = turn.head()?;
    loop {
        let mut wanted = Vec::new();
        if head.has_dormant() {
            let places = (0..keys.len()).filter(|&at| head.names().find(named[at].1).is_none());
            wanted.extend(places.map(|at| Wanted::new(at, core.names_seed, keys[at])));
        }
        let is_valid;
        (head, is_valid) = search(core, turn, head, &mut wanted)?;
        if !is_valid {
            continue;
        }
        let found = wanted.iter().filter_map(|wanted| {
            let source = head.names().find(wanted.hash).or(wanted.source)?;
            head.recall(source, wanted.hash, wanted.hash);
            Some((wanted.place, source))
        });
        let found = found.collect();
        return Ok((head, found));
    }
}

/// Appends rows of one source: one column per field, in the order of `fields`.
pub(crate) fn append_columns(
    core: &Core,
    source: SourceId,
    fields: &[&str],
    columns: &Columns,
) -> Result<Receipt, Error> {
    let mut receipt = Receipt::default();
    if columns.fields.len() != fields.len() {
        return Err(Error::Query(format!(
            "{} fields are named for {} columns",
            fields.len(),
            columns.fields.len()
        )));
    }
    if let (
        [field],
        [
            FieldColumn {
                present: None,
                values: Column::F64(values),
            },
        ],
    ) = (fields, &columns.fields[..])
    {
        let sources = vec![source; columns.times.len()];
        return append_samples(core, field, &sources, &columns.times, values);
    }
    // Position of the next value in each column.
    let mut next = vec![0; fields.len()];
    let mut cells = Vec::with_capacity(fields.len());
    let rows = columns.times.len();
    let mut turn = Turn::begin(core);
    for start in (0..rows).step_by(ROWS_A_LOCK) {
        let mut head = turn.head()?;
        if head.is_absent(source.0) {
            return Err(Error::UnknownSource(source.0));
        }
        let mut values = Vec::new();
        for row in start..rows.min(start + ROWS_A_LOCK) {
            if turn.is_long(&head) {
                head = renew(core, &mut turn, head, &mut receipt)?;
                if head.is_absent(source.0) {
                    return Err(Error::UnknownSource(source.0));
                }
            }
            cells.clear();
            for ((field, column), next) in fields.iter().zip(&columns.fields).zip(&mut next) {
                if column
                    .present
                    .as_ref()
                    .is_none_or(|present| present.get(row))
                {
                    cells.push(Cell {
                        field: field.as_bytes(),
                        value: column.values.get(*next),
                    });
                    *next += 1;
                }
            }
            if let Err(reason) = head.append(
                source.0,
                columns.times[row],
                &cells,
                &mut values,
                &mut receipt,
            ) {
                receipt.reject(row, reason);
            }
        }
        note_rows(core, &mut head, &mut receipt);
    }
    Ok(receipt)
}

/// Appends one value to each of many sources. The slices of sources, times and values have equal
/// length.
pub(crate) fn append_samples(
    core: &Core,
    field: &str,
    sources: &[SourceId],
    times: &[i64],
    values: &[f64],
) -> Result<Receipt, Error> {
    let mut receipt = Receipt::default();
    if sources.len() != times.len() || sources.len() != values.len() {
        return Err(Error::Query(format!(
            "{} sources, {} times and {} values are not equally many",
            sources.len(),
            times.len(),
            values.len()
        )));
    }
    let mut turn = Turn::begin(core);
    for start in (0..sources.len()).step_by(ROWS_A_LOCK) {
        let range = start..sources.len().min(start + ROWS_A_LOCK);
        let floats = Floats {
            sources: &sources[range.clone()],
            times: &times[range.clone()],
            values: &values[range],
        };
        let mut head = turn.head()?;
        let known = head.sources();
        let highest = floats
            .sources
            .iter()
            .fold(0, |all, source| all.max(source.0));
        if highest >= known {
            return Err(Error::UnknownSource(highest));
        }
        let numbers = floats.sources.iter().map(|source| source.0);
        if let Some(absent) = head.members().find_absent(numbers) {
            return Err(Error::UnknownSource(absent));
        }
        // If some rows may be too old, rows are examined one by one.
        let late_before = head.late_before();
        let in_time = floats.times.iter().all(|&time| time >= late_before);
        let mut arranged = Vec::new();
        let mut only = u32::MAX;
        let mut index = 0;
        loop {
            let usual = head.put_floats(only, floats.from(index));
            receipt.rows += usual;
            receipt.samples += usual;
            index += usual;
            let Some(&SourceId(source)) = floats.sources.get(index) else {
                break;
            };
            let (time, value) = (floats.times[index], floats.values[index]);
            index += 1;
            // A layout whose only field was this field is unchanged.
            if head.layout_of(source) == only {
                head.put_number(source, time, Number::F64(value));
                receipt.rows += 1;
                receipt.samples += 1;
                continue;
            }
            let cell = [Cell {
                field: field.as_bytes(),
                value: Value::F64(value),
            }];
            match head.append(source, time, &cell, &mut arranged, &mut receipt) {
                Ok(()) if in_time => {
                    only = head
                        .only_layout(source, field, FieldType::F64)
                        .unwrap_or(only)
                }
                Ok(()) => {}
                Err(reason) => receipt.reject(start + index - 1, reason),
            }
        }
        note_rows(core, &mut head, &mut receipt);
    }
    Ok(receipt)
}

/// Unlocks the head and locks it again. Waits if the store needs time or space for more rows.
fn renew<'a>(
    core: &Core,
    turn: &mut Turn<'a>,
    mut head: HeadGuard<'a>,
    receipt: &mut Receipt,
) -> Result<HeadGuard<'a>, Error> {
    note_rows(core, &mut head, receipt);
    drop(head);
    turn.head()
}

/// Updates the counters and the receipt after rows were appended.
fn note_rows(core: &Core, head: &mut Head, receipt: &mut Receipt) {
    let (rows, samples, rejected) = receipt.take_counts();
    let counters = &mut head.counters;
    counters.rows += rows;
    counters.samples += samples;
    counters.rejected += rejected;
    receipt.position = head.position();
    if head.staging.since == 0 && !head.staging.is_empty() {
        head.staging.since = core.clock.monotonic().max(1);
    }
    head.staging.samples += samples;
}

/// Rows of a batch, which are appended under one lock.
struct Part<'b> {
    notation: &'b dyn Notation,
    rows: &'b [Row<'b>],
    /// Place of the first row in the batch.
    start: usize,
}

/// Temporary memory of a batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<NameHash>,
    sources: Vec<u32>,
    /// Number of the name after the previous one.
    next: u32,
    /// Rows with unknown names.
    unknown: Vec<usize>,
    /// Number of rows that were appended before their sources were searched for.
    done: usize,
}

impl Scratch {
    /// Finds the sources of the rows by their names.
    fn find(&mut self, head: &Head) {
        self.done = 0;
        self.sources.clear();
        self.unknown.clear();
        let names = head.names();
        for (index, &hash) in self.hashes.iter().enumerate() {
            // Clients send their series in the same order again and again.
            let number = match names.is_at(self.next, hash) {
                true => Some(self.next),
                false => self.search(names, index),
            };
            let source = match number {
                Some(number) => {
                    self.next = number + 1;
                    names.source(number)
                }
                None => {
                    self.unknown.push(index);
                    UNKNOWN
                }
            };
            self.sources.push(source);
        }
    }

    /// Finds the sources of the rows from `first` on anew, because names were removed in between.
    #[cold]
    fn find_again(&mut self, head: &Head, first: usize) {
        self.next = 0;
        self.done = first;
        self.unknown.clear();
        for index in first..self.sources.len() {
            if self.sources[index] != REJECTED {
                let found = head.names().find(self.hashes[index]);
                self.sources[index] = found.unwrap_or(UNKNOWN);
                if found.is_none() {
                    self.unknown.push(index);
                }
            }
        }
    }

    /// Finds the sources of unknown names in names files, and registers the others. The head is unlocked while files are
    /// read.
    #[inline]
    fn add_unknown<'a>(
        &mut self,
        core: &'a Core,
        turn: &mut Turn<'a>,
        mut head: HeadGuard<'a>,
        part: &Part<'_>,
        receipt: &mut Receipt,
    ) -> Result<HeadGuard<'a>, Error> {
        if !self.unknown.is_empty() && head.has_dormant() {
            head = self.recall(core, turn, head, part)?;
        }
        if !self.unknown.is_empty() {
            self.register(&mut head, part, receipt);
        }
        Ok(head)
    }

    /// Finds the sources of unknown names in names files. What is unknown afterwards is new or malformed.
    #[cold]
    fn recall<'a>(
        &mut self,
        core: &'a Core,
        turn: &mut Turn<'a>,
        mut head: HeadGuard<'a>,
        part: &Part<'_>,
    ) -> Result<HeadGuard<'a>, Error> {
        let mut is_valid = false;
        while !is_valid && !self.unknown.is_empty() {
            let mut wanted = self.wanted(&head, core.names_seed, part);
            (head, is_valid) = search(core, turn, head, &mut wanted)?;
            match is_valid {
                true => self.take(&mut head, wanted),
                false => self.find_again(&head, self.done),
            }
        }
        Ok(head)
    }

    /// Returns the canonical names of the rows with unknown names that are not malformed.
    fn wanted(&self, head: &Head, seed: u64, part: &Part<'_>) -> Vec<Wanted> {
        let names = self.unknown.iter().filter_map(|&row| {
            let key = part.notation.source_key(part.rows[row].name).ok()?;
            let mut wanted = Wanted::new(row, seed, &key);
            // The canonical name may be in memory.
            wanted.source = head.names().find(wanted.hash);
            Some(wanted)
        });
        names.collect()
    }

    /// Takes the sources that were found in names files.
    fn take(&mut self, head: &mut Head, wanted: Vec<Wanted>) {
        for wanted in wanted {
            let row = wanted.place;
            if let Some(source) = head.names().find(wanted.hash).or(wanted.source) {
                head.recall(source, wanted.hash, self.hashes[row]);
                self.sources[row] = source;
            }
        }
        let sources = &self.sources;
        self.unknown.retain(|&row| sources[row] == UNKNOWN);
    }

    /// Returns the number of the name of a row that does not follow the previous row's. The names of
    /// later rows are likely to be searched for as well, and are prefetched.
    fn search(&self, names: &Names, index: usize) -> Option<u32> {
        if let Some(&ahead) = self.hashes.get(index + LINES_AHEAD) {
            names.prefetch(ahead);
        }
        if let Some(&ahead) = self.hashes.get(index + LINES_AHEAD / 2) {
            names.prefetch_entry(ahead);
        }
        names.number(self.hashes[index])
    }

    /// Registers unknown names, in the order of their rows.
    #[cold]
    fn register(&mut self, head: &mut Head, part: &Part<'_>, receipt: &mut Receipt) {
        let Part {
            notation,
            rows,
            start,
        } = *part;
        let dictionary = head.dictionary().clone();
        let mut dictionary = dictionary
            .write()
            .expect("no panic while the dictionary is locked");
        for &index in &self.unknown {
            let hash = self.hashes[index];
            // An earlier row may have registered the name.
            let source = head.names().find(hash).map_or_else(
                || head.register_name(&mut dictionary, notation, rows[index].name, hash),
                Ok,
            );
            match source {
                Ok(source) => self.sources[index] = source,
                Err(reason) => {
                    self.sources[index] = REJECTED;
                    receipt.reject(start + index, reason);
                }
            }
        }
    }

    /// Prefetches the data that later rows need.
    #[inline]
    fn fetch(&self, head: &Head, index: usize) {
        if let Some(&ahead) = self.sources.get(index + LINES_AHEAD)
            && ahead != REJECTED
        {
            head.prefetch_line(ahead);
        }
        if let Some(&ahead) = self.sources.get(index + ROWS_AHEAD)
            && ahead != REJECTED
        {
            head.prefetch_rows(ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use crate::options::Options;
    use seiner_model::Strings;

    #[test]
    fn sources_get_the_numbers_of_their_keys() {
        let world = World::new(options());
        let value = |number: u32| format!("{},=\\", number % 2_500);
        let key = |number| SourceKey::new("m", [("a", value(number)), ("b", "c".to_string())]);
        let keys: Vec<SourceKey> = (0..3_000).map(|number| key(number).unwrap()).collect();
        let found = register_all(&world.core, &keys.iter().collect::<Vec<_>>()).unwrap();
        let numbers: Vec<u32> = found.into_iter().map(|source| source.unwrap().0).collect();
        assert!(
            numbers
                .into_iter()
                .eq((0..3_000).map(|number| number % 2_500))
        );
        assert_eq!(
            register(&world.core, &keys[2_400]).unwrap(),
            SourceId(2_400)
        );
    }

    /// Regression: up to 1,024 rows of any length were accepted between two checks of the budget.
    #[test]
    fn long_rows_do_not_exceed_the_budget() {
        let world = World::new(Options {
            disk: Some(4 << 20),
            block_bytes: 64 << 10,
            segment_bytes: 128 << 10,
            ..options()
        });
        let key = SourceKey::new("m", [("a", "b")]).unwrap();
        let source = register(&world.core, &key).unwrap();
        let mut state = 1u64;
        let mut texts = Strings::default();
        for _ in 0..1000 {
            let text: String = (0..8192)
                .map(|_| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    char::from(b' ' + (state >> 58) as u8)
                })
                .collect();
            texts.push(&text);
        }
        let columns = Columns {
            times: (0..1000).collect(),
            fields: vec![FieldColumn {
                present: None,
                values: Column::Str(texts),
            }],
        };
        let result = append_columns(&world.core, source, &["v"], &columns);
        assert!(matches!(result, Err(Error::Full { .. })), "{result:?}");
        let (head, log) = world.core.both();
        let load = head.load();
        let used = log.used(&load) + crate::space::rows_reserve(&load);
        assert!(used <= log.budget(), "{used} bytes");
    }
}
