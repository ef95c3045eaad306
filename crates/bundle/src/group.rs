//! Encoding of a group: the model of its rows, its tables, and its chunks.

use std::ops::Range;

use seiner_codec::{Effort, encode_column};

use crate::ans::{NumberWriter, Scratch, Steps};
use crate::buffer::{FieldBuffer, GroupBuffer, slice};
use crate::choose_times::{OwnTimes, choose, common_unit};
use crate::column::{ColumnPlan, PlanCursor};
use crate::entries::ChunkEntry;
use crate::histogram::Histogram;
use crate::kinds::Integers;
use crate::model::{ColumnModel, ColumnTables, GroupModel, TimeModel, shared};
use crate::sink::NumberSink;
use crate::states::{Cursor, States};
use crate::table::Table;
use crate::times::Before;

/// Bits per value up to which the codec's form of a column is not tried.
const ROOMY_BITS: f32 = 12.0;
/// Times of a source from which on they are compared as a slice.
const MANY_TIMES: usize = 32;
/// Chunks of the sample by which the codec's form is tried.
const SAMPLE_CHUNKS: usize = 3;

/// Encoded group, without its chunks.
pub(crate) struct EncodedGroup {
    pub(crate) model: GroupModel,
    pub(crate) tables: Vec<Table>,
    pub(crate) chunks: Vec<ChunkEntry>,
}

/// Form of a column.
enum ColumnForm {
    Numbers(Box<ColumnPlan>),
    Codec(States),
}

/// Plan of a group.
struct GroupPlan<'a> {
    group: &'a GroupBuffer,
    chunks: &'a [Range<usize>],
    own: OwnTimes,
    /// True if each source has times of its own.
    is_own: Vec<bool>,
    columns: Vec<ColumnForm>,
}

/// Encodes a group and appends its chunks to `data`.
pub(crate) fn encode(
    group: &GroupBuffer,
    chunks: &[Range<usize>],
    scratch: &mut Scratch,
    data: &mut Vec<u8>,
) -> EncodedGroup {
    let (is_own, own, times) = plan_times(group, chunks);
    let columns = group
        .fields
        .iter()
        .map(|field| plan_column(group, field, chunks));
    let plan = GroupPlan {
        columns: columns.collect(),
        group,
        chunks,
        own,
        is_own,
    };
    let columns = plan.columns.iter().map(|form| match form {
        ColumnForm::Numbers(column) => column.model(),
        ColumnForm::Codec(_) => ColumnModel::Codec,
    });
    let model = GroupModel {
        times,
        columns: columns.collect(),
    };
    let (columns, count) = model.tables();
    let tables = plan.count(&model, &columns, count);
    let steps = Steps::new(&tables);
    let chunks = plan.write(&model, &columns, &steps, scratch, data);
    EncodedGroup {
        model,
        tables,
        chunks,
    }
}

/// Returns the sources with times of their own, these times, and their model.
fn plan_times(group: &GroupBuffer, chunks: &[Range<usize>]) -> (Vec<bool>, OwnTimes, TimeModel) {
    let mut is_own = Vec::with_capacity(group.ids.len());
    for chunk in chunks {
        for source in chunk.clone() {
            is_own.push(source == chunk.start || !has_same_times(group, source));
        }
    }
    let owners = || (0..group.ids.len()).filter(|&source| is_own[source]);
    let mut times = Vec::new();
    for source in owners() {
        times.extend_from_slice(&group.times[group.rows(source)]);
    }
    let base = times.iter().copied().min().unwrap_or(0);
    let unit = common_unit(&times, base);
    let model = TimeModel {
        unit,
        base,
        ..TimeModel::default()
    };
    let mut own = OwnTimes {
        ends: Vec::new(),
        chunks: Vec::new(),
        times: times.iter().map(|&time| model.reduced(time)).collect(),
    };
    let (mut chunk, mut end) = (0, 0);
    for source in owners() {
        while chunks[chunk].end <= source {
            chunk += 1;
        }
        end += group.rows(source).len();
        own.ends.push(end);
        own.chunks.push(chunk);
    }
    let model = choose(&own, base, unit);
    (is_own, own, model)
}

