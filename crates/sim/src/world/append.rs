//! Appends of rows to the engine and to the oracle, through all three interfaces.

use super::{Done, World};
use crate::datum::Datum;
use crate::generator::{Entry, Generator, batch};
use crate::names::Lines;
use seiner_engine::{Reason, Receipt};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, SourceId};
use seiner_platform::Clock;
use std::collections::{BTreeMap, HashSet};

impl World {
    /// Appends a batch of rows of several sources. Some of the rows must be rejected.
    pub(super) fn append_batch(&mut self) -> Done {
        self.generator.set_now(self.clock.now());
        let rows = self.rng.between(1, self.plan.batch_rows);
        let known = self.plan.with_defects.then(|| self.oracle.live());
        let entries = self.generator.entries(&mut self.rng, rows, known);
        self.event(format!("append {rows} rows"));
        let result = self.engine().append(&Lines, &batch(&entries));
        self.appended("append", entries, result)
    }

    /// Appends many rows of one source as columns.
    pub(super) fn append_columns(&mut self) -> Done {
        self.generator.set_now(self.clock.now());
        let source = self.rng.below(self.generator.sources.len() as u64) as u32;
        let mut rows = self.rng.between(1, self.plan.batch_rows * 2);
        if self.plan.expiring || self.plan.rolls_up {
            // All rows may be too old, and the receipt must list them all.
            rows = rows.min(Receipt::MAX_REJECTED as u64);
        }
        let entries: Vec<Entry> = (0..rows)
            .map(|_| self.generator.entry(&mut self.rng, source))
            .collect();
        let Some(id) = self.source_id(source)? else {
            return Ok(());
        };
        let (fields, columns) = columns(&entries);
        let names: Vec<&str> = fields
            .iter()
            .map(|&field| Generator::field_name(field))
            .collect();
        self.event(format!("append {rows} rows of source {source} as columns"));
        let result = self.engine().append_columns(id, &names, &columns);
        self.appended("append_columns", entries, result)
    }

    /// Appends samples of one field of many sources.
    pub(super) fn append_samples(&mut self) -> Done {
        self.generator.set_now(self.clock.now());
        let Some((field, sources)) = self.generator.float_field(&mut self.rng) else {
            return Ok(());
        };
        let rows = self.rng.between(1, self.plan.batch_rows);
        let mut entries = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..rows {
            let source = *self.rng.pick(&sources);
            let Some(id) = self.source_id(source)? else {
                return Ok(());
            };
            let mut entry = self.generator.entry(&mut self.rng, source);
            let value = match self.plan.expiring || self.plan.rolls_up {
                true => entry.cells[0].1.number(),
                false => self.rng.below(100_000) as f64 / 100.0,
            };
            entry.cells = vec![(field, Datum::F64(value.to_bits()))];
            entries.push((entry, value));
            ids.push(id);
        }
        let times: Vec<i64> = entries.iter().map(|(entry, _)| entry.time).collect();
        let values: Vec<f64> = entries.iter().map(|(_, value)| *value).collect();
        self.event(format!("append {rows} samples"));
        let result =
            self.engine()
                .append_samples(Generator::field_name(field), &ids, &times, &values);
        self.appended(
            "append_samples",
            entries.into_iter().map(|(entry, _)| entry).collect(),
            result,
        )
    }

    /// Returns the number of a source, and registers the source if necessary. Returns `None` if
    /// that failed and the program was restarted.
    fn source_id(&mut self, source: u32) -> Result<Option<SourceId>, super::Violation> {
        if let Some(&id) = self.ids.get(&source) {
            return Ok(Some(id));
        }
        let result = self
            .engine()
            .register(&self.generator.sources[source as usize].key);
        if let Err(seiner_engine::Error::Rejected(reason)) = &result {
            let text = format!("source {source} is rejected: {reason}");
            return self.violation(text);
        }
        let id = self.done("register", result)?;
        if let Some(id) = id {
            self.ids.insert(source, id);
        }
        Ok(id)
    }

    /// Compares the receipt with the expected result, and updates the oracle.
    fn appended(
        &mut self,
        what: &str,
        entries: Vec<Entry>,
        result: Result<Receipt, seiner_engine::Error>,
    ) -> Done {
        let good = entries.iter().filter(|entry| entry.defect.is_none());
        let receipt = match result {
            Ok(receipt) => receipt,
            // A full store rejects such a small batch before its first row.
            Err(error @ seiner_engine::Error::Full { .. }) => return self.is_full(what, error),
            Err(error) => {
                // If a batch fails, some of its rows may have been accepted, but none after them: the store stops
                // at the first rejected row.
                good.for_each(|entry| self.oracle.accept(entry));
                return self.failed(what, error);
            }
        };
        let of_age = |(_, reason): &&(usize, Reason)| {
            matches!(reason, Reason::TooOld { .. } | Reason::RolledUp)
        };
        let too_old: HashSet<usize> = receipt
            .rejected
            .iter()
            .filter(of_age)
            .map(|(at, _)| *at)
            .collect();
        let early = |at: &&usize| !self.oracle.may_be_too_old(&entries[**at]);
        if let Some(&at) = too_old.iter().find(early) {
            let time = entries[at].time;
            return self.violation(format!("{what}: row {at} of {time} is not too old"));
        }
        let is_rejected =
            |(at, entry): &(usize, &Entry)| entry.defect.is_some() || too_old.contains(at);
        let rejected: Vec<usize> = (entries.iter().enumerate().filter(is_rejected))
            .map(|(at, _)| at)
            .collect();
        let (mut rows, mut samples) = (0, 0);
        for (_, entry) in entries.iter().enumerate().filter(|row| !is_rejected(row)) {
            self.oracle.accept(entry);
            rows += 1;
            samples += entry.cells.len();
        }
        self.report.too_old += too_old.len() as u64;
        self.report.rows += rows as u64;
        self.positions
            .push((receipt.position, self.oracle.accepted()));
        let mut listed: Vec<usize> = receipt.rejected.iter().map(|(index, _)| *index).collect();
        listed.sort_unstable();
        let right = (receipt.rows, receipt.samples, receipt.rejected_total)
            == (rows, samples, rejected.len());
        if !right || listed != rejected[..rejected.len().min(Receipt::MAX_REJECTED)] {
            let flaws: Vec<_> = rejected
                .iter()
                .map(|&index| (index, entries[index].defect))
                .collect();
            return self.violation(format!(
                "{what}: {receipt:?}, expected {rows} rows, {samples} samples, rejected {flaws:?}"
            ));
        }
        Ok(())
    }
}

/// Returns the rows as columns, with the fields of the columns.
fn columns(entries: &[Entry]) -> (Vec<u32>, Columns) {
    let mut present: BTreeMap<u32, (Bitmap, Column)> = BTreeMap::new();
    for (row, entry) in entries.iter().enumerate() {
        for (field, datum) in &entry.cells {
            let (bits, values) = present
                .entry(*field)
                .or_insert_with(|| (Bitmap::new(), Column::new(datum.field_type())));
            while bits.len() < row {
                bits.push(false);
            }
            bits.push(true);
            values.push(datum.value());
        }
    }
    let mut columns = Columns {
        times: entries.iter().map(|entry| entry.time).collect(),
        fields: Vec::new(),
    };
    let mut fields = Vec::new();
    for (field, (mut bits, values)) in present {
        while bits.len() < entries.len() {
            bits.push(false);
        }
        let all = bits.count_ones() == bits.len();
        fields.push(field);
        columns.fields.push(FieldColumn {
            present: (!all).then_some(bits),
            values,
        });
    }
    (fields, columns)
}
