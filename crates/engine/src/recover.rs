//! Opening a store after anything.
//!
//! 1. The catalog gives the sources and layouts that segments refer to.
//! 2. Of sealed segments, trailer, fence and entries are read, and counted; a segment that was being
//!    written goes on behind its last chapter, the journal has what came then.
//! 3. The journal is replayed: rows of blocks that a sealed segment holds are passed over, the
//!    others are buffered again, exactly as they were.
//!
//! What is damaged is set aside; files that the ledger lists and that are missing are named. The rest
//! serves. The ledger has every loss before any file is removed.

mod missing;

use crate::bytes::{Cursor, Short};
use crate::catalog::{self, Catalog, LOST, Registers, get_key, get_layout, lose_sources};
use crate::dictionary::layouts::Layouts;
use crate::error::{Error, io_error};
use crate::exchange::tell_memory;
use crate::head::Head;
use crate::journal::files::{self, FileHeader, FileReader, JournalWriter, Pins};
use crate::journal::record::Record;
use crate::journal::rows::{RecordRow, Rows, is_too_large};
use crate::journal::{DAMAGED, SPARE_PREFIX};
use crate::ledger::{self, JournalFile, Ledger, SegmentNote};
use crate::log::Log;
use crate::opened::{Opened, Parts};
use crate::options::{Durability, Options};
use crate::retention::counts::Counts;
use crate::retention::pace::Begun;
use crate::sealer;
use crate::sealing::encode::Encoder;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::segment::open::{OpenSegment, Resumed};
use crate::segment::sealed::{Segment, read_index, read_page};
use crate::segment::tally::Survey;
use crate::status::{Loss, Recovery};
use crate::timekeeper::{self, Timekeeper};
use crate::volume::{DirectoryVolume, SlotState, Volume};
use missing::Missing;
use roaring::RoaringTreemap;
use seiner_model::SourceKey;
use seiner_platform::{Clock, Disk};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

/// The loss of a segment whose index cannot be read.
const ASIDE: &str = "the segment is damaged and was set aside";
/// Stands for sources whose rows were counted.
const NO_SOURCE: u32 = u32::MAX;

/// Opens a store, which is created where there is none.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    clock: &dyn Clock,
    options: Options,
) -> Result<Opened, Error> {
    let began = clock.monotonic();
    let volume: Arc<dyn Volume> = Arc::new(DirectoryVolume::new(disk.clone()));
    // Names are hashed under a key that nobody outside knows; it never reaches the disk.
    let names_seed = RandomState::new().hash_one(began);
    let memory = options.durability == Durability::Memory;
    let file_bytes = options.journal_file_bytes();
    let mut recovery = Recovery::default();
    let mut parts = Parts::new(options, names_seed, disk.unit());
    let catalog = read_catalog(&*disk, &*volume, clock, &mut parts, &mut recovery)?;
    parts.log.space.note_catalog(catalog.room(disk.unit()));
    let (timekeeper, told) = Timekeeper::open(disk.clone(), catalog.store)?;
    match told {
        Ok(Some(time)) => parts.log.retention.recall_time(time),
        Ok(None) if parts.log.retention.needs_clock() => recovery.set_aside.push((
            timekeeper::NAME.to_string(),
            timekeeper::MISSING.to_string(),
        )),
        Ok(None) => {}
        Err(damage) => recovery
            .set_aside
            .push((timekeeper::NAME.to_string(), damage.to_string())),
    }
    let mut ledger = open_ledger(disk.clone(), catalog.store, &parts, &mut recovery)?;
    let mut found = Found::new(volume.clone(), catalog.store);
    found.open_segments(&mut parts, &mut recovery)?;
    found.compare(&mut ledger, &parts, &mut recovery)?;
    let resumed = std::mem::take(&mut found.resumed);
    let mut replay = Replay::new(
        &*disk,
        &*volume,
        catalog.store,
        parts,
        recovery,
        resumed,
        &ledger,
    );
    replay.run()?;
    let Replay {
        mut parts,
        mut encoder,
        mut recovery,
        spares,
        sequence,
        rows,
        damaged,
        ..
    } = replay;
    let now = clock.now();
    recovery.losses.retain_mut(|loss| {
        loss.found_at = now;
        ledger.note_loss(loss)
    });
    recovery.rows_lost = recovery.losses.iter().filter_map(|loss| loss.rows).sum();
    parts.log.set_sequence(sequence);
    let keys = parts.head.dictionary().clone();
    let keys = keys
        .read()
        .expect("no panic while the dictionary is locked");
    let Parts { head, log, .. } = &mut parts;
    if log.retention.rules_change() {
        // What the old rules hid counts rows that were replayed, and hides nothing that is to come.
        head.seal_all();
    }
    head.seal_buried(|source, number| log.retention.is_before_delete(source, number));
    sealer::run_alone(&mut parts, &*volume, &mut encoder)?;
    let Parts { head, log, .. } = &mut parts;
    let next_block = head.next_block();
    log.retention.advance(clock, next_block);
    log.retention.change_rules(
        |source| keys.key(source).expect("numbers are dense"),
        |source| head.rows_taken(source),
        next_block,
    );
    drop(keys);
    head.release_idle_memory();
    tell_memory(head, log);
    // Less memory than the store had before is too little for rows that it had in there.
    let too_much = head.memory() as u64 > parts.options.memory;
    let losses = !recovery.losses.is_empty();
    recovery.needs_settling =
        losses || !damaged.is_empty() || memory && parts.head.pins.files() > 0 || too_much;
    recovery.took_ns = clock.monotonic() - began;
    let mut journal = JournalWriter::new(disk, catalog.store, file_bytes, (sequence, rows), spares);
    journal.damaged = damaged;
    let Found {
        files,
        merging,
        copied,
        ..
    } = found;
    Ok(Opened {
        parts,
        volume,
        journal,
        catalog,
        ledger,
        timekeeper,
        recovery,
        files,
        merging,
        copied,
    })
}

