//! Replay of the journal: rows of blocks that no segment contains are buffered again, as before.

mod files_found;
mod records;

use crate::buffer::small::neighbours::Neighbours;
use crate::catalog::{self, LOST, lose_sources};
use crate::error::Error;
use crate::journal::files;
use crate::journal::pins::Pins;
use crate::journal::reader::JournalFileState;
use crate::ledger::{JournalFile, Ledger};
use crate::maps::HashMap;
use crate::opened::Parts;
use crate::recover::losses::unknown_loss;
use crate::recover::missing::Missing;
use crate::retention::counts::Counts;
use crate::sealer;
use crate::sealing::encode::Encoder;
use crate::segment::Entry;
use crate::segment::open::Resumed;
use crate::status::{Loss, Recovery};
use crate::volume::Volume;
use roaring::RoaringTreemap;
use seiner_platform::Disk;
use std::collections::BTreeMap;

/// State of a replay.
pub(super) struct Replay<'a> {
    disk: &'a dyn Disk,
    volume: &'a dyn Volume,
    store: u64,
    pub(super) parts: Parts,
    pub(super) encoder: Encoder,
    pub(super) recovery: Recovery,
    pub(super) spares: Vec<String>,
    pub(super) damaged: Vec<u32>,
    /// Sequence of the next record.
    pub(super) sequence: u64,
    /// Numbers of blocks in sealed segments.
    sealed_blocks: RoaringTreemap,
    /// First and last number of each coalesced block, by source.
    coalesced: HashMap<u32, Vec<(u64, u64)>>,
    /// Layouts of the sources in the catalog.
    linked: Vec<u32>,
    /// True for sources whose rows are buffered. Rows of other sources wait for their next block.
    follows: Vec<bool>,
    /// Rows on disk plus one, for sources whose blocks were replayed. 0 for other sources.
    recounted: Counts,
    /// Segments that were being written. They are continued when all their sources are known.
    resumed: Vec<Resumed>,
    /// Files that the ledger lists. The next field has the lowest number that may be needed.
    listed: BTreeMap<u32, JournalFile>,
    lowest: u32,
    missing: Missing,
    /// Rows of the current file that depend on missing records.
    unreadable: u64,
    /// Rows in all records of the store so far.
    pub(super) rows: u64,
    /// Number of rows with a lost layout, for sources whose open block has one.
    without_layout: HashMap<u32, u64>,
    neighbours: Neighbours,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        volume: &'a dyn Volume,
        store: u64,
        parts: Parts,
        recovery: Recovery,
        resumed: Vec<Resumed>,
        ledger: &Ledger,
    ) -> Replay<'a> {
        let listed = ledger.contents().journal.clone();
        let lowest = ledger.contents().lowest;
        let sources = 0..parts.head.sources();
        let linked = sources.map(|source| parts.head.layout_of(source)).collect();
        Replay {
            encoder: Encoder::new(parts.options.together()),
            disk,
            volume,
            store,
            parts,
            recovery,
            spares: Vec::new(),
            damaged: Vec::new(),
            sequence: 1,
            sealed_blocks: RoaringTreemap::new(),
            coalesced: HashMap::default(),
            linked,
            follows: Vec::new(),
            recounted: Counts::default(),
            resumed,
            rows: listed.values().map(|file| file.rows).max().unwrap_or(0),
            listed,
            lowest,
            missing: Missing::default(),
            unreadable: 0,
            without_layout: HashMap::default(),
            neighbours: Neighbours::default(),
        }
    }

    pub(super) fn run(&mut self) -> Result<(), Error> {
        self.parts.head.begin_replay();
        let numbers = self.find_files()?;
        let listed = self.listed.first_key_value().map(|(_, file)| *file);
        let mut first = listed.map(|file| file.sequence);
        for &number in &numbers {
            let read = self.first_sequence(number)?;
            first = first.into_iter().chain(read).min();
        }
        self.note_sealed_blocks(first.unwrap_or(u64::MAX))?;
        // New blocks belong to files after all existing and earlier files.
        let last = numbers.last().copied();
        self.parts.head.pins = Pins::new(numbers.first().copied().unwrap_or(self.lowest.max(1)));
        self.sequence = first.unwrap_or_else(|| self.sequence_of_segments());
        self.parts.log.set_sequence(self.sequence);
        self.missing.start(
            listed
                .filter(|file| Some(file.sequence) == first)
                .map(|file| file.rows),
        );
        for &number in &numbers {
            // One file at a time: the journal may be larger than the memory.
            let found = self.open_file(number)?;
            self.miss_files(number);
            self.parts.head.pins.advance(number);
            self.listed.remove(&number);
            match found {
                JournalFileState::Whole(reader) | JournalFileState::WithoutHeader(reader) => {
                    self.replay_file(number, reader)?;
                }
                JournalFileState::NeverBegun => {
                    self.parts.head.pins.grow(number, files::FILE_HEADER_BYTES);
                }
                JournalFileState::Lost(why) => {
                    self.parts.head.pins.grow(number, files::FILE_HEADER_BYTES);
                    self.lose_the_thread(number, why.to_string())?;
                }
            }
        }
        let end = self.listed.last_key_value().map(|(number, _)| *number);
        if let Some(end) = end.max(last) {
            self.miss_files(end + 1);
            self.parts.head.pins.advance(end + 1);
        }
        self.count_losses()?;
        self.lose_unnamed();
        for source in 0..self.parts.head.sources() {
            let Some(rows) = self.recounted.get(source).checked_sub(1) else {
                continue;
            };
            let taken = self.parts.head.rows_taken(source);
            let buffered = || u64::from(self.parts.head.open_state(source).rows);
            // A released file returned, with rows that a ring had expired. These rows must not
            // precede new rows.
            if taken < rows && taken + buffered() < rows {
                self.seal(source)?;
            }
            self.parts.head.had(source, rows);
        }
        sealer::run_alone(&mut self.parts, self.volume, &mut self.encoder)?;
        let resumed = std::mem::take(&mut self.resumed);
        self.parts.log.resume(resumed);
        // A journal without files begins anew. Its records must not look like those that the catalog refers to.
        self.sequence = self.sequence.max(self.parts.head.last_known_record());
        self.parts.head.end_replay();
        self.widen()
    }

    /// Records that files below a number, which the ledger lists, are missing.
    fn miss_files(&mut self, before: u32) {
        let rest = self.listed.split_off(&before);
        let gone = std::mem::replace(&mut self.listed, rest);
        let (Some((&first, file)), Some((&last, _))) =
            (gone.first_key_value(), gone.last_key_value())
        else {
            return;
        };
        let what = match last - first {
            0 => "the journal file is missing".to_string(),
            _ => format!("the journal files up to {} are missing", files::name(last)),
        };
        self.missing.gap(files::name(first), what, file.sequence);
    }

    /// Counts missing rows as losses, unless segments contain them.
    fn count_losses(&mut self) -> Result<(), Error> {
        let mut lost = std::mem::take(&mut self.missing);
        self.rows = self.rows.max(lost.rows().unwrap_or(0));
        let unread: u64 = self.without_layout.values().sum();
        if unread > 0 {
            self.recovery.losses.push(Loss {
                rows: Some(unread),
                ..unknown_loss(
                    catalog::NAME,
                    "layouts of rows in the journal are lost".to_string(),
                )
            });
        }
        if lost.is_empty() {
            return Ok(());
        }
        let sources = self.parts.head.sources();
        lost.end(sources, |source| self.ordinal(source));
        let mut entries = Vec::new();
        for resumed in &self.resumed {
            entries.extend(resumed.entries.iter().copied());
        }
        for segment in self.parts.log.sealed().clone().values() {
            if segment.trailer.sequence >= lost.first() {
                for page in segment.blocks() {
                    match page {
                        Ok(page) => entries.extend(page),
                        // The damage was recorded before.
                        Err(Error::Damage { .. }) => {}
                        // Rows in this segment would be counted as lost.
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        let (losses, found) = lost.resolve(entries.iter(), 0);
        self.recovery.losses.extend(losses);
        self.recovery.rows_skipped += found;
        Ok(())
    }

    /// Returns the ordinal of the last replayed row of a source, if any.
    fn ordinal(&self, source: u32) -> Option<u64> {
        let buffered = u64::from(self.parts.head.open_state(source).rows);
        (self.recounted.get(source) != 0).then(|| self.parts.head.rows_taken(source) + buffered)
    }

    /// Widens replayed blocks to the present layout of their source.
    fn widen(&mut self) -> Result<(), Error> {
        for (source, layout) in std::mem::take(&mut self.linked).into_iter().enumerate() {
            let columns = |number: u32| {
                self.parts
                    .head
                    .layouts()
                    .get(number)
                    .map_or(0, |layout| layout.columns())
            };
            let source = source as u32;
            if columns(layout) > columns(self.parts.head.layout_of(source)) {
                self.seal(source)?;
                self.parts.head.relink(source, layout);
            }
        }
        Ok(())
    }

    fn sequence_of_segments(&self) -> u64 {
        self.parts
            .log
            .sealed()
            .values()
            .map(|segment| segment.trailer.sequence)
            .chain(self.resumed.iter().map(|resumed| resumed.sequence))
            .max()
            .unwrap_or(1)
    }

    /// Records the blocks in segments that were closed at or after this sequence of the journal.
    /// Blocks of older segments begin in released files.
    fn note_sealed_blocks(&mut self, first_sequence: u64) -> Result<(), Error> {
        for resumed in std::mem::take(&mut self.resumed) {
            self.note_blocks(&resumed.entries);
            self.resumed.push(resumed);
        }
        for segment in self
            .parts
            .log
            .sealed()
            .clone()
            .values()
            .filter(|segment| segment.trailer.sequence >= first_sequence)
        {
            for page in segment.blocks() {
                match page {
                    Ok(entries) => self.note_blocks(&entries),
                    Err(error @ Error::Damage { .. }) => self
                        .recovery
                        .set_aside
                        .push((segment.name().to_string(), error.to_string())),
                    // Without the list of its blocks, their rows would be replayed a second time.
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn note_blocks(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.sealed_blocks.insert(entry.number);
            if entry.since < entry.number {
                let blocks = self.coalesced.entry(entry.source).or_default();
                blocks.push((entry.since, entry.number));
            }
        }
    }

    fn is_sealed(&self, source: u32, block: u64) -> bool {
        let within = |&(since, number): &(u64, u64)| (since..=number).contains(&block);
        self.sealed_blocks.contains(block)
            || self
                .coalesced
                .get(&source)
                .is_some_and(|blocks| blocks.iter().any(within))
    }

    /// Registers placeholders for sources that only segments contain, because catalog and journal
    /// are damaged.
    fn lose_unnamed(&mut self) {
        let sources = self
            .parts
            .log
            .sealed()
            .values()
            .map(|segment| segment.trailer.sources)
            .chain(self.resumed.iter().map(|resumed| resumed.sources))
            .max()
            .unwrap_or(0);
        let layouts = self
            .parts
            .log
            .sealed()
            .values()
            .map(|segment| segment.trailer.layouts)
            .chain(self.resumed.iter().map(|resumed| resumed.layouts))
            .max()
            .unwrap_or(0);
        self.parts.head.layouts_mut().lose(layouts);
        let known = self.parts.head.sources();
        if sources > known {
            let what = format!(
                "the names of {} sources are lost; they stand under {LOST}",
                sources - known
            );
            self.recovery
                .set_aside
                .push((catalog::NAME.to_string(), what));
            lose_sources(&mut self.parts, sources);
        }
    }
}