/// Returns whether a source has the times of the source before.
fn has_same_times(group: &GroupBuffer, source: usize) -> bool {
    let (rows, before) = (group.rows(source), group.rows(source - 1));
    let (times, before) = (&group.times[rows], &group.times[before]);
    // Comparing slices calls a function, which takes longer than the comparison of few times.
    match times.len() {
        ..MANY_TIMES => {
            times.len() == before.len()
                && times
                    .iter()
                    .zip(before)
                    .all(|(time, before)| time == before)
        }
        _ => times == before,
    }
}

fn plan_column(group: &GroupBuffer, field: &FieldBuffer, chunks: &[Range<usize>]) -> ColumnForm {
    let rows = || (0..group.ids.len()).map(|source| group.rows(source).len());
    let plan = Integers::new(field, rows()).map(|integers| ColumnPlan::new(integers, chunks));
    let bits = plan.as_ref().map_or(f32::INFINITY, ColumnPlan::bits);
    if bits > ROOMY_BITS * field.values.len() as f32 {
        let share = sampled_bits(field, chunks);
        if share < bits || plan.is_none() {
            return ColumnForm::Codec(States::of(field, rows()));
        }
    }
    match plan {
        Some(plan) => ColumnForm::Numbers(Box::new(plan)),
        None => ColumnForm::Codec(States::of(field, rows())),
    }
}

/// Returns the bits of a column in the codec's form, estimated by some chunks.
fn sampled_bits(field: &FieldBuffer, chunks: &[Range<usize>]) -> f32 {
    let stride = chunks.len().div_ceil(SAMPLE_CHUNKS).max(1);
    let (mut bytes, mut values, mut start) = (Vec::new(), 0, 0);
    for (index, chunk) in chunks.iter().enumerate() {
        let count: usize = field.counts[chunk.clone()]
            .iter()
            .map(|&count| count as usize)
            .sum();
        if index % stride == 0 {
            encode_column(
                &slice(&field.values, start..start + count),
                Effort::Fast,
                &mut bytes,
            );
            values += count;
        }
        start += count;
    }
    bytes.len() as f32 * 8.0 / values.max(1) as f32 * field.values.len() as f32
}