// ---- the ledger

fn open_ledger(
    disk: Arc<dyn Disk>,
    store: u64,
    parts: &Parts,
    recovery: &mut Recovery,
) -> Result<Ledger, Error> {
    let (ledger, found) = Ledger::open(disk, store)?;
    let what = match found {
        ledger::Found::Damaged(offset, what) => {
            let aside = format!("{}{DAMAGED}", ledger::NAME);
            recovery.set_aside.push((aside, what.clone()));
            format!("offset {offset}: {what}; files that went missing before cannot be named")
        }
        ledger::Found::Missing if parts.log.retention.has_ledger() => {
            "it is missing; files that went missing before cannot be named".to_string()
        }
        ledger::Found::Missing | ledger::Found::Torn | ledger::Found::Whole => return Ok(ledger),
    };
    recovery.losses.push(unknown_loss(ledger::NAME, what));
    Ok(ledger)
}

/// A loss of an unknown number of rows at unknown times.
fn unknown_loss(file: impl Into<String>, what: String) -> Loss {
    Loss {
        file: file.into(),
        what,
        rows: None,
        at_most: false,
        times: None,
        found_at: 0,
    }
}

// ---- the catalog

fn read_catalog(
    disk: &dyn Disk,
    volume: &dyn Volume,
    clock: &dyn Clock,
    parts: &mut Parts,
    recovery: &mut Recovery,
) -> Result<Catalog, Error> {
    let Some(read) = catalog::read(disk)? else {
        if volume
            .list()?
            .iter()
            .any(|(_, slot)| *slot != SlotState::Open(0))
        {
            return Err(Error::Damage {
                file: catalog::NAME.to_string(),
                offset: 0,
                what: "it is missing, and there are segments; put it back from a copy of the directory".to_string(),
            });
        }
        let store = foldhash::fast::FixedState::default().hash_one(clock.now());
        return Catalog::create(disk, store);
    };
    let open = Catalog::open(disk, &read)?;
    for (file, offset) in read.damaged {
        let what = "damaged; mended from its other copy".to_string();
        recovery
            .set_aside
            .push((format!("{file}, offset {offset}"), what));
    }
    catalog::register(&read.frames, parts, &mut |offset, what| {
        let place = format!("{}, offset {offset}", catalog::NAME);
        recovery.set_aside.push((place, what));
    });
    let Parts { head, log, .. } = parts;
    head.note_catalogued();
    for (source, rows) in log.retention.pasts() {
        head.had(source, rows);
    }
    head.begin_blocks_at(log.retention.next_block());
    Ok(open)
}

impl Registers for Parts {
    fn sources(&self) -> u32 {
        self.head.sources()
    }

    fn layouts(&mut self) -> &mut Layouts {
        self.head.layouts_mut()
    }

    fn add_source(&mut self, key: &SourceKey) -> Result<(), String> {
        let added = self.head.add_source(key);
        added.map_err(|number| format!("{key} is registered twice, first as source {number}"))
    }

    fn link(&mut self, source: u32, layout: u32) {
        // What is built on a lost layout would be lost, too.
        let lost = self
            .head
            .layouts()
            .get(layout)
            .is_none_or(|layout| layout.is_lost());
        self.head.relink(source, if lost { 0 } else { layout });
    }

    fn bury(&mut self, dead: &[u8]) -> Result<(), Short> {
        self.log.retention.recall_news(dead)
    }
}

// ---- segments

/// What segments there are.
struct Found {
    volume: Arc<dyn Volume>,
    store: u64,
    files: Arc<Files>,
    /// Sealed segments that were being merged, and the blocks in them: source, number and segment, and
    /// since which.
    merging: HashSet<u64>,
    victims: BTreeMap<(u32, u64, u64), u64>,
    /// Those of the blocks that other segments have, too: segment and number.
    copied: HashSet<(u64, u64)>,
    /// Segments that were being written.
    resumed: Vec<Resumed>,
    /// Segments that were set aside at this start.
    aside: Vec<u64>,
}

impl Found {
    fn new(volume: Arc<dyn Volume>, store: u64) -> Found {
        Found {
            files: Arc::new(Files::new(volume.clone())),
            volume,
            store,
            merging: HashSet::new(),
            victims: BTreeMap::new(),
            copied: HashSet::new(),
            resumed: Vec::new(),
            aside: Vec::new(),
        }
    }

