//! Segment check: trailer, sparse index, pages, blocks, and the bytes between them.

use super::bundle::{self, BundleEntries};
use super::times::compare_times;
use super::{Check, segment_number};
use crate::answer::Bucket;
use crate::block::{self, Block};
use crate::catalog;
use crate::inspect::FileView;
use crate::inspect::registry::Registry;
use crate::segment::footer::TRAILER_BYTES;
use crate::segment::sealed::Segment;
use crate::segment::{ALIGNMENT, Entry};
use seiner_model::{FieldColumn, FieldType, Interval};

/// Checks a segment.
pub(super) fn check(check: &mut Check<'_>, file: &FileView, store: u64, registry: &Registry) {
    check.report.segments += 1;
    let before = check.done;
    match Segment::on(check.disk, &file.file, store) {
        Ok(segment) => Reading {
            check,
            segment,
            registry,
            name: &file.file,
            lost_layouts: 0,
        }
        .run(segment_number(file)),
        Err(error) => check.error(&file.file, 0, error),
    }
    let rest = (before + file.bytes).saturating_sub(check.done);
    check.advance(rest);
}

struct Reading<'a, 'c> {
    check: &'a mut Check<'c>,
    segment: Segment,
    registry: &'a Registry,
    name: &'a str,
    /// Number of blocks whose columns the catalog does not assign to their sources.
    lost_layouts: u64,
}

impl Reading<'_, '_> {
    fn run(&mut self, number: u64) {
        let trailer = self.segment.trailer.clone();
        if trailer.number != number {
            let at = self.segment.bytes() - TRAILER_BYTES as u64;
            self.damage(
                at,
                format!(
                    "the trailer is that of segment {}, the name is that of segment {number}",
                    trailer.number
                ),
            );
        }
        let (mut entries, whole) = self.pages();
        if whole {
            self.compare_totals(&entries);
        }
        entries.sort_unstable_by_key(|entry| (entry.offset, entry.source));
        let mut at = 0;
        for some in entries.chunk_by(|a, b| a.is_bundled() && a.offset == b.offset) {
            let entry = &some[0];
            let (begin, len) = entry.extent();
            if whole && begin != at && !self.checkpoint(at, begin) {
                let what = format!(
                    "block {} begins here, the one before ends at {at}",
                    entry.number
                );
                self.damage(begin, what);
            }
            at = begin + len;
            match entry.is_bundled() {
                true => self.bundle(some, whole),
                false => self.block(entry),
            }
            self.check.advance(len);
        }
        let end = self.blocks_end();
        // The index of a short checkpoint may end at the same multiple as zeros.
        if !self.checkpoint(at, end) {
            if end == aligned(at) {
                self.zeros(at, end);
            } else if whole && end != at {
                let what = format!("the footer begins here, the last block ends at {at}");
                self.damage(end, what);
            }
        }
        self.zeros(
            trailer.sparse_index_offset + u64::from(trailer.sparse_index_len),
            self.segment.bytes() - TRAILER_BYTES as u64,
        );
        if self.lost_layouts > 0 && self.check.report.is_sound() {
            let what = format!(
                "it does not give sources the columns that {} blocks of {} have",
                self.lost_layouts, self.name
            );
            self.check.damage(catalog::NAME, 0, what);
        }
    }

    fn damage(&mut self, offset: u64, what: String) {
        self.check.damage(self.name, offset, what);
    }

    /// Returns the end of blocks and checkpoints, at which the footer begins.
    fn blocks_end(&self) -> u64 {
        let first = self.segment.sparse_index().first();
        first.map_or(self.segment.trailer.sparse_index_offset, |page| {
            u64::from(page.offset)
        })
    }

    /// Returns whether exactly the index of a checkpoint is between the end of a block and `end`.
    fn checkpoint(&mut self, from: u64, end: u64) -> bool {
        if end <= from || end != aligned(end) {
            return false;
        }
        let Ok((trailer, sparse_index)) = self.segment.checkpoint(end) else {
            return false;
        };
        let first = sparse_index.first();
        let mut at = first.map_or(from, |page| u64::from(page.offset));
        if at != from && at != aligned(from) {
            return false;
        }
        self.zeros(from, at);
        for page in &sparse_index {
            if u64::from(page.offset) != at || self.segment.page(page).is_err() {
                return false;
            }
            at += u64::from(page.len);
        }
        self.zeros(
            trailer.sparse_index_offset + u64::from(trailer.sparse_index_len),
            end - TRAILER_BYTES as u64,
        );
        at == trailer.sparse_index_offset && trailer.previous <= from
    }