impl GroupPlan<'_> {
    /// Counts all numbers and returns their tables.
    fn count(&self, model: &GroupModel, columns: &[ColumnTables], count: usize) -> Vec<Table> {
        let mut histograms = vec![Histogram::default(); count];
        let mut before = Before::default();
        let mut next_own = 0;
        for chunk in self.chunks {
            let sink = &mut histograms[..];
            self.visit_sources(model, chunk, &mut before, &mut next_own, sink);
        }
        for (form, tables) in self.columns.iter().zip(columns) {
            let mut cursor = PlanCursor::default();
            let mut states = Cursor::default();
            for chunk in self.chunks {
                cursor.start_chunk();
                states.start_chunk();
                for source in chunk.clone() {
                    let rows = self.group.rows(source).len();
                    let mut put = |table: usize, number| histograms[table].add(number);
                    match form {
                        ColumnForm::Numbers(plan) => {
                            plan.visit(&mut cursor, tables, (source, rows), put);
                        }
                        ColumnForm::Codec(all) => {
                            put(tables.state, u64::from(all.sources[source]));
                            all.visit(&mut states, source, rows, put);
                        }
                    }
                }
            }
            if let ColumnForm::Numbers(plan) = form {
                plan.count(tables, &mut histograms);
            }
        }
        histograms.iter().map(Table::new).collect()
    }

    /// Passes the numbers of ids, rows and times of a chunk to `sink`, with their tables.
    fn visit_sources(
        &self,
        model: &GroupModel,
        chunk: &Range<usize>,
        before: &mut Before,
        next_own: &mut usize,
        sink: &mut (impl NumberSink + ?Sized),
    ) {
        before.clear();
        let ids = &self.group.ids;
        for source in chunk.clone() {
            if source > chunk.start {
                sink.put(shared::GAP, ids[source] - ids[source - 1] - 1);
                sink.put(shared::OWN_TIMES, u64::from(self.is_own[source]));
            }
            if self.is_own[source] {
                let times = self.own.of(*next_own);
                *next_own += 1;
                sink.put(shared::ROWS, times.len() as u64 - 1);
                model.times.visit(before, times, sink);
            }
        }
    }

    /// Appends all chunks.
    fn write(
        &self,
        model: &GroupModel,
        columns: &[ColumnTables],
        steps: &Steps,
        scratch: &mut Scratch,
        data: &mut Vec<u8>,
    ) -> Vec<ChunkEntry> {
        let mut entries = Vec::with_capacity(self.chunks.len());
        let mut place = Place {
            before: Before::default(),
            next_own: 0,
            columns: self
                .columns
                .iter()
                .map(|_| ColumnPlace::default())
                .collect(),
        };
        for chunk in self.chunks {
            let start = data.len();
            scratch.encode(steps, data, |writer| {
                self.write_numbers(model, columns, chunk, &mut place, writer);
            });
            for ((form, field), place) in self
                .columns
                .iter()
                .zip(&self.group.fields)
                .zip(&mut place.columns)
            {
                let counts = &field.counts[chunk.clone()];
                let count: usize = counts.iter().map(|&count| count as usize).sum();
                if matches!(form, ColumnForm::Codec(_)) {
                    let values = slice(&field.values, place.value..place.value + count);
                    encode_column(&values, Effort::Fast, data);
                }
                place.value += count;
            }
            entries.push(self.entry(chunk, &data[start..]));
        }
        entries
    }

    fn write_numbers(
        &self,
        model: &GroupModel,
        columns: &[ColumnTables],
        chunk: &Range<usize>,
        place: &mut Place,
        writer: &mut NumberWriter<'_>,
    ) {
        let Place {
            before, next_own, ..
        } = place;
        self.visit_sources(model, chunk, before, next_own, writer);
        for ((form, tables), place) in self.columns.iter().zip(columns).zip(&mut place.columns) {
            place.cursor.start_chunk();
            place.states.start_chunk();
            for source in chunk.clone() {
                let rows = self.group.rows(source).len();
                let mut put = |table: usize, number| writer.put(table, number);
                match form {
                    ColumnForm::Numbers(plan) => {
                        plan.visit(&mut place.cursor, tables, (source, rows), put);
                        plan.write(tables, source, writer);
                    }
                    ColumnForm::Codec(all) => {
                        put(tables.state, u64::from(all.sources[source]));
                        all.visit(&mut place.states, source, rows, put);
                    }
                }
            }
        }
    }

    /// Returns the entry of a chunk in the directory.
    fn entry(&self, chunk: &Range<usize>, bytes: &[u8]) -> ChunkEntry {
        let rows = self.group.rows(chunk.start).start..self.group.row_ends[chunk.end - 1];
        let fields = self.group.fields.iter();
        let samples = fields.map(|field| {
            let counts = field.counts[chunk.clone()].iter();
            counts.map(|&count| u64::from(count)).sum::<u64>()
        });
        let times = &self.group.times[rows.clone()];
        ChunkEntry {
            first_id: self.group.ids[chunk.start],
            last_id: self.group.ids[chunk.end - 1],
            sources: chunk.len(),
            rows: rows.len(),
            samples: samples.sum(),
            length: bytes.len(),
            checksum: seiner_codec::checksum(bytes),
            start: times.iter().copied().min().unwrap_or(0),
            end: times.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Place of the writer in a group.
struct Place {
    before: Before,
    next_own: usize,
    columns: Vec<ColumnPlace>,
}

/// Place of the writer in a column.
#[derive(Default)]
struct ColumnPlace {
    cursor: PlanCursor,
    states: Cursor,
    value: usize,
}