    fn open_segments(&mut self, parts: &mut Parts, recovery: &mut Recovery) -> Result<(), Error> {
        let mut sealed = Vec::new();
        let mut open = Vec::new();
        for (number, slot) in self.volume.list()? {
            parts.log.note_segment(number);
            let opened = match slot {
                SlotState::Open(0) => self.volume.discard(number, slot),
                SlotState::Open(end) => self
                    .read_chapters(number, end, parts.options.piece_bytes())
                    .map(|segment| open.push(segment)),
                SlotState::Damaged => {
                    recovery.damaged_segments += 1;
                    Ok(())
                }
                SlotState::Sealed | SlotState::Merging => {
                    let name = self.volume.name(number);
                    Segment::open(self.files.clone(), number, name, self.store).map(|segment| {
                        if slot == SlotState::Merging {
                            self.merging.insert(number);
                        }
                        sealed.push(Arc::new(segment));
                    })
                }
            };
            match opened {
                Err(error @ Error::Damage { .. }) => {
                    self.volume.turn(number, slot, SlotState::Damaged)?;
                    self.volume.sync()?;
                    self.aside.push(number);
                    recovery.damaged_segments += 1;
                    recovery
                        .set_aside
                        .push((self.volume.name(number), error.to_string()));
                }
                opened => opened?,
            }
        }
        recovery.segments = sealed.len() as u64;
        self.count(parts, recovery, sealed, open)
    }

    /// Compares the segments with those in the ledger: one that is missing or was set aside is a loss, one
    /// that is new is listed from now on.
    fn compare(
        &self,
        ledger: &mut Ledger,
        parts: &Parts,
        recovery: &mut Recovery,
    ) -> Result<(), Error> {
        let slots: BTreeMap<u64, SlotState> = self.volume.list()?.into_iter().collect();
        let listed = ledger.contents().segments.clone();
        for &number in self
            .aside
            .iter()
            .filter(|number| !listed.contains_key(number))
        {
            let (name, what) = (self.volume.name(number), ASIDE.to_string());
            recovery.losses.push(unknown_loss(name, what));
        }
        for (number, note) in listed {
            let what = match slots.get(&number) {
                None | Some(SlotState::Open(0)) => "the segment is missing",
                Some(SlotState::Damaged) => ASIDE,
                Some(_) => continue,
            };
            ledger.note_gone(number);
            recovery.losses.push(Loss {
                rows: Some(note.rows),
                times: Some((note.first, note.last)),
                ..unknown_loss(self.volume.name(number), what.to_string())
            });
        }
        for segment in parts.log.sealed().values() {
            ledger.note_segment(segment.trailer.number, segment.note());
        }
        for resumed in &self.resumed {
            ledger.note_segment(resumed.segment.number, note_of(&resumed.entries));
        }
        Ok(())
    }

    /// The blocks in a segment's chapters: the latest chapter knows where the one before ends.
    fn read_chapters(&self, number: u64, end: u64, piece: u64) -> Result<Resumed, Error> {
        let file = self.volume.open(number, SlotState::Open(end))?;
        let name = self.volume.name(number);
        let (mut entries, mut at) = (Vec::new(), end);
        let (mut lane, mut born) = (0, i64::MIN);
        let (mut sequence, mut sources, mut layouts) = (0, 0, 0);
        while at > 0 {
            let (trailer, fence) = read_index(&*file, &name, self.store, at)?;
            if trailer.number != number || trailer.previous >= at {
                return Err(Error::Damage {
                    file: name,
                    offset: at,
                    what: format!("a chapter of segment {} ends here", trailer.number),
                });
            }
            for page in &fence {
                entries.extend(read_page(&*file, &name, at, page)?);
            }
            (lane, born, at) = (trailer.lane, born.max(trailer.born), trailer.previous);
            sequence = trailer.sequence.max(sequence);
            sources = trailer.sources.max(sources);
            layouts = trailer.layouts.max(layouts);
        }
        let segment = OpenSegment::new(number, lane, file, piece);
        Ok(Resumed {
            segment,
            end,
            entries,
            born,
            sequence,
            sources,
            layouts,
        })
    }

    /// Counts what there is: rows of rings, numbers, live and dead bytes.
    fn count(
        &mut self,
        parts: &mut Parts,
        recovery: &mut Recovery,
        sealed: Vec<Arc<Segment>>,
        open: Vec<Resumed>,
    ) -> Result<(), Error> {
        let Parts { head, log, .. } = parts;
        let mut all = Vec::new();
        let mut begun = Begun::default();
        for segment in sealed {
            let merging = self.merging.contains(&segment.trailer.number);
            let mut survey = Survey::new(segment.trailer.number);
            head.begin_blocks_at(segment.trailer.last_block + 1);
            log.retention.recall_born(segment.trailer.born);
            for page in segment.blocks() {
                match page {
                    Ok(entries) => {
                        for entry in &entries {
                            note_found(head, log, entry);
                            survey.add(entry, &log.retention, false);
                            if log.retention.is_ring(entry.source) {
                                begun.note(entry);
                            }
                        }
                        if merging {
                            let number = segment.trailer.number;
                            let block =
                                |entry: &Entry| ((entry.source, entry.number, number), entry.since);
                            self.victims.extend(entries.iter().map(block));
                        }
                    }
                    // What the page holds is not read, and neither dropped nor merged.
                    Err(error @ Error::Damage { .. }) => {
                        let name = segment.name().to_string();
                        recovery.losses.push(loss_of_page(&segment, &error));
                        recovery.set_aside.push((name, error.to_string()));
                    }
                    Err(error) => return Err(error),
                }
            }
            all.push((segment, survey));
        }
        for resumed in &open {
            log.retention.recall_born(resumed.born);
            for entry in &resumed.entries {
                note_found(head, log, entry);
                head.begin_blocks_at(entry.number + 1);
            }
        }
        let trailers = all.iter().map(|(segment, _)| &segment.trailer);
        let ends = trailers.map(|trailer| (trailer.last_block + 1, trailer.born));
        log.retention.recall_pace(ends.collect());
        log.retention.recall_paces(&begun);
        self.find_copies(&all, &open)?;
        let moment = log.retention.moment();
        let unit = log.unit();
        let tallied = all.into_iter().map(|(segment, survey)| {
            let trailer = &segment.trailer;
            let mut tally = survey.tally(trailer.lane, segment.room(unit), trailer.born, &moment);
            // What rings let go of is known only now that all is counted.
            tally.ask();
            (segment, tally)
        });
        log.add_sealed(tallied.collect());
        head.begin_blocks_at(log.retention.next_block());
        self.resumed = open;
        Ok(())
    }