    /// Reads all pages. Returns the entries, and whether all pages were readable.
    fn pages(&mut self) -> (Vec<Entry>, bool) {
        let mut entries: Vec<Entry> = Vec::new();
        let mut whole = true;
        let mut at = self.blocks_end();
        for page in self.segment.sparse_index().to_vec() {
            let offset = u64::from(page.offset);
            if offset != at {
                self.damage(
                    offset,
                    format!("a footer page begins here, {at} was expected"),
                );
            }
            at = offset + u64::from(page.len);
            let read = match self.segment.page(&page) {
                Ok(read) => read,
                Err(error) => {
                    self.check.error(self.name, offset, error);
                    whole = false;
                    continue;
                }
            };
            if read
                .first()
                .is_none_or(|entry| entry.source != page.first_source)
            {
                self.damage(
                    offset,
                    format!(
                        "a footer page does not begin with source {}",
                        page.first_source
                    ),
                );
            }
            let key = |entry: &Entry| (entry.source, entry.number);
            if entries
                .last()
                .into_iter()
                .chain(&read)
                .map(key)
                .is_sorted_by(|a, b| a < b)
            {
                self.check.report.pages += 1;
            } else {
                self.damage(
                    offset,
                    "a footer page is not sorted by source and block".to_string(),
                );
            }
            entries.extend(read);
        }
        if at != self.segment.trailer.sparse_index_offset {
            self.damage(
                at,
                format!(
                    "the footer pages end here, the sparse index begins at {}",
                    self.segment.trailer.sparse_index_offset
                ),
            );
        }
        (entries, whole)
    }

    fn compare_totals(&mut self, entries: &[Entry]) {
        let trailer = &self.segment.trailer;
        let sum = |value: fn(&Entry) -> u32| {
            entries
                .iter()
                .map(|entry| u64::from(value(entry)))
                .sum::<u64>()
        };
        let found = [
            entries.len() as u64,
            sum(|entry| entry.rows),
            sum(|entry| entry.len),
        ];
        let stored = [trailer.blocks, trailer.rows, trailer.block_bytes];
        let last = entries.iter().map(|entry| entry.number).max().unwrap_or(0);
        let first_time = entries
            .iter()
            .map(|entry| entry.first)
            .min()
            .unwrap_or(i64::MAX);
        let last_time = entries
            .iter()
            .map(|entry| entry.last)
            .max()
            .unwrap_or(i64::MIN);
        let mut wrong = Vec::new();
        for (what, stored, found) in [
            ("blocks", stored[0], found[0]),
            ("rows", stored[1], found[1]),
            ("bytes of blocks", stored[2], found[2]),
        ] {
            if stored != found {
                wrong.push(format!(
                    "the trailer has {stored} {what}, the footer lists {found}"
                ));
            }
        }
        if last != trailer.last_block {
            wrong.push(format!(
                "the last block is {} in the trailer and {last} in the footer",
                trailer.last_block
            ));
        }
        if Interval::new(first_time, last_time) != trailer.span {
            wrong.push(format!(
                "the times are {:?} in the trailer and {first_time} to {last_time} in the footer",
                trailer.span
            ));
        }
        let at = self.segment.bytes() - TRAILER_BYTES as u64;
        wrong.into_iter().for_each(|what| self.damage(at, what));
    }

    /// Checks that bytes outside all checksums are zero.
    fn zeros(&mut self, from: u64, to: u64) {
        if to <= from {
            return;
        }
        match self.segment.bytes_at(from, to - from) {
            Ok(bytes) => {
                if let Some(at) = bytes.iter().position(|&byte| byte != 0) {
                    self.damage(
                        from + at as u64,
                        format!(
                            "zero was expected between the parts, {:#04x} was found",
                            bytes[at]
                        ),
                    );
                }
            }
            Err(error) => self.check.error(self.name, from, error),
        }
    }

