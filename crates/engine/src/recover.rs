//! Opening a store after anything.
//!
//! 1. The catalog gives the sources and layouts that segments refer to.
//! 2. Of sealed segments, trailer, fence and entries are read, and counted; a segment that was being
//!    written goes on behind its last chapter, the journal has what came then.
//! 3. The journal is replayed: rows of blocks that a sealed segment holds are passed over, the
//!    others are buffered again, exactly as they were.
//!
//! What is damaged is set aside and told; the rest serves.

use crate::buffer::{row, slab};
use crate::bytes::{COUNT_LIMIT, Cursor, Short};
use crate::catalog::{self, Catalog, ReadFrame, get_key, get_layout};
use crate::engine::Opened;
use crate::error::{Error, io_error};
use crate::journal::files::{self, FileReader, JournalWriter, Pins};
use crate::journal::record::Record;
use crate::journal::{DAMAGED, SPARE_PREFIX};
use crate::options::{Durability, Options};
use crate::retention::pace::Begun;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::segment::open::{OpenSegment, Resumed};
use crate::segment::sealed::{Segment, read_index, read_page};
use crate::segment::tally::Survey;
use crate::state::State;
use crate::status::Recovery;
use crate::timekeeper::{self, Timekeeper};
use crate::volume::{DirectoryVolume, SlotState, Volume};
use seiner_model::SourceKey;
use seiner_platform::{Clock, Disk};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The most bytes of rows that a block can bring: the largest slot, less the room that a replay asks
/// for behind a row. More are damage.
const BLOCK_LIMIT: usize = slab::LARGEST - 8;
/// The measurement under which sources stand whose names are lost.
const LOST: &str = "seiner_lost_source";

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
    let mut state = State::new(options, volume, names_seed, disk.unit());
    let catalog = read_catalog(&*disk, clock, &mut state, &mut recovery)?;
    state.catalog_bytes = catalog.room(state.unit);
    let (timekeeper, told) = Timekeeper::open(disk.clone(), catalog.store)?;
    match told {
        Ok(told) => told
            .into_iter()
            .for_each(|time| state.retention.recall_time(time)),
        Err(damage) => recovery
            .set_aside
            .push((timekeeper::NAME.to_string(), damage.to_string())),
    }
    let mut found = Found::new(state.volume.clone(), catalog.store);
    found.open_segments(&mut state, &mut recovery)?;
    let resumed = std::mem::take(&mut found.resumed);
    let mut replay = Replay::new(&*disk, catalog.store, state, recovery, resumed);
    replay.run()?;
    let Replay {
        mut state,
        mut recovery,
        spares,
        sequence,
        damaged,
        ..
    } = replay;
    state.sequence = sequence;
    let keys = state.dictionary.clone();
    let keys = keys
        .read()
        .expect("no panic while the dictionary is locked");
    if state.retention.rules_change() {
        // What the old rules hid counts rows that were replayed, and hides nothing that is to come.
        state.seal_all()?;
    }
    state.seal_buried()?;
    let next_block = state.next_block;
    state.retention.advance(clock.now(), next_block);
    state.retention.change_rules(
        |source| keys.key(source).expect("numbers are dense"),
        next_block,
    );
    drop(keys);
    recovery.needs_settling = !damaged.is_empty() || memory && state.pins.files() > 0;
    recovery.took_ns = clock.monotonic() - began;
    let mut journal = JournalWriter::new(disk, catalog.store, file_bytes, sequence, spares);
    journal.damaged = damaged;
    let Found {
        files,
        merging,
        copied,
        ..
    } = found;
    Ok(Opened {
        state,
        journal,
        catalog,
        timekeeper,
        recovery,
        files,
        merging,
        copied,
    })
}

// ---- the catalog