    /// Which blocks of segments that were being merged are elsewhere, too.
    fn find_copies(
        &mut self,
        sealed: &[(Arc<Segment>, Survey)],
        open: &[Resumed],
    ) -> Result<(), Error> {
        if self.victims.is_empty() {
            return Ok(());
        }
        for (segment, _) in sealed {
            if self.merging.contains(&segment.trailer.number) {
                continue;
            }
            for page in segment.blocks() {
                match page {
                    Ok(entries) => self.note_copies(&entries),
                    Err(Error::Damage { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for resumed in open {
            self.note_copies(&resumed.entries);
        }
        Ok(())
    }

    fn note_copies(&mut self, entries: &[Entry]) {
        for entry in entries {
            let first = (entry.source, entry.since, 0);
            let blocks = self
                .victims
                .range(first..=(entry.source, entry.number, u64::MAX));
            let covered = blocks.filter(|&(_, &since)| entry.since <= since);
            self.copied
                .extend(covered.map(|(&(_, number, segment), _)| (segment, number)));
        }
    }
}

/// A block is on disk, and found again.
fn note_found(head: &mut Head, log: &mut Log, entry: &Entry) {
    if entry.source < head.sources() {
        head.had(entry.source, entry.ordinal);
    }
    log.retention.found(entry);
}

/// The loss of a page of a segment's index, which says neither how many blocks it lists nor of when.
pub(crate) fn loss_of_page(segment: &Segment, error: &Error) -> Loss {
    let span = segment.trailer.span;
    Loss {
        times: Some((span.start, span.end)),
        rows: Some(segment.trailer.rows),
        at_most: true,
        ..unknown_loss(segment.name(), error.to_string())
    }
}

/// What the ledger says of a segment that is being written.
pub(crate) fn note_of(entries: &[Entry]) -> SegmentNote {
    SegmentNote {
        blocks: entries.len() as u64,
        rows: entries.iter().map(|entry| u64::from(entry.rows)).sum(),
        first: entries.iter().map(|entry| entry.first).min().unwrap_or(0),
        last: entries.iter().map(|entry| entry.last).max().unwrap_or(0),
    }
}

// ---- the journal

/// What replaying has come to.
struct Replay<'a> {
    disk: &'a dyn Disk,
    volume: &'a dyn Volume,
    store: u64,
    parts: Parts,
    encoder: Encoder,
    recovery: Recovery,
    spares: Vec<String>,
    damaged: Vec<u32>,
    /// The sequence of the next record.
    sequence: u64,
    /// Blocks that sealed segments hold.
    sealed_blocks: RoaringTreemap,
    /// Of blocks that were gathered, by source: the numbers of the first and of the last.
    gathered: HashMap<u32, Vec<(u64, u64)>>,
    /// The layouts that sources have according to the catalog.
    linked: Vec<u32>,
    /// Sources whose rows are buffered; the others' wait for the next block to begin.
    follows: Vec<bool>,
    /// Rows of the sources whose blocks were replayed, as far as they are on disk, and one more; 0 of
    /// others.
    recounted: Counts,
    /// Segments that were being written; they go on when all their sources are known.
    resumed: Vec<Resumed>,
    /// The files that the ledger lists, and the lowest that may be needed.
    listed: BTreeMap<u32, JournalFile>,
    lowest: u32,
    missing: Missing,
    /// Rows of the file at hand that need records which are missing.
    unreadable: u64,
    /// Rows in all records, ever.
    rows: u64,
    /// Sources whose open blocks have a layout that is lost, and how many rows those have.
    without_layout: HashMap<u32, u64>,
}

impl<'a> Replay<'a> {
    fn new(
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
        let linked = sources
            .map(|source| parts.head.line(source).layout)
            .collect();
        Replay {
            encoder: Encoder::default(),
            disk,
            volume,
            store,
            parts,
            recovery,
            spares: Vec::new(),
            damaged: Vec::new(),
            sequence: 1,
            sealed_blocks: RoaringTreemap::new(),
            gathered: HashMap::new(),
            linked,
            follows: Vec::new(),
            recounted: Counts::default(),
            resumed,
            rows: listed.values().map(|file| file.rows).max().unwrap_or(0),
            listed,
            lowest,
            missing: Missing::default(),
            unreadable: 0,
            without_layout: HashMap::new(),
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let numbers = self.find_files()?;
        let listed = self.listed.first_key_value().map(|(_, file)| *file);
        let mut first = listed.map(|file| file.sequence);
        for &number in &numbers {
            let read = self.first_sequence(number)?;
            first = first.into_iter().chain(read).min();
        }
        self.note_sealed_blocks(first.unwrap_or(u64::MAX))?;
        // Blocks that are begun anew belong to files after all that there are, or were.
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
            // One at a time: the journal may be larger than the memory.
            let found = self.open_file(number)?;
            self.miss_files(number);
            self.parts.head.pins.advance(number);
            self.listed.remove(&number);
            match found {
                files::Found::Whole(reader) | files::Found::WithoutHeader(reader) => {
                    self.replay_file(number, reader)?;
                }
                files::Found::NeverBegun => {
                    self.parts.head.pins.grow(number, files::FILE_HEADER_BYTES);
                }
                files::Found::Lost(why) => {
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
            let buffered = u64::from(self.parts.head.line(source).rows);
            // A file that had been let go came back, and what a ring had let go of with it: it is no
            // beginning for the rows that are to come.
            if self.parts.head.rows_taken(source) + buffered < rows {
                self.seal(source)?;
            }
            self.parts.head.had(source, rows);
        }
        sealer::run_alone(&mut self.parts, self.volume, &mut self.encoder)?;
        let resumed = std::mem::take(&mut self.resumed);
        self.parts.log.resume(resumed);
        self.widen()
    }

    /// Files that the ledger lists before a number are missing.
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

    /// What is missing is a loss, unless segments have it.
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
                        // It was noted before.
                        Err(Error::Damage { .. }) => {}
                        // Rows that the segment has would be counted as lost.
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        let (losses, found) = lost.settle(entries.iter(), 0);
        self.recovery.losses.extend(losses);
        self.recovery.rows_skipped += found;
        Ok(())
    }

    /// The ordinal of the last row of a source that was replayed, if any was.
    fn ordinal(&self, source: u32) -> Option<u64> {
        let buffered = u64::from(self.parts.head.line(source).rows);
        (self.recounted.get(source) != 0).then(|| self.parts.head.rows_taken(source) + buffered)
    }

    /// Blocks that were replayed may have older layouts than the source has got since.
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
            if columns(layout) > columns(self.parts.head.line(source).layout) {
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

    /// The numbers of the journal's files. Those below the lowest that may be needed were let go, and only
    /// their names came back after a power cut.
    fn find_files(&mut self) -> Result<Vec<u32>, Error> {
        // Seen is not durable: a process that was killed may have created files without syncing.
        self.disk
            .sync_names()
            .map_err(io_error(|| "syncing the names of files".to_string()))?;
        let names = self
            .disk
            .list()
            .map_err(io_error(|| "listing the journal".to_string()))?;
        let mut numbers: Vec<u32> = names
            .iter()
            .filter_map(|name| files::number(name))
            .collect();
        numbers.sort_unstable();
        let needed = numbers.partition_point(|&number| number < self.lowest);
        for number in numbers.drain(..needed) {
            self.remove(&files::name(number))?;
        }
        for spare in names.iter().filter(|name| name.starts_with(SPARE_PREFIX)) {
            self.remove(spare)?;
        }
        Ok(numbers)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.disk
            .remove(name)
            .map_err(io_error(|| format!("removing {name}")))
    }

    /// Returns the sequence of the first record of a file, if the file has a header of this store.
    fn first_sequence(&self, number: u32) -> Result<Option<u64>, Error> {
        let name = files::name(number);
        let context = || format!("reading {name}");
        let file = self
            .disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))?;
        let len = file.len().map_err(io_error(context))?;
        let mut bytes = vec![0; len.min(files::FILE_HEADER_BYTES) as usize];
        file.read_at(0, &mut bytes).map_err(io_error(context))?;
        let header = FileHeader::decode(&bytes)
            .filter(|header| header.number == number && header.store == self.store);
        Ok(header.map(|header| header.first_sequence))
    }

    fn open_file(&mut self, number: u32) -> Result<files::Found, Error> {
        let name = files::name(number);
        let context = || format!("reading {name}");
        let file = self
            .disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))?;
        file.sync()
            .map_err(io_error(|| format!("syncing {name}")))?;
        let len = file.len().map_err(io_error(context))?;
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).map_err(io_error(context))?;
        self.recovery.journal_files += 1;
        let found = files::Found::of(bytes, number, self.store, self.listed.get(&number));
        if let files::Found::WithoutHeader(_) = found {
            self.set_aside(
                number,
                "its header is damaged; its records are read".to_string(),
            );
        }
        Ok(found)
    }

    fn set_aside(&mut self, number: u32, why: String) {
        if !self.damaged.contains(&number) {
            self.damaged.push(number);
        }
        self.recovery
            .set_aside
            .push((format!("{}{DAMAGED}", files::name(number)), why));
    }

    /// Which blocks the segments hold that were closed when the journal had come so far: blocks of
    /// older segments begin in files that were let go.
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
                    // Without its blocks, their rows would be replayed as well.
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
                let blocks = self.gathered.entry(entry.source).or_default();
                blocks.push((entry.since, entry.number));
            }
        }
    }

    fn is_sealed(&self, source: u32, block: u64) -> bool {
        let within = |&(since, number): &(u64, u64)| (since..=number).contains(&block);
        self.sealed_blocks.contains(block)
            || self
                .gathered
                .get(&source)
                .is_some_and(|blocks| blocks.iter().any(within))
    }

    fn replay_file(&mut self, number: u32, mut reader: FileReader) -> Result<(), Error> {
        if reader.sequence != self.sequence {
            // The file before is missing, or it ended early; this one is whole.
            let before = number.wrapping_sub(1);
            let why = format!(
                "records {} to {} are missing",
                self.sequence,
                reader.sequence.wrapping_sub(1)
            );
            self.lose_the_thread(before, why)?;
        }
        loop {
            // A segment that is closed from here on says that it may have blocks of these records.
            let mut sequence = reader.sequence;
            self.parts.log.set_sequence(sequence);
            while let Some((at, record)) = reader.next_record() {
                sequence += 1;
                self.parts.log.set_sequence(sequence);
                self.sequence = reader.sequence;
                let why = || format!("the record at offset {at} is malformed");
                match record.map(|record| self.replay_record(&record)) {
                    Ok(Ok(())) => {}
                    Ok(Err(Short)) => self.lose_context(number, why())?,
                    Err(Short) => {
                        let file = files::name(number);
                        self.missing.gap(file, why(), reader.sequence - 1);
                        self.lose_context(number, why())?;
                    }
                }
            }
            let Some(later) = reader.later_record() else {
                break;
            };
            let from = reader.at();
            reader.skip_to(later);
            self.lose_the_thread(number, format!("bytes {from} to {later} are damaged"))?;
        }
        self.keep_unreadable(number);
        self.sequence = reader.sequence;
        self.recovery.torn_bytes = reader.torn_bytes();
        self.recovery.journal_bytes += reader.at();
        self.parts.head.pins.grow(number, reader.len());
        Ok(())
    }

    /// A file with rows that cannot be read without missing records is kept: they can be read when the
    /// missing file is put back.
    fn keep_unreadable(&mut self, number: u32) {
        let unreadable = std::mem::take(&mut self.unreadable);
        if unreadable > 0 && !self.damaged.contains(&number) {
            let why = format!("{unreadable} rows in it need records that are missing");
            self.set_aside(number, why);
        }
    }

    /// Records are missing: what was buffered is sealed as it is, and rows count again from the
    /// next block of their source on.
    fn lose_the_thread(&mut self, damaged: u32, why: String) -> Result<(), Error> {
        let file = files::name(damaged);
        self.missing.gap(file, why.clone(), self.sequence);
        self.lose_context(damaged, why)
    }

    /// Rows that follow cannot be set in relation to what was before.
    fn lose_context(&mut self, damaged: u32, why: String) -> Result<(), Error> {
        let name = files::name(damaged);
        match self.disk.open(&name) {
            Ok(_) => self.set_aside(damaged, why),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A file that is not set aside now is removed when nothing needs it.
            Err(error) => return Err(io_error(|| format!("opening {name}"))(error)),
        }
        self.follows.fill(false);
        (0..self.parts.head.sources()).try_for_each(|source| self.seal(source))?;
        sealer::run_alone(&mut self.parts, self.volume, &mut self.encoder)
    }

    /// Seals a source's open block. The work is done for many at once.
    fn seal(&mut self, source: u32) -> Result<(), Error> {
        self.parts.head.seal(source);
        match self.parts.head.is_sealer_behind() {
            true => sealer::run_alone(&mut self.parts, self.volume, &mut self.encoder),
            false => Ok(()),
        }
    }

    fn replay_record(&mut self, record: &Record) -> Result<(), Short> {
        self.missing.record(record.rows_before, record.rows);
        let mut done = 0;
        let result = self.replay_streams(record, &mut done);
        if result.is_err() {
            let (number, left) = (self.parts.head.pins.current(), record.rows - done);
            let what = format!("record {} is malformed", self.sequence - 1);
            let name = files::name(number);
            self.missing.malformed(name, what, self.sequence - 1, left);
        }
        result
    }

    fn replay_streams(&mut self, record: &Record, done: &mut u64) -> Result<(), Short> {
        self.replay_names(record, Cursor(&record.streams[0]))?;
        self.replay_layouts(record, Cursor(&record.streams[1]))?;
        self.follows
            .resize(self.parts.head.sources() as usize, false);
        self.replay_rows(record, done)
    }

    fn replay_names(&mut self, record: &Record, mut names: Cursor<'_>) -> Result<(), Short> {
        if record.new_sources > 0 {
            lose_sources(
                &mut self.parts,
                u32::try_from(record.first_source).map_err(|_| Short)?,
            );
        }
        for number in record.first_source..record.first_source.saturating_add(record.new_sources) {
            let key = get_key(&mut names)?;
            if number >= u64::from(self.parts.head.sources()) {
                self.parts.add_source(&key).map_err(|_| Short)?;
            }
        }
        names.is_empty().then_some(()).ok_or(Short)
    }

    fn replay_layouts(&mut self, record: &Record, mut layouts: Cursor<'_>) -> Result<(), Short> {
        if record.new_layouts > 0 {
            self.parts
                .head
                .layouts_mut()
                .lose(u32::try_from(record.first_layout).map_err(|_| Short)?);
        }
        for _ in 0..record.new_layouts {
            // Known ones are found again under their number.
            get_layout(&mut layouts, self.parts.head.layouts_mut())?;
        }
        layouts.is_empty().then_some(()).ok_or(Short)
    }

    /// Segments may know of more sources than the catalog and the journal, if those are damaged.
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

