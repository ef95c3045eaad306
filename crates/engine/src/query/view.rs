//! View of a source: its blocks in an interval, and reading of them.

use crate::answer::Bucket;
use crate::block::{self, Block};
use crate::buffer::columns;
use crate::buffer::line::OpenBlock;
use crate::bundle::cache::BundleCache;
use crate::error::Error;
use crate::query::blocks::Blocks;
use crate::query::memory::QueryShare;
use crate::query::rows::Rows;
use crate::query::snapshot::{BlockLocation, Known};
use crate::retention::visibility::VisibilityFilter;
use crate::segment::Entry;
use seiner_bundle::{Layout as BundleLayout, SourceRows};
use seiner_model::{Columns, FieldColumn, FieldType, Interval, SourceId, SourceKey};
use seiner_store::IsOver;
use std::sync::Arc;

/// Blocks of a source, or of a level, in an interval.
pub(crate) struct SourceView {
    pub source: SourceId,
    pub key: Arc<SourceKey>,
    /// Layouts of its blocks.
    pub(super) layouts: Arc<Known>,
    /// True for each wanted column.
    pub wanted: Arc<[bool]>,
    pub interval: Interval,
    /// Hidden parts of the source.
    pub visibility: VisibilityFilter,
    /// Blocks that overlap the interval, oldest first.
    pub blocks: Blocks,
    /// Blocks that are not yet encoded, oldest first. They are younger than all others.
    pub(super) open: Vec<OpenBlock>,
    pub(super) is_over: Option<IsOver>,
    pub bundles: Arc<BundleCache>,
    pub(super) _share: QueryShare,
}

impl SourceView {
    /// Returns whether blocks overlap an interval, or buffers have rows in it.
    pub(super) fn may_have_rows(&self, interval: Interval) -> bool {
        if self
            .blocks
            .iter()
            .any(|entry| interval.overlaps(&entry.span()))
        {
            return true;
        }
        let nothing = vec![false; self.wanted.len()];
        let mut open = self.open_rows(&nothing).into_iter();
        open.any(|rows| rows.times.iter().any(|time| interval.contains(*time)))
    }

    /// Returns the names of all columns.
    pub fn names(&self) -> &[Arc<str>] {
        self.layouts.present.names()
    }

    /// Returns the types of all columns.
    pub fn types(&self) -> &[FieldType] {
        self.layouts.present.types()
    }

    /// Returns the column of a field.
    pub fn column_of(&self, field: &str) -> Option<usize> {
        self.layouts.present.column(field.as_bytes(), 0)
    }

