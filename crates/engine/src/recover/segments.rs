//! Segments that a start finds.

use crate::error::{Error, io_error};
use crate::head::Head;
use crate::ledger::Ledger;
use crate::log::Log;
use crate::maps::HashSet;
use crate::opened::Parts;
use crate::recover::losses::{loss_of_page, note_of, unknown_loss};
use crate::retention::pace::Begun;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::segment::open::{OpenSegment, Resumed};
use crate::segment::sealed::{Segment, read_index, read_page};
use crate::segment::stats::LivenessScan;
use crate::status::{Loss, Recovery};
use crate::volume::{SlotState, Volume};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Description of a loss: the index of a segment is unreadable.
const ASIDE: &str = "the segment is damaged and was set aside";

/// Segments found on the volume.
pub(super) struct FoundSegments {
    volume: Arc<dyn Volume>,
    store: u64,
    pub(super) files: Arc<Files>,
    /// Sealed segments that were being merged. The next field has their blocks: source, number and
    /// segment, and the first coalesced number.
    pub(super) merging: HashSet<u64>,
    victims: BTreeMap<(u32, u64, u64), u64>,
    /// Blocks of these segments that other segments also contain, as segment and number.
    pub(super) copied: HashSet<(u64, u64)>,
    /// Segments that were being written.
    pub(super) resumed: Vec<Resumed>,
    /// Segments that were set aside at this start.
    aside: Vec<u64>,
}

impl FoundSegments {
    pub(super) fn new(volume: Arc<dyn Volume>, store: u64) -> FoundSegments {
        FoundSegments {
            files: Arc::new(Files::new(volume.clone())),
            volume,
            store,
            merging: HashSet::default(),
            victims: BTreeMap::new(),
            copied: HashSet::default(),
            resumed: Vec::new(),
            aside: Vec::new(),
        }
    }

    pub(super) fn open_segments(
        &mut self,
        parts: &mut Parts,
        recovery: &mut Recovery,
    ) -> Result<(), Error> {
        let mut sealed = Vec::new();
        let mut open = Vec::new();
        for (number, slot) in self.volume.list()? {
            parts.log.note_segment(number);
            let opened = match slot {
                SlotState::Open(0) => self.volume.discard(number, slot),
                SlotState::Open(end) => self
                    .read_checkpoints(number, end, parts.options.piece_bytes())
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

    /// Compares the segments with those in the ledger. A segment that is missing or was set aside
    /// is a loss. A new segment is added to the ledger.
    pub(super) fn compare(
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

    /// Reads the blocks in the checkpoints of a segment. Each checkpoint stores the end of the previous
    /// checkpoint.
    fn read_checkpoints(&self, number: u64, end: u64, piece: u64) -> Result<Resumed, Error> {
        let file = self.volume.open(number, SlotState::Open(end))?;
        let name = self.volume.name(number);
        let (mut entries, mut at) = (Vec::new(), end);
        let (mut lane, mut born) = (0, i64::MIN);
        let (mut sequence, mut sources, mut layouts) = (0, 0, 0);
        while at > 0 {
            let (trailer, sparse_index) = read_index(&*file, &name, self.store, at)?;
            if trailer.number != number || trailer.previous >= at {
                return Err(Error::Damage {
                    file: name,
                    offset: at,
                    what: format!("a checkpoint of segment {} ends here", trailer.number),
                });
            }
            for page in &sparse_index {
                entries.extend(read_page(&*file, &name, at, page)?);
            }
            (lane, born, at) = (trailer.lane, born.max(trailer.born), trailer.previous);
            sequence = trailer.sequence.max(sequence);
            sources = trailer.sources.max(sources);
            layouts = trailer.layouts.max(layouts);
        }
        let allocated = file.allocated();
        let allocated = allocated.map_err(io_error(|| format!("reading {name}")))?;
        let mut segment = OpenSegment::new(number, lane, file, piece);
        segment.reserved = allocated;
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

    /// Counts rows of rings, block numbers, and live and dead bytes.
    fn count(
        &mut self,
        parts: &mut Parts,
        recovery: &mut Recovery,
        sealed: Vec<Arc<Segment>>,
        open: Vec<Resumed>,
    ) -> Result<(), Error> {
        let Parts { head, log, .. } = parts;
        let absent = head.members().absent();
        let mut occupied = RoaringBitmap::new();
        let mut occupy = |entries: &[Entry]| {
            if !absent.is_empty() {
                occupied.extend(entries.iter().map(|entry| entry.source));
            }
        };
        let mut all = Vec::new();
        let mut begun = Begun::default();
        for segment in sealed {
            let merging = self.merging.contains(&segment.trailer.number);
            let mut scan = LivenessScan::new(segment.trailer.number);
            head.begin_blocks_at(segment.trailer.last_block + 1);
            log.retention.recall_born(segment.trailer.born);
            for page in segment.blocks() {
                match page {
                    Ok(entries) => {
                        occupy(&entries);
                        for entry in &entries {
                            note_found(head, log, entry);
                            scan.add(entry, &log.retention, false);
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
                    // Blocks of an unreadable page are neither dropped nor merged.
                    Err(error @ Error::Damage { .. }) => {
                        let name = segment.name().to_string();
                        recovery.losses.push(loss_of_page(&segment, &error));
                        recovery.set_aside.push((name, error.to_string()));
                    }
                    Err(error) => return Err(error),
                }
            }
            all.push((segment, scan));
        }
        for resumed in &open {
            log.retention.recall_born(resumed.born);
            occupy(&resumed.entries);
            for entry in &resumed.entries {
                note_found(head, log, entry);
                head.begin_blocks_at(entry.number + 1);
            }
        }
        head.occupy(absent & occupied);
        let trailers = all.iter().map(|(segment, _)| &segment.trailer);
        let ends = trailers.map(|trailer| (trailer.last_block + 1, trailer.born));
        log.retention.recall_pace(ends.collect());
        log.retention.recall_paces(&begun);
        self.find_copies(&all, &open)?;
        let clocks = log.retention.clocks();
        let unit = log.unit();
        let counted = all.into_iter().map(|(segment, scan)| {
            let trailer = &segment.trailer;
            let mut stats = scan.stats(
                trailer.lane,
                segment.disk_bytes(unit),
                trailer.born,
                &clocks,
            );
            // The limits of rings are known only after everything has been counted.
            stats.request_scan();
            (segment, stats)
        });
        log.add_sealed(counted.collect());
        head.begin_blocks_at(log.retention.next_block());
        self.resumed = open;
        Ok(())
    }

    /// Finds blocks of partly merged segments that other segments also contain.
    fn find_copies(
        &mut self,
        sealed: &[(Arc<Segment>, LivenessScan)],
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

/// Records a block found on disk.
fn note_found(head: &mut Head, log: &mut Log, entry: &Entry) {
    if entry.source < head.sources() {
        head.had(entry.source, entry.ordinal);
    }
    log.retention.found(entry);
}