impl Replay<'_> {
    /// Buffers the rows of a record, or passes them over. `done` is the number of rows so far.
    fn replay_rows(&mut self, record: &Record, done: &mut u64) -> Result<(), Short> {
        let mut rows = Rows::new(record);
        while let Some(head) = rows.head()? {
            let follows = self.follows.get(head.source as usize);
            let follows = follows.copied().ok_or(Short)?;
            let is_usual =
                head.columns == 1 && follows && self.parts.head.has_one_number(head.source);
            let to = &mut self.parts.head;
            if is_usual
                && rows.number(|codes, payload| to.replay_number(head.source, codes, payload))?
            {
                self.recovery.rows_replayed += 1;
            } else {
                self.replay_row(&rows.rest(head)?, follows)?;
            }
            *done += 1;
        }
        rows.is_at_end().then_some(()).ok_or(Short)
    }

    fn replay_row(&mut self, row: &RecordRow<'_>, mut follows: bool) -> Result<(), Short> {
        let source = row.source;
        if let Some(start) = row.start {
            if start.layout as usize >= self.parts.head.layouts().len() {
                return Err(Short);
            }
            follows = self
                .begin_block(source, start.block, start.layout, start.before)
                .map_err(|_| Short)?;
        }
        if !follows {
            self.pass_row(source);
            return Ok(());
        }
        let head = &mut self.parts.head;
        let line = head.line(source);
        let layout = head.layouts().get(line.layout).ok_or(Short)?.clone();
        let bytes = line.bytes as usize + row.codes.len() + row.payload.len();
        let rows = u64::from(line.rows) + 1;
        if layout.columns() != row.columns || is_too_large(bytes, rows) {
            return Err(Short);
        }
        head.replay_row(source, &layout, row.codes, row.payload)?;
        self.recovery.rows_replayed += 1;
        Ok(())
    }
}