    /// Returns the wanted columns.
    pub fn wanted_columns(&self) -> impl Iterator<Item = usize> + '_ {
        let columns = self.wanted.iter().enumerate();
        columns
            .filter(|(_, wanted)| **wanted)
            .map(|(column, _)| column)
    }

    /// Returns an error if the query was abandoned.
    ///
    /// # Errors
    /// [`Error::Abandoned`].
    pub fn check_abandoned(&self) -> Result<(), Error> {
        match &self.is_over {
            Some(is_over) if is_over() => Err(Error::Abandoned),
            _ => Ok(()),
        }
    }

    /// Returns the rows of a block in the present layout, with the wanted columns.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn read(&self, block: usize, wanted: &[bool]) -> Result<Rows, Error> {
        let (entry, place) = self.blocks.at(block);
        match entry.is_bundled() {
            true => self.read_bundled(&entry, place, wanted),
            false => self.decode(&entry, place, &place.read(&entry)?, wanted),
        }
    }

    /// Returns the rows of a block in a bundle.
    fn read_bundled(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        wanted: &[bool],
    ) -> Result<Rows, Error> {
        let likely = Some(&*self.layouts.present);
        let SourceRows { layout, rows, .. } = self.bundles.rows(entry, place, likely)?;
        let mut fields = vec![None; self.layouts.present.columns()];
        for (column, field) in rows.fields.into_iter().enumerate() {
            let found = self.bundled_column(&layout, column);
            let found = found.map_err(|what| place.damage(entry, what))?;
            if let Some(place_of) = found.filter(|place_of| wanted[*place_of]) {
                fields[place_of] = Some(field);
            }
        }
        let rows = Rows {
            times: rows.times,
            fields,
        };
        Ok(self.lift(entry.number, rows))
    }

    /// Returns the column of the present layout for a column of a bundle.
    ///
    /// # Errors
    /// A description of the damage, if the types differ.
    pub fn bundled_column(
        &self,
        layout: &BundleLayout,
        column: usize,
    ) -> Result<Option<usize>, String> {
        let (name, field_type) = &layout.fields()[column];
        let present = &self.layouts.present;
        let found = present.column(name.as_bytes(), column);
        match found.is_none_or(|found| present.types()[found] == *field_type) {
            true => Ok(found),
            false => Err(format!(
                "its field {name:?} has the type {}",
                field_type.name()
            )),
        }
    }

    /// Returns the rows of a block from its bytes.
    ///
    /// # Errors
    /// [`Error::Damage`].
    pub fn decode(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        bytes: &[u8],
        wanted: &[bool],
    ) -> Result<Rows, Error> {
        let damage = |what| place.damage(entry, what);
        let block = Block::open(bytes).map_err(damage)?;
        if (block.head.source, block.head.number) != (entry.source, entry.number) {
            return Err(damage(format!(
                "it is block {} of source {}",
                block.head.number, block.head.source
            )));
        }
        let (names, types) = self.layout_of(block.head.layout).map_err(damage)?;
        let (times, fields) = block
            .columns(types, |column| {
                self.place_of(names, column, wanted).is_some()
            })
            .map_err(damage)?;
        let rows = self.arrange(names, times, fields, wanted);
        Ok(self.lift(entry.number, rows))
    }

    /// Returns the aggregates that a block stores, of wanted columns by their place in the present layout. `None` for a
    /// column whose values must be decoded.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn summaries(
        &self,
        block: &Block<'_>,
        span: Interval,
    ) -> Result<Vec<(usize, Option<Bucket>)>, String> {
        let (names, types) = self.layout_of(block.head.layout)?;
        let found = block.summaries(types.len(), span)?.into_iter().enumerate();
        let wanted = |column| self.place_of(names, column, &self.wanted);
        Ok(found
            .filter_map(|(column, summary)| Some((wanted(column)?, summary)))
            .collect())
    }

    /// Returns the names and types of the columns of a layout.
    ///
    /// # Errors
    /// A description of the damage, if the layout is unknown.
    pub fn layout_of(&self, number: u32) -> Result<(&[Arc<str>], &[FieldType]), String> {
        let known = self.layouts.get(number);
        known.ok_or_else(|| "its layout is unknown".to_string())
    }

    /// Returns the rows of the blocks that are not yet encoded, oldest first, with the wanted
    /// columns.
    pub fn open_rows(&self, wanted: &[bool]) -> Vec<Rows> {
        let decode = |open: &OpenBlock| {
            let (names, types) = self
                .layouts
                .get(open.layout)
                .expect("buffers have the layouts of their sources");
            let rows = columns::decode(&open.bytes, open.rows, types)
                .expect("this process encoded the buffer");
            let Columns { times, fields } = block::sorted(rows);
            let fields = fields.into_iter().map(Some).collect();
            let rows = self.lift(open.number, self.arrange(names, times, fields, wanted));
            rows.clip(self.interval)
        };
        self.open.iter().map(decode).collect()
    }

    /// Returns an upper estimate of the number of rows.
    pub fn rows_at_most(&self) -> u64 {
        let open: usize = self.open.iter().map(|open| open.rows).sum();
        let blocks = self.blocks.iter().map(|entry| u64::from(entry.rows));
        open as u64 + blocks.sum::<u64>()
    }

    /// Returns the encoded bytes of all blocks.
    pub fn encoded_bytes(&self) -> u64 {
        let blocks = self.blocks.iter().map(|entry| u64::from(entry.len));
        let open: usize = self.open.iter().map(|open| open.bytes.len()).sum();
        open as u64 + blocks.sum::<u64>()
    }

    /// Removes the rows of a block that were deleted. Rows that are too old are outside the
    /// interval anyway.
    fn lift(&self, number: u64, rows: Rows) -> Rows {
        let hidden = |time: &i64| self.visibility.hides_row(number, *time);
        let (Some(&first), Some(&last)) = (rows.times.first(), rows.times.last()) else {
            return rows;
        };
        if !self.visibility.touches(number, &Interval::new(first, last)) {
            return rows;
        }
        let kept: Vec<usize> = (0..rows.times.len())
            .filter(|&row| !hidden(&rows.times[row]))
            .collect();
        rows.pick(&kept)
    }

    /// Returns the column of the present layout for a wanted column of another layout.
    pub fn place_of(&self, names: &[Arc<str>], column: usize, wanted: &[bool]) -> Option<usize> {
        let present = &self.layouts.present;
        let place = present.column(names[column].as_bytes(), column);
        place.filter(|&place| wanted[place])
    }

    fn arrange(
        &self,
        names: &[Arc<str>],
        times: Vec<i64>,
        columns: Vec<Option<FieldColumn>>,
        wanted: &[bool],
    ) -> Rows {
        let mut fields = vec![None; self.types().len()];
        for (column, field) in columns.into_iter().enumerate() {
            if let Some(place) = self.place_of(names, column, wanted) {
                fields[place] = field;
            }
        }
        Rows { times, fields }
    }
}
