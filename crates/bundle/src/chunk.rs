//! Decoding of a chunk: the rows of its sources, column by column.

use std::ops::Range;
use std::sync::Arc;

use seiner_codec::DecodeError;
use seiner_codec::reader::Reader;
use seiner_model::{Bitmap, Column, Columns};

use crate::ans::NumberReader;
use crate::buffer::{field_column, slice};
use crate::column_reader::{ChunkField, read_codec, read_numbers, read_states};
use crate::entries::ChunkEntry;
use crate::layout::Layout;
use crate::limits::MAX_TEXT;
use crate::model::{ColumnModel, shared};
use crate::parsed_group::Group;
use crate::times::Before;

/// Rows of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceRows {
    /// Number of the source.
    pub id: u64,
    /// Fields of the rows.
    pub layout: Arc<Layout>,
    /// Times and values. A field without values in this source has an empty column.
    pub rows: Columns,
}

/// Decoded rows of a chunk. The values of all sources lie end to end in each column.
#[derive(Debug)]
pub struct ChunkRows {
    layout: Arc<Layout>,
    ids: Vec<u64>,
    /// Sum of the rows of the sources up to each one.
    row_ends: Vec<usize>,
    /// Index of the first time of each source in `times`.
    time_starts: Vec<usize>,
    /// Times. Sources with equal times share them.
    times: Vec<i64>,
    fields: Vec<ChunkField>,
}

impl ChunkRows {
    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the approximate memory in bytes.
    pub fn memory(&self) -> usize {
        let fields: usize = self.fields.iter().map(ChunkField::memory).sum();
        8 * (3 * self.ids.len() + self.times.len()) + fields
    }

    /// Returns the fields of the rows.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Returns the numbers of the sources, ascending.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Returns the times of the rows of a source, ns since 1970.
    ///
    /// # Panics
    /// If `source` is not below [`ChunkRows::len`].
    pub fn times(&self, source: usize) -> &[i64] {
        let start = self.time_starts[source];
        &self.times[start..start + self.rows(source).len()]
    }

    /// Returns the range of the rows of a source among those of the chunk.
    fn rows(&self, source: usize) -> Range<usize> {
        let start = source.checked_sub(1).map_or(0, |last| self.row_ends[last]);
        start..self.row_ends[source]
    }

    /// Returns the values of a field of all sources, without the missing ones.
    ///
    /// # Panics
    /// If the layout has no such field.
    pub fn values(&self, field: usize) -> &Column {
        &self.fields[field].values
    }

    /// Returns the range of values of a source in [`ChunkRows::values`].
    ///
    /// # Panics
    /// If there is no such field or source.
    pub fn value_range(&self, field: usize, source: usize) -> Range<usize> {
        self.fields[field].range(source)
    }

    /// Returns the rows of a source.
    ///
    /// # Panics
    /// If `source` is not below [`ChunkRows::len`].
    pub fn source(&self, source: usize) -> SourceRows {
        let range = self.rows(source);
        let fields = self.fields.iter().map(|field| {
            let values = slice(&field.values, field.range(source));
            let present = field.present.as_ref().map(|present| {
                let bits = range.clone().map(|row| present.get(row));
                bits.collect::<Bitmap>()
            });
            field_column(values, range.len(), present)
        });
        SourceRows {
            id: self.ids[source],
            layout: self.layout.clone(),
            rows: Columns {
                times: self.times(source).to_vec(),
                fields: fields.collect(),
            },
        }
    }

    /// Returns the rows of the source with this number, if the chunk holds it.
    pub fn find(&self, id: u64) -> Option<SourceRows> {
        let found = self.ids.binary_search(&id).ok();
        found.map(|source| self.source(source))
    }

    /// Iterates over the rows of the sources.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = SourceRows> {
        (0..self.len()).map(|source| self.source(source))
    }
}

/// Decodes a chunk.
pub(crate) fn decode(
    group: &Group,
    entry: &ChunkEntry,
    bytes: &[u8],
) -> Result<ChunkRows, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut numbers = NumberReader::new(&mut reader)?;
    let mut chunk = ChunkRows {
        layout: group.layout.clone(),
        ids: Vec::with_capacity(entry.sources),
        row_ends: Vec::with_capacity(entry.sources),
        time_starts: Vec::with_capacity(entry.sources),
        times: Vec::new(),
        fields: Vec::with_capacity(group.layout.len()),
    };
    read_sources(group, entry, &mut numbers, &mut chunk)
        .ok_or_else(|| reader.invalid("the rows are not those of the directory"))?;
    let mut text_left = MAX_TEXT;
    let fields = group.layout.fields().iter();
    for ((model, tables), (_, field_type)) in
        group.model.columns.iter().zip(&group.columns).zip(fields)
    {
        let field = match model {
            ColumnModel::Codec => read_states(group, tables, &chunk.row_ends, &mut numbers),
            ColumnModel::Numbers { kinds, texts, .. } => read_numbers(
                (group, kinds, texts, tables),
                *field_type,
                &chunk.row_ends,
                &mut numbers,
                &mut text_left,
            ),
        };
        chunk.fields.push(field);
    }
    numbers.finish(&reader)?;
    let fields = group.layout.fields().iter().zip(&mut chunk.fields);
    for (model, ((_, field_type), field)) in group.model.columns.iter().zip(fields) {
        if matches!(model, ColumnModel::Codec) {
            read_codec(&mut reader, *field_type, field, &mut text_left)?;
        }
    }
    if !reader.rest().is_empty() {
        return Err(reader.invalid("bytes follow the last column"));
    }
    Ok(chunk)
}

/// Reads ids, numbers of rows and times; `None` if they differ from the directory.
fn read_sources(
    group: &Group,
    entry: &ChunkEntry,
    numbers: &mut NumberReader<'_>,
    chunk: &mut ChunkRows,
) -> Option<()> {
    let (gap, own, rows) = (
        group.table(shared::GAP),
        group.table(shared::OWN_TIMES),
        group.table(shared::ROWS),
    );
    let (mut id, mut before) = (entry.first_id, Before::default());
    let is_regular = (group.model.times).is_regular(|table| group.table(table).constant());
    let (mut start, mut passed) = (0, 0);
    for source in 0..entry.sources {
        if source > 0 {
            id = id.checked_add(numbers.number(gap))?.checked_add(1)?;
        }
        if source == 0 || numbers.number(own) != 0 {
            let left = (entry.rows - passed) as u64;
            let rows = numbers.number(rows);
            if rows >= left {
                return None;
            }
            let is_valid =
                group
                    .model
                    .times
                    .read(&mut before, rows as usize + 1, is_regular, |table| {
                        numbers.number(group.table(table))
                    });
            if !is_valid {
                numbers.fail();
            }
            start = chunk.times.len();
            let times = before
                .times
                .iter()
                .map(|&time| group.model.times.time(time));
            chunk.times.extend(times);
        }
        let rows = chunk.times.len() - start;
        if rows > entry.rows - passed {
            return None;
        }
        passed += rows;
        chunk.ids.push(id);
        chunk.row_ends.push(passed);
        chunk.time_starts.push(start);
    }
    (passed == entry.rows && id == entry.last_id).then_some(())
}