impl Replay<'_> {
    /// A block begins; answers whether its rows are to be buffered.
    fn begin_block(
        &mut self,
        source: u32,
        block: u64,
        layout: u32,
        before: u64,
    ) -> Result<bool, Error> {
        let sealed = self.is_sealed(source, block);
        let replayed = self.ordinal(source);
        self.missing.begin(source, before, replayed, sealed);
        // The block before was sealed at this point, into a segment that is lost.
        self.seal(source)?;
        let head = &mut self.parts.head;
        head.begin_blocks_at(block.saturating_add(1));
        // Rows cannot be read without their layout, which damage may have taken.
        let lost = head
            .layouts()
            .get(layout)
            .is_none_or(|layout| layout.is_lost());
        let follows = !lost && !sealed;
        self.follows[source as usize] = follows;
        match lost && !sealed {
            true => drop(self.without_layout.entry(source).or_default()),
            // The rows of an earlier block stay counted, under no source.
            false => {
                if let Some(rows) = self.without_layout.remove(&source) {
                    *self.without_layout.entry(NO_SOURCE).or_default() += rows;
                }
            }
        }
        if follows {
            if head.line(source).layout != layout {
                head.relink(source, layout);
            }
            // Of a source's blocks, a later one may be on disk already.
            let rows = head.replay_block(source, block, before);
            let first = self.recounted.of(source);
            if *first == 0 {
                *first = rows + 1;
            }
        }
        Ok(follows)
    }

    /// A row whose block is not buffered: a segment has it, or it is lost.
    fn pass_row(&mut self, source: u32) {
        let rows = self.without_layout.get_mut(&source);
        match rows {
            Some(rows) => *rows += 1,
            None if self.missing.pass(source) => self.recovery.rows_skipped += 1,
            None => self.unreadable += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::row;
    use crate::bytes::put_text;
    use crate::catalog::put_key;
    use crate::engine::Engine;
    use crate::journal::staging::Staging;
    use seiner_codec::varint;
    use seiner_model::FieldType;
    use seiner_platform::sim::{SimClock, SimDisk};

    /// The rows replayed, and the places set aside, of a journal of one record, which registers a
    /// source and a layout with one text, and has what is staged besides. A check must say the same.
    fn replay(stage: impl FnOnce(&mut Staging)) -> (u64, usize) {
        let disk = SimDisk::new(1);
        let store = Catalog::create(&disk, 7).unwrap().store;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let mut journal = JournalWriter::new(disk.clone(), store, 64 << 10, (1, 0), Vec::new());
        let staging = &mut journal.staging;
        let tags = [(&b"tag"[..], &b"value"[..])];
        put_key((b"m", tags.into_iter()), &mut staging.names);
        (staging.new_sources, staging.first_layout) = (1, 1);
        staging.new_layouts = 1;
        staging.layouts.extend([0, FieldType::Str.code()]);
        put_text("text", &mut staging.layouts);
        stage(staging);
        journal.write(1).unwrap();
        journal.sync().unwrap();
        let report = crate::check(&*disk, &mut |_, _| {}).unwrap();
        let engine = Engine::open(disk, Arc::new(SimClock::new(0)), Options::default()).unwrap();
        let recovery = engine.recovery();
        assert_eq!(
            report.is_sound(),
            recovery.set_aside.is_empty(),
            "{report:?}"
        );
        (recovery.rows_replayed, recovery.set_aside.len())
    }

    /// Rows of the source, with a text of so many bytes each, which begin a block.
    fn texts(staging: &mut Staging, source: i64, block: u64, rows: u64, bytes: u16) {
        const TEXT: u8 = 12;
        staging.rows = rows;
        varint::put_u64(1, &mut staging.widths);
        varint::put_u64(rows, &mut staging.widths);
        varint::put_i64(block as i64, &mut staging.starts);
        varint::put_u64(1, &mut staging.starts);
        varint::put_u64(0, &mut staging.starts);
        for row in 0..rows {
            let first = row == 0;
            varint::put_i64(if first { source } else { -1 }, &mut staging.sources);
            staging
                .codes
                .push(TEXT << 4 | if first { row::START } else { 0 });
            staging.payload.extend([0; 8].iter().filter(|_| first));
            staging.payload.extend(bytes.to_le_bytes());
            staging.payload.extend(vec![b'x'; bytes.into()]);
        }
    }

    #[test]
    fn a_name_that_the_catalog_has_twice_moves_no_other() {
        let disk = SimDisk::new(1);
        let mut catalog = Catalog::create(&disk, 7).unwrap();
        let mut frame = catalog::Frame::default();
        for name in [&b"a"[..], b"b", b"a", b"c"] {
            put_key((name, [].into_iter()), &mut frame.names);
            frame.sources += 1;
        }
        frame.first_layout = 1;
        catalog.add(&frame).unwrap();
        let mut frame = catalog::Frame {
            first_source: 4,
            first_layout: 1,
            sources: 1,
            ..catalog::Frame::default()
        };
        put_key((b"d", [].into_iter()), &mut frame.names);
        catalog.add(&frame).unwrap();
        let report = crate::check(&disk, &mut |_, _| {}).unwrap();
        assert_eq!(report.damaged, 1, "{report:?}");
        let clock = Arc::new(SimClock::new(0));
        let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
        assert_eq!(engine.recovery().set_aside.len(), 1);
        let name = |id| engine.source_key(seiner_model::SourceId(id)).unwrap();
        let names: Vec<String> = (0..5)
            .map(|id| name(id).measurement().to_string())
            .collect();
        assert_eq!(names, ["a", "b", LOST, LOST, "d"]);
    }

    #[test]
    fn a_record_with_bytes_behind_its_rows_is_damage() {
        let (rows, damaged) = replay(|staging| {
            texts(staging, 0, 0, 3, 5);
            staging.payload.push(0);
        });
        assert_eq!((rows, damaged), (3, 1));
    }

    #[test]
    fn a_whole_record_is_replayed() {
        assert_eq!(replay(|staging| texts(staging, 0, 0, 3, 5)), (3, 0));
    }

    #[test]
    fn a_row_of_the_last_of_all_source_numbers_is_damage() {
        let (rows, damaged) = replay(|staging| texts(staging, i64::MAX, 0, 1, 5));
        assert_eq!((rows, damaged), (0, 1));
    }

    #[test]
    fn a_block_number_that_leaves_no_room_to_count_is_damage() {
        let (rows, damaged) = replay(|staging| texts(staging, 0, u64::MAX, 1, 5));
        assert_eq!((rows, damaged), (0, 1));
    }

    /// A check knew no limit of rows.
    #[test]
    fn a_block_with_more_rows_than_any_buffer_is_damage() {
        let (rows, damaged) = replay(|staging| texts(staging, 0, 0, 1 << 16, 1));
        assert_eq!((rows, damaged), (65_535, 1));
        assert_eq!(
            replay(|staging| texts(staging, 0, 0, 65_535, 1)),
            (65_535, 0)
        );
    }

    /// A check passed over deletes and rules that a start cannot read.
    #[test]
    fn malformed_deletes_are_damage_for_a_check_as_well() {
        let disk = SimDisk::new(1);
        let frame = catalog::Frame {
            first_layout: 1,
            dead: vec![u8::MAX],
            ..catalog::Frame::default()
        };
        Catalog::create(&disk, 7).unwrap().add(&frame).unwrap();
        let report = crate::check(&disk, &mut |_, _| {}).unwrap();
        let clock = Arc::new(SimClock::new(0));
        let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
        let damage = report.damage.iter().map(|one| &one.what);
        let aside = engine.recovery().set_aside.iter().map(|(_, what)| what);
        assert_eq!(report.damaged, 1);
        assert!(damage.eq(aside), "{report:?}");
    }

    /// A start added the sources of a frame under the next numbers, whatever numbers the frame has.
    #[test]
    fn a_frame_whose_numbers_are_taken_moves_no_source() {
        let disk = SimDisk::new(1);
        let mut catalog = Catalog::create(&disk, 7).unwrap();
        for (name, first_source) in [(&b"a"[..], 0), (b"b", 0), (b"c", 1)] {
            let mut frame = catalog::Frame {
                first_source,
                first_layout: 1,
                sources: 1,
                ..catalog::Frame::default()
            };
            put_key((name, [].into_iter()), &mut frame.names);
            catalog.add(&frame).unwrap();
        }
        let report = crate::check(&disk, &mut |_, _| {}).unwrap();
        assert_eq!(report.damaged, 1, "{report:?}");
        let clock = Arc::new(SimClock::new(0));
        let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
        assert_eq!(engine.recovery().set_aside.len(), 1);
        let name = |id| engine.source_key(seiner_model::SourceId(id));
        let names: Vec<_> = (0..3).map_while(name).collect();
        let names: Vec<_> = names.iter().map(SourceKey::measurement).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn a_block_larger_than_any_buffer_is_damage() {
        let (rows, damaged) = replay(|staging| texts(staging, 0, 0, 40, u16::MAX));
        assert_eq!((rows, damaged), (31, 1));
    }
}