    fn block(&mut self, entry: &Entry) {
        if u64::from(entry.offset) + u64::from(entry.len) > self.blocks_end() {
            let what = format!(
                "block {} of {} bytes reaches into the footer",
                entry.number, entry.len
            );
            return self.damage(u64::from(entry.offset), what);
        }
        let bytes = match self.segment.read(entry) {
            Ok(bytes) => bytes,
            Err(error) => return self.check.error(self.name, u64::from(entry.offset), error),
        };
        match self.decode(entry, &bytes) {
            Ok(samples) => {
                self.check.report.blocks += 1;
                self.check.report.rows += u64::from(entry.rows);
                self.check.report.samples += samples;
            }
            Err(what) => {
                let what = format!("block {} of source {}: {what}", entry.number, entry.source);
                self.damage(u64::from(entry.offset), what);
            }
        }
    }

    /// Checks the blocks of a bundle. `whole` is true if the footer lists all of them.
    fn bundle(&mut self, entries: &[Entry], whole: bool) {
        let (offset, len) = entries[0].extent();
        if offset + len > self.blocks_end() {
            let what = format!("a bundle of {len} bytes reaches into the footer");
            return self.damage(offset, what);
        }
        let bytes = match self.segment.read(&entries[0]) {
            Ok(bytes) => bytes,
            Err(error) => return self.check.error(self.name, offset, error),
        };
        let listed = BundleEntries { entries, whole };
        match bundle::check(&bytes, listed, self.registry) {
            Ok(found) => {
                self.lost_layouts += found.lost_layouts;
                self.check.report.blocks += entries.len() as u64;
                self.check.report.rows += found.rows;
                self.check.report.samples += found.samples;
            }
            Err(what) => self.damage(offset, what),
        }
    }

    /// Decodes a block completely and compares it with its entry in the footer. Returns the number
    /// of its values.
    fn decode(&mut self, entry: &Entry, bytes: &[u8]) -> Result<u64, String> {
        let block = Block::open(bytes)?;
        let head = block.head;
        if (head.source, head.number) != (entry.source, entry.number) {
            return Err(format!(
                "its header is that of block {} of source {}",
                head.number, head.source
            ));
        }
        if block.rows != entry.rows as usize {
            return Err(format!(
                "it has {} rows, the footer lists {}",
                block.rows, entry.rows
            ));
        }
        if entry.source >= self.registry.sources() {
            return Err(format!(
                "its source is unknown; the catalog names {}",
                self.registry.sources()
            ));
        }
        let layout = self
            .registry
            .layout(head.layout)
            .ok_or_else(|| format!("its layout {} is unknown or lost", head.layout))?;
        self.lost_layouts += u64::from(!self.registry.reaches(entry.source, head.layout));
        block.shape(layout.columns())?;
        let (times, fields) = block.columns(layout.types(), |_| true)?;
        compare_times(entry, &times)?;
        let span = Interval::new(entry.first, entry.last);
        let fields: Vec<FieldColumn> = fields.into_iter().flatten().collect();
        for (column, stored) in block
            .summaries(layout.columns(), span)?
            .into_iter()
            .enumerate()
        {
            compare_summary(&times, &fields[column], stored)
                .map_err(|what| format!("field {}: {what}", layout.names()[column]))?;
        }
        Ok(fields.iter().map(|field| field.values.len() as u64).sum())
    }
}

/// Returns the offset of the pages after this many bytes of blocks, in segments of earlier writers: a
/// multiple of [`ALIGNMENT`].
fn aligned(block_bytes: u64) -> u64 {
    block_bytes
        .checked_next_multiple_of(ALIGNMENT as u64)
        .unwrap_or(u64::MAX)
}

fn compare_summary(
    times: &[i64],
    field: &FieldColumn,
    stored: Option<Bucket>,
) -> Result<(), String> {
    let Some(stored) = stored else { return Ok(()) };
    if field.values.field_type() == FieldType::Str {
        return Err("it has aggregates of texts".to_string());
    }
    let found = block::summary_of(times, field).ok_or("it has aggregates of nothing")?;
    // The kind of NaN in a sum, and the sign of a zero, may differ between machines.
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    let pairs = [
        ("sum", stored.sum, found.sum),
        ("minimum", stored.min, found.min),
        ("maximum", stored.max, found.max),
        ("first", stored.first.1, found.first.1),
        ("last", stored.last.1, found.last.1),
    ];
    match pairs
        .iter()
        .find(|(_, stored, found)| !same(*stored, *found))
    {
        Some((what, stored, found)) => Err(format!(
            "its stored {what} is {stored}, but its values give {found}"
        )),
        None => Ok(()),
    }
}