fn read_catalog(
    disk: &dyn Disk,
    clock: &dyn Clock,
    state: &mut State,
    recovery: &mut Recovery,
) -> Result<Catalog, Error> {
    let Some(read) = catalog::read(disk)? else {
        if state
            .volume
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
    for ReadFrame {
        offset,
        end_source,
        end_layout,
        frame,
    } in read.frames
    {
        let result = frame.and_then(|frame| {
            lose_sources(state, frame.first_source);
            state.layouts.lose(frame.first_layout);
            add_frame(state, &frame).map_err(|Short| "a frame is malformed".to_string())
        });
        if let Err(what) = result {
            recovery
                .set_aside
                .push((format!("{}, offset {offset}", catalog::NAME), what));
            lose_sources(state, end_source);
            state.layouts.lose(end_layout);
        }
    }
    state.catalogued = (state.buffers.sources() as u32, state.layouts.len() as u32);
    state.next_block = state.next_block.max(state.retention.next_block());
    Ok(open)
}

fn add_frame(state: &mut State, frame: &catalog::Frame) -> Result<(), Short> {
    let mut names = Cursor(&frame.names);
    for _ in 0..frame.sources {
        let key = get_key(&mut names)?;
        add_source(state, &key);
    }
    let mut layouts = Cursor(&frame.layouts);
    for _ in 0..frame.new_layouts {
        get_layout(&mut layouts, &mut state.layouts)?;
    }
    let mut links = Cursor(&frame.links);
    while !links.is_empty() {
        let source = links.count(u32::MAX as usize)? as u32;
        let layout = links.count(state.layouts.len() - 1)? as u32;
        if source as usize >= state.buffers.sources() {
            return Err(Short);
        }
        // What is built on a lost layout would be lost, too.
        let lost = state
            .layouts
            .get(layout)
            .is_none_or(|layout| layout.is_lost());
        state.relink(source, if lost { 0 } else { layout });
    }
    state.retention.recall(&frame.dead)
}

fn add_source(state: &mut State, key: &SourceKey) {
    let dictionary = state.dictionary.clone();
    let (_, new) = dictionary
        .write()
        .expect("no panic while the dictionary is locked")
        .intern(&mut state.names, key);
    if new {
        state.buffers.add_source();
        state
            .retention
            .add_source(key.level_id().is_some(), || key.clone());
    }
}

/// Gives sources up to a number a name that tells that theirs is lost.
fn lose_sources(state: &mut State, up_to: u32) {
    for number in state.buffers.sources() as u32..up_to {
        let key = SourceKey::new(LOST, [("number", number.to_string())]).expect("a good name");
        add_source(state, &key);
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
        }
    }

    fn open_segments(&mut self, state: &mut State, recovery: &mut Recovery) -> Result<(), Error> {
        let mut sealed = Vec::new();
        let mut open = Vec::new();
        for (number, slot) in self.volume.list()? {
            state.next_segment = state.next_segment.max(number + 1);
            let opened = match slot {
                SlotState::Open(0) => self.volume.discard(number, slot),
                SlotState::Open(end) => self
                    .read_chapters(number, end, state.options.piece_bytes())
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
                    recovery.damaged_segments += 1;
                    recovery
                        .set_aside
                        .push((self.volume.name(number), error.to_string()));
                }
                opened => opened?,
            }
        }
        recovery.segments = sealed.len() as u64;
        self.count(state, recovery, sealed, open)
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
        state: &mut State,
        recovery: &mut Recovery,
        sealed: Vec<Arc<Segment>>,
        open: Vec<Resumed>,
    ) -> Result<(), Error> {
        let mut all = Vec::new();
        let mut begun = Begun::default();
        for segment in sealed {
            let merging = self.merging.contains(&segment.trailer.number);
            let mut survey = Survey::new(segment.trailer.number);
            state.next_block = state.next_block.max(segment.trailer.last_block + 1);
            state.retention.recall_time(segment.trailer.born);
            for page in segment.blocks() {
                match page {
                    Ok(entries) => {
                        for entry in &entries {
                            state.retention.found(entry);
                            survey.add(entry, &state.retention, false);
                            if state.retention.is_ring(entry.source) {
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
                    Err(error @ Error::Damage { .. }) => recovery
                        .set_aside
                        .push((segment.name().to_string(), error.to_string())),
                    Err(error) => return Err(error),
                }
            }
            all.push((segment, survey));
        }
        for resumed in &open {
            state.retention.recall_time(resumed.born);
            for entry in &resumed.entries {
                state.retention.found(entry);
                state.next_block = state.next_block.max(entry.number + 1);
            }
        }
        let trailers = all.iter().map(|(segment, _)| &segment.trailer);
        let ends = trailers.map(|trailer| (trailer.last_block + 1, trailer.born));
        state.retention.recall_pace(ends.collect());
        state.retention.recall_paces(&begun);
        self.find_copies(&all, &open)?;
        let moment = state.retention.moment();
        let unit = state.unit;
        let tallied = all.into_iter().map(|(segment, survey)| {
            let trailer = &segment.trailer;
            let mut tally = survey.tally(trailer.lane, segment.room(unit), trailer.born, &moment);
            // What rings let go of is known only now that all is counted.
            tally.ask();
            (segment, tally)
        });
        state.add_sealed(tallied.collect());
        state.next_block = state.next_block.max(state.retention.next_block());
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

// ---- the journal

/// What replaying has come to.
struct Replay<'a> {
    disk: &'a dyn Disk,
    store: u64,
    state: State,
    recovery: Recovery,
    spares: Vec<String>,
    damaged: Vec<u32>,
    /// The sequence of the next record.
    sequence: u64,
    /// Blocks that sealed segments hold.
    sealed_blocks: HashSet<u64>,
    /// Of blocks that were gathered, by source: the numbers of the first and of the last.
    gathered: HashMap<u32, Vec<(u64, u64)>>,
    /// The layouts that sources have according to the catalog.
    linked: Vec<u32>,
    /// Sources whose rows are buffered; the others' wait for the next block to begin.
    follows: Vec<bool>,
    /// Rows of the sources whose blocks were replayed, as far as they are on disk.
    rows: HashMap<u32, u64>,
    /// Segments that were being written; they go on when all their sources are known.
    resumed: Vec<Resumed>,
}

impl<'a> Replay<'a> {
    fn new(
        disk: &'a dyn Disk,
        store: u64,
        state: State,
        recovery: Recovery,
        resumed: Vec<Resumed>,
    ) -> Replay<'a> {
        let linked = (0..state.buffers.sources() as u32)
            .map(|source| state.buffers.line(source).layout)
            .collect();
        Replay {
            disk,
            store,
            state,
            recovery,
            spares: Vec::new(),
            damaged: Vec::new(),
            sequence: 1,
            sealed_blocks: HashSet::new(),
            gathered: HashMap::new(),
            linked,
            follows: Vec::new(),
            rows: HashMap::new(),
            resumed,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let numbers = self.find_files()?;
        let mut readers = Vec::new();
        for &number in &numbers {
            readers.push((number, self.open_file(number)?));
        }
        let first = readers
            .iter()
            .find_map(|(_, reader)| reader.as_ref().map(|reader| reader.sequence));
        self.note_sealed_blocks(first.unwrap_or(u64::MAX))?;
        // Blocks that are begun anew belong to files after all that there are.
        let last = numbers.last().copied();
        self.state.pins = Pins::new(numbers.first().copied().unwrap_or(1));
        self.sequence = first.unwrap_or_else(|| self.sequence_of_segments());
        self.state.sequence = self.sequence;
        for (number, reader) in readers {
            self.state.pins.advance(number);
            match reader {
                Some(reader) => self.replay_file(number, reader)?,
                None => self.state.pins.grow(number, files::FILE_HEADER_BYTES),
            }
        }
        if let Some(last) = last {
            self.state.pins.advance(last + 1);
        }
        self.lose_unnamed();
        for (source, rows) in self.rows.drain() {
            let buffered = u64::from(self.state.buffers.line(source).rows);
            // A file that had been let go came back, and what a ring had let go of with it: it is no
            // beginning for the rows that are to come.
            if self.state.retention.rows(source) + buffered < rows {
                self.state.seal(source)?;
            }
            self.state.retention.had(source, rows);
        }
        let resumed = std::mem::take(&mut self.resumed);
        self.state.resume(resumed);
        self.widen()
    }

    /// Blocks that were replayed may have older layouts than the source has got since.
    fn widen(&mut self) -> Result<(), Error> {
        for (source, layout) in std::mem::take(&mut self.linked).into_iter().enumerate() {
            let columns = |number: u32| {
                self.state
                    .layouts
                    .get(number)
                    .map_or(0, |layout| layout.columns())
            };
            let source = source as u32;
            if columns(layout) > columns(self.state.buffers.line(source).layout) {
                self.state.seal(source)?;
                self.state.relink(source, layout);
            }
        }
        Ok(())
    }

    fn sequence_of_segments(&self) -> u64 {
        self.state
            .sealed
            .values()
            .map(|segment| segment.trailer.sequence)
            .chain(self.resumed.iter().map(|resumed| resumed.sequence))
            .max()
            .unwrap_or(1)
    }

    /// The numbers of the journal's files, without gaps up to the last; files before a gap were let
    /// go, and only their names came back.
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
        let gap = numbers
            .windows(2)
            .rposition(|pair| pair[1] != pair[0] + 1)
            .map_or(0, |at| at + 1);
        for number in numbers.drain(..gap) {
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

    fn open_file(&mut self, number: u32) -> Result<Option<FileReader>, Error> {
        let name = files::name(number);
        let file = self
            .disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))?;
        file.sync()
            .map_err(io_error(|| format!("syncing {name}")))?;
        let reader = FileReader::open(&*file, number, self.store)
            .map_err(io_error(|| format!("reading {name}")))?;
        self.recovery.journal_files += 1;
        if reader.is_none() {
            let len = file.len().map_err(io_error(|| format!("reading {name}")))?;
            let mut bytes = vec![0; len as usize];
            file.read_at(0, &mut bytes)
                .map_err(io_error(|| format!("reading {name}")))?;
            // A file whose header never reached the disk holds nothing that was acknowledged.
            if !files::never_begun(&bytes, number) {
                self.set_aside(number, "its header is damaged".to_string());
            }
        }
        Ok(reader)
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
            .state
            .sealed
            .clone()
            .values()
            .filter(|segment| segment.trailer.sequence >= first_sequence)
        {
            for page in segment.blocks() {
                match page {
                    Ok(entries) => self.note_blocks(&entries),
                    Err(error) => self
                        .recovery
                        .set_aside
                        .push((segment.name().to_string(), error.to_string())),
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
        self.sealed_blocks.contains(&block)
            || self
                .gathered
                .get(&source)
                .is_some_and(|blocks| blocks.iter().any(within))
    }

    fn replay_file(&mut self, number: u32, mut reader: FileReader) -> Result<(), Error> {
        if reader.sequence != self.sequence {
            // The file before ended early; this one is whole.
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
            self.state.sequence = reader.sequence;
            while let Some((at, body)) = reader.next_body() {
                self.state.sequence += 1;
                let record = Record::decode(body);
                if record
                    .and_then(|record| self.replay_record(&record))
                    .is_err()
                {
                    self.lose_the_thread(
                        number,
                        format!("the record at offset {at} is malformed"),
                    )?;
                }
            }
            let Some(later) = reader.later_record() else {
                break;
            };
            let from = reader.at();
            reader.skip_to(later);
            self.lose_the_thread(number, format!("bytes {from} to {later} are damaged"))?;
        }
        self.sequence = reader.sequence;
        self.recovery.torn_bytes = reader.torn_bytes();
        self.recovery.journal_bytes += reader.at();
        self.state.pins.grow(number, reader.len());
        Ok(())
    }

    /// Records are missing: what was buffered is sealed as it is, and rows count again from the
    /// next block of their source on.
    fn lose_the_thread(&mut self, damaged: u32, why: String) -> Result<(), Error> {
        self.set_aside(damaged, why);
        self.follows.fill(false);
        self.state.seal_all()
    }

    fn replay_record(&mut self, record: &Record) -> Result<(), Short> {
        let [names, layouts, widths, sources, starts, codes, payload] =
            record.streams.each_ref().map(|stream| Cursor(stream));
        self.replay_names(record, names)?;
        self.replay_layouts(record, layouts)?;
        self.follows.resize(self.state.buffers.sources(), false);
        Rows {
            widths,
            sources,
            starts,
            codes,
            payload,
            next_source: 0,
            next_block: 0,
        }
        .replay(record.rows, self)
    }

    fn replay_names(&mut self, record: &Record, mut names: Cursor<'_>) -> Result<(), Short> {
        if record.new_sources > 0 {
            lose_sources(
                &mut self.state,
                u32::try_from(record.first_source).map_err(|_| Short)?,
            );
        }
        for number in record.first_source..record.first_source.saturating_add(record.new_sources) {
            let key = get_key(&mut names)?;
            if number >= self.state.buffers.sources() as u64 {
                add_source(&mut self.state, &key);
            }
        }
        Ok(())
    }

    fn replay_layouts(&mut self, record: &Record, mut layouts: Cursor<'_>) -> Result<(), Short> {
        if record.new_layouts > 0 {
            self.state
                .layouts
                .lose(u32::try_from(record.first_layout).map_err(|_| Short)?);
        }
        for _ in 0..record.new_layouts {
            // Known ones are found again under their number.
            get_layout(&mut layouts, &mut self.state.layouts)?;
        }
        Ok(())
    }

    /// Segments may know of more sources than the catalog and the journal, if those are damaged.
    fn lose_unnamed(&mut self) {
        let sources = self
            .state
            .sealed
            .values()
            .map(|segment| segment.trailer.sources)
            .chain(self.resumed.iter().map(|resumed| resumed.sources))
            .max()
            .unwrap_or(0);
        let layouts = self
            .state
            .sealed
            .values()
            .map(|segment| segment.trailer.layouts)
            .chain(self.resumed.iter().map(|resumed| resumed.layouts))
            .max()
            .unwrap_or(0);
        self.state.layouts.lose(layouts);
        let known = self.state.buffers.sources() as u32;
        if sources > known {
            let what = format!(
                "the names of {} sources are lost; they stand under {LOST}",
                sources - known
            );
            self.recovery
                .set_aside
                .push((catalog::NAME.to_string(), what));
            lose_sources(&mut self.state, sources);
        }
    }
}

/// The rows of a record.
struct Rows<'a> {
    widths: Cursor<'a>,
    sources: Cursor<'a>,
    starts: Cursor<'a>,
    codes: Cursor<'a>,
    payload: Cursor<'a>,
    next_source: i64,
    next_block: u64,
}

impl Rows<'_> {
    fn replay(mut self, rows: u64, replay: &mut Replay<'_>) -> Result<(), Short> {
        let mut left = 0;
        let mut columns = 0;
        for _ in 0..rows {
            if left == 0 {
                columns = self.widths.count(crate::MAX_FIELDS)?;
                left = self.widths.varint()?;
            }
            left = left.checked_sub(1).ok_or(Short)?;
            self.replay_row(columns, replay)?;
        }
        Ok(())
    }

    fn replay_row(&mut self, columns: usize, replay: &mut Replay<'_>) -> Result<(), Short> {
        let source = self
            .next_source
            .checked_add(self.sources.signed()?)
            .ok_or(Short)?;
        let source = u32::try_from(source).map_err(|_| Short)?;
        self.next_source = i64::from(source) + 1;
        let mut follows = replay.follows.get(source as usize).copied().ok_or(Short)?;
        if columns == 1
            && follows
            && replay.state.has_one_number(source)
            && let Some(&codes) = self.codes.0.first()
            && let Some(len) = replay
                .state
                .buffers
                .replay_number(source, codes, self.payload.0)
        {
            self.codes.take(1)?;
            self.payload.take(len)?;
            replay.state.position += 1;
            replay.recovery.rows_replayed += 1;
            return Ok(());
        }
        let codes = self.codes.take(row::codes_bytes(columns))?;
        let len = row::payload_bytes(codes, columns, self.payload.0).map_err(|_| Short)?;
        let payload = self.payload.take(len)?;
        if row::is_start(codes) {
            let block = self.next_block.wrapping_add(self.starts.signed()? as u64);
            let layout = self.starts.count(replay.state.layouts.len() - 1)? as u32;
            let before = self.starts.varint()?;
            self.next_block = block.wrapping_add(1);
            if block > COUNT_LIMIT || before > COUNT_LIMIT {
                return Err(Short);
            }
            follows = replay
                .begin_block(source, block, layout, before)
                .map_err(|_| Short)?;
        }
        if !follows {
            replay.recovery.rows_skipped += 1;
            return Ok(());
        }
        let state = &mut replay.state;
        let layout = state
            .layouts
            .get(state.buffers.line(source).layout)
            .ok_or(Short)?
            .clone();
        let bytes = state.buffers.line(source).bytes as usize + codes.len() + payload.len();
        if layout.columns() != columns || bytes > BLOCK_LIMIT {
            return Err(Short);
        }
        state
            .buffers
            .replay(source, &layout, codes, payload)
            .map_err(|_| Short)?;
        state.position += 1;
        replay.recovery.rows_replayed += 1;
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
        let state = &mut self.state;
        // The block before was sealed at this point, into a segment that is lost.
        state.seal(source)?;
        state.next_block = state.next_block.max(block.saturating_add(1));
        // Rows cannot be read without their layout, which damage may have taken.
        let lost = state
            .layouts
            .get(layout)
            .is_none_or(|layout| layout.is_lost());
        let follows = !lost && !sealed;
        self.follows[source as usize] = follows;
        if follows {
            if state.buffers.line(source).layout != layout {
                state.relink(source, layout);
            }
            let file = state.pins.current();
            state.pins.pin(file);
            let line = state.buffers.line_mut(source);
            line.block = block;
            line.journal_file = file;
            // Of a source's blocks, a later one may be on disk already.
            let rows = state.retention.recount(source, before);
            self.rows.entry(source).or_insert(rows);
        }
        Ok(follows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::put_text;
    use crate::catalog::put_key;
    use crate::engine::Engine;
    use crate::journal::staging::Staging;
    use seiner_codec::varint;
    use seiner_model::FieldType;
    use seiner_platform::sim::{SimClock, SimDisk};

    /// The rows replayed, and the places set aside, of a journal of one record, which registers a
    /// source and a layout with one text, and has what is staged besides.
    fn replay(stage: impl FnOnce(&mut Staging)) -> (u64, usize) {
        let disk = SimDisk::new(1);
        let store = Catalog::create(&disk, 7).unwrap().store;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let mut journal = JournalWriter::new(disk.clone(), store, 64 << 10, 1, Vec::new());
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
        let engine = Engine::open(disk, Arc::new(SimClock::new(0)), Options::default()).unwrap();
        let recovery = engine.recovery();
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

    #[test]
    fn a_block_larger_than_any_buffer_is_damage() {
        let (rows, damaged) = replay(|staging| texts(staging, 0, 0, 40, u16::MAX));
        assert_eq!((rows, damaged), (31, 1));
    }
}
