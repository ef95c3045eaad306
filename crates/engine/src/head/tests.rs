//! Tests of head and log without an engine: rows are appended, and blocks are added to open
//! segments.

use super::*;
use crate::MAX_TEXT_BYTES;
use crate::catalog::{Frame, put_link};
use crate::error::Error;
use crate::exchange::inform;
use crate::opened::Parts;
use crate::options::{Bundling, Together};
use crate::retention::class::{Class, Classes};
use crate::sealer;
use crate::sealing::encode::Encoder;
use crate::segment::ALIGNMENT;
use crate::volume::{DirectoryVolume, SlotState, Volume};
use seiner_model::SourceKey;
use seiner_platform::File;
use seiner_platform::sim::{SimClock, SimDisk};
use std::io::ErrorKind;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Volume on a simulated disk. No slot can be claimed while the disk is full.
struct Slots {
    slots: DirectoryVolume,
    full: AtomicBool,
}

impl Volume for Slots {
    fn claim(&self, number: u64) -> Result<Arc<dyn File>, Error> {
        if self.full.load(Relaxed) {
            return Err(Error::Io {
                context: "claiming".to_string(),
                error: ErrorKind::StorageFull.into(),
            });
        }
        self.slots.claim(number)
    }

    fn list(&self) -> Result<Vec<(u64, SlotState)>, Error> {
        self.slots.list()
    }

    fn open(&self, number: u64, state: SlotState) -> Result<Arc<dyn File>, Error> {
        self.slots.open(number, state)
    }

    fn turn(&self, number: u64, from: SlotState, to: SlotState) -> Result<(), Error> {
        self.slots.turn(number, from, to)
    }

    fn sync(&self) -> Result<(), Error> {
        self.slots.sync()
    }

    fn discard(&self, number: u64, state: SlotState) -> Result<(), Error> {
        self.slots.discard(number, state)
    }

    fn name(&self, number: u64) -> String {
        self.slots.name(number)
    }
}

struct World {
    slots: Arc<Slots>,
    parts: Parts,
}

fn world(durability: Durability) -> World {
    world_with(durability, Classes::default())
}

fn world_with(durability: Durability, classes: Classes) -> World {
    let disk = Arc::new(SimDisk::new(1));
    let options = Options {
        durability,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        memory: 2 << 20,
        classes,
        ..Options::default()
    };
    let slots = Arc::new(Slots {
        slots: DirectoryVolume::new(disk),
        full: AtomicBool::new(false),
    });
    let parts = Parts::new(options, 7, ALIGNMENT as u64);
    World { slots, parts }
}

impl World {
    fn head(&mut self) -> &mut Head {
        &mut self.parts.head
    }

    fn register(&mut self, name: &str) -> Result<u32, Reason> {
        let dictionary = self.head().dictionary.clone();
        let key = SourceKey::new(name, [("a", "b")]).unwrap();
        let mut dictionary = dictionary.write().unwrap();
        self.head().register(&mut dictionary, &key)
    }

    fn append(
        &mut self,
        source: u32,
        time: i64,
        cells: &[(&str, Value<'_>)],
    ) -> Result<(), Reason> {
        let cells: Vec<Cell<'_>> = cells
            .iter()
            .map(|&(field, value)| Cell {
                field: field.as_bytes(),
                value,
            })
            .collect();
        let (mut values, mut receipt) = (Vec::new(), Receipt::default());
        let result = self
            .head()
            .append(source, time, &cells, &mut values, &mut receipt);
        let rows = usize::from(result.is_ok());
        assert_eq!((receipt.rows, receipt.samples), (rows, rows * cells.len()));
        result
    }

    /// Seals the buffer of a source into a block.
    fn seal(&mut self, source: u32) -> Result<(), Error> {
        self.head().seal(source);
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        sealer::run_alone(&mut self.parts, &*self.slots, &mut Encoder::default())
    }

    /// Returns the blocks in open segments: source, number, rows, first and last time, rows before,
    /// late.
    fn blocks(&mut self) -> Vec<(u32, u64, u32, i64, i64, u64, bool)> {
        self.finish().unwrap();
        let open = self.parts.log.open().iter();
        let blocks = open.flat_map(|open| open.listing().entries());
        let mut blocks: Vec<_> = blocks
            .map(|e| {
                (
                    e.source, e.number, e.rows, e.first, e.last, e.before, e.late,
                )
            })
            .collect();
        blocks.sort_unstable();
        blocks
    }

    /// Returns the numbers of the blocks that readers find in memory.
    fn unsealed(&self, source: u32) -> Vec<u64> {
        let Parts { head, log, .. } = &self.parts;
        let visibility = log.retention.visibility(source, head.rows_of(source));
        let blocks = head.unsealed(source, log.logged(), &visibility);
        blocks.iter().map(|block| block.number).collect()
    }

    /// Performs the work that precedes a batch.
    fn relieve_journal(&mut self) {
        let Parts { head, log, .. } = &mut self.parts;
        inform(head, log, &SimClock::new(0));
        head.relieve_journal();
        inform(head, log, &SimClock::new(0));
    }

    /// Returns the bytes that the store uses.
    fn used(&self) -> u64 {
        self.parts.log.used(&self.parts.head.load())
    }

    /// Returns the bytes of open segments on the disk, which grow as blocks are added to the log.
    fn open_bytes(&self) -> u64 {
        let load = self.parts.head.load();
        self.parts.log.used_by_files(&load)
    }

    fn extend_frame(&mut self, frame: &mut Frame) -> Extent {
        let Parts { head, log, .. } = &mut self.parts;
        head.extend_catalog_frame(&mut log.retention, frame)
    }

    /// Returns a frame with everything that the catalog does not contain.
    fn frame(&mut self) -> Frame {
        let mut frame = Frame::default();
        while self.extend_frame(&mut frame) == Extent::Part {}
        frame
    }

    /// Returns the state that a rejected row must not change.
    fn trace(&self) -> (u64, u64, u64, usize, u64, usize) {
        let state = &self.parts.head;
        (
            state.position,
            state.next_block,
            state.buffers.rows(),
            state.layouts.len(),
            state.series,
            state.staging.bytes(),
        )
    }
}

#[test]
fn a_source_is_registered_once_and_staged_for_the_journal() {
    let mut world = world(Durability::Sync);
    assert_eq!(world.register("m"), Ok(0));
    assert_eq!(world.register("n"), Ok(1));
    assert_eq!(world.register("m"), Ok(0));
    let staging = &world.parts.head.staging;
    assert_eq!((staging.first_source, staging.new_sources), (0, 2));
    assert_eq!(
        (
            world.parts.head.position,
            world.parts.head.buffers.sources()
        ),
        (2, 2)
    );
}

#[test]
fn a_full_registry_keeps_its_sources_and_accepts_no_more() {
    let mut world = world(Durability::Memory);
    world.register("m").unwrap();
    world.head().registry_full = true;
    assert_eq!(world.register("m"), Ok(0));
    assert_eq!(world.register("n"), Err(Reason::TooManySources));
    assert_eq!(world.parts.head.buffers.sources(), 1);
}

#[test]
fn rejected_rows_leave_no_trace() {
    let mut world = world(Durability::Sync);
    let source = world.register("m").unwrap();
    let (one, text) = (Value::F64(1.0), "x".repeat(MAX_TEXT_BYTES + 1));
    world.append(source, 1, &[("v", one), ("w", one)]).unwrap();
    let before = world.trace();
    let long_name = "x".repeat(1025);
    let expected = Reason::FieldType {
        field: "v".to_string(),
        stored: FieldType::F64,
        sent: FieldType::Str,
    };
    let rejected: [(&[(&str, Value<'_>)], Reason); 7] = [
        (&[], Reason::Fields),
        (&[("v", one), ("v", one)], Reason::Fields),
        (&[("new", one), ("new", one)], Reason::Fields),
        (&[("new", one), ("v", Value::Str("x"))], expected),
        (&[("", one)], Reason::FieldName),
        (&[(&long_name, one)], Reason::FieldName),
        (
            &[("t", Value::Str(&text))],
            Reason::TextTooLong(MAX_TEXT_BYTES + 1),
        ),
    ];
    for (cells, reason) in rejected {
        assert_eq!(world.append(source, 2, cells), Err(reason));
        assert_eq!(world.trace(), before);
    }
}

#[test]
fn a_full_buffer_becomes_a_block_and_rows_go_on_in_the_next() {
    let mut world = world(Durability::Sync);
    let source = world.register("m").unwrap();
    let mut rows = 0;
    while world.blocks().is_empty() {
        assert!(rows < 1000, "256 bytes cannot hold 1000 numbers");
        world
            .append(source, rows, &[("v", Value::F64(rows as f64 / 3.0))])
            .unwrap();
        rows += 1;
    }
    // The row that did not fit is the first of the second block.
    let sealed = rows - 1;
    let expected = (source, 1, sealed as u32, 0, sealed - 1, 0, false);
    assert_eq!(world.blocks(), [expected]);
    assert_eq!(
        (world.parts.head.buffers.rows(), world.parts.head.next_block),
        (1, 3)
    );
    world.seal(source).unwrap();
    let last = (source, 2, 1, sealed, sealed, sealed as u64, false);
    assert_eq!(world.blocks(), [expected, last]);
    let counters = &world.parts.log.counters;
    assert_eq!((counters.blocks, counters.block_samples), (2, rows as u64));
    // An empty buffer seals to nothing.
    world.seal(source).unwrap();
    assert_eq!(world.blocks().len(), 2);
}

/// Forecasts divide rows in the log by blocks. They once counted all blocks begun, so a store that
/// was written at full speed took dead blocks for live ones, and merged three times as many bytes.
#[test]
fn blocks_begun_while_buffers_wait_for_the_log_do_not_count() {
    let mut world = world(Durability::Memory);
    let sources: Vec<u32> = ["a", "b", "c"]
        .map(|name| world.register(name).unwrap())
        .to_vec();
    let one = [("v", Value::F64(1.5))];
    let logged = |world: &World| {
        let head = &world.parts.head;
        (head.logged_block(), head.next_block())
    };
    world.append(sources[0], 1, &one).unwrap();
    assert_eq!(logged(&world), (2, 2), "no buffer waits");
    world.head().seal(sources[0]);
    for &source in &sources {
        world.append(source, 2, &one).unwrap();
    }
    assert_eq!(logged(&world), (2, 5));
    world.head().seal(sources[1]);
    assert_eq!(logged(&world), (2, 5), "the oldest buffer counts");
    world.finish().unwrap();
    assert_eq!(logged(&world), (5, 5));
}

#[test]
fn rows_of_a_block_are_sorted_and_a_block_that_reaches_back_is_late() {
    let mut world = world(Durability::Memory);
    let source = world.register("m").unwrap();
    for time in [30, 10, 20] {
        world
            .append(source, time, &[("v", Value::F64(1.5))])
            .unwrap();
    }
    world.seal(source).unwrap();
    for time in [5, 15] {
        world
            .append(source, time, &[("v", Value::F64(2.5))])
            .unwrap();
        world.seal(source).unwrap();
    }
    assert_eq!(
        world.blocks(),
        [
            (source, 1, 3, 10, 30, 0, false),
            (source, 2, 1, 5, 5, 3, true),
            // The block begins after the beginnings of all others, whatever their ends.
            (source, 3, 1, 15, 15, 4, false),
        ]
    );
}

#[test]
fn a_new_field_seals_the_block_and_links_the_source_anew() {
    let mut world = world(Durability::Sync);
    let source = world.register("m").unwrap();
    world.append(source, 1, &[("v", Value::F64(1.0))]).unwrap();
    assert_eq!((world.parts.head.series, world.blocks().len()), (1, 0));
    let both = [("w", Value::Bool(true)), ("v", Value::F64(2.0))];
    world.append(source, 2, &both).unwrap();
    assert_eq!((world.parts.head.series, world.blocks().len()), (2, 1));
    // Fields in another order do not make another layout.
    world.append(source, 3, &[both[1], both[0]]).unwrap();
    assert_eq!(world.blocks().len(), 1);
    assert!(!world.head().has_one_number(source));
    assert_eq!(world.head().only_layout(source, "v", FieldType::F64), None);
}

#[test]
fn rows_stay_queued_while_no_segment_can_be_created() {
    let mut world = world(Durability::Memory);
    let source = world.register("m").unwrap();
    world.append(source, 1, &[("v", Value::F64(1.0))]).unwrap();
    world.slots.full.store(true, Relaxed);
    let error = world.seal(source).unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    assert_eq!(
        (world.head().buffers.rows(), world.parts.log.open().len()),
        (1, 0)
    );
    assert_eq!(
        world.unsealed(source).len(),
        1,
        "readers find the taken buffer"
    );
    world.slots.full.store(false, Relaxed);
    world.finish().unwrap();
    assert_eq!(
        (world.parts.head.buffers.rows(), world.blocks().len()),
        (0, 1)
    );
    assert!(world.unsealed(source).is_empty());
}

#[test]
fn a_frame_contains_each_new_name_and_each_new_layout_once() {
    let mut world = world(Durability::Sync);
    let source = world.register("m").unwrap();
    world.append(source, 1, &[("v", Value::F64(1.0))]).unwrap();
    assert!(world.head().has_new_names());
    let frame = world.frame();
    assert_eq!((frame.sources, frame.new_layouts), (1, 1));
    // The frame is not written yet.
    assert!(world.head().has_new_names());
    world.head().note_frame_written();
    assert!(!world.head().has_new_names());
    assert!(world.frame().is_empty());
    world.append(source, 2, &[("w", Value::F64(1.0))]).unwrap();
    let frame = world.frame();
    assert_eq!(
        (frame.first_source, frame.sources, frame.new_layouts),
        (1, 0, 1)
    );
    let mut link = Vec::new();
    put_link(source, world.head().buffers.layout(source), &mut link);
    assert_eq!(frame.links, link);
}

/// Seed 32 of the simulator: a ring showed rows of taken buffers that it had expired.
#[test]
fn a_ring_expires_taken_buffers_like_blocks() {
    let mut class = Class::forever();
    class.keep.rows = Some(2);
    let mut world = world_with(Durability::Memory, Classes::new(vec![class]).unwrap());
    let source = world.register("m").unwrap();
    for time in 0..4 {
        world
            .append(source, time, &[("v", Value::F64(1.0))])
            .unwrap();
        world.head().seal(source);
    }
    // Four blocks of one row each. Two of the blocks are kept.
    assert_eq!(world.unsealed(source), [3, 4]);
    world.append(source, 4, &[("v", Value::F64(1.0))]).unwrap();
    assert_eq!(world.unsealed(source), [4, 5]);
}

#[test]
fn a_long_frame_is_taken_in_parts_and_is_the_same() {
    let mut world = world(Durability::Sync);
    let long = "x".repeat(4000);
    for number in 0..40 {
        world.register(&format!("{long}{number}")).unwrap();
    }
    let mut frame = Frame::default();
    // 160 KB of names, 16 KiB a part, and a frame has 64 KiB with so little memory.
    let mut parts = 0;
    while world.extend_frame(&mut frame) == Extent::Part {
        parts += 1;
    }
    assert!(frame.sources < 40 && frame.names.len() >= 64 << 10);
    assert_eq!((parts, world.parts.head.catalogued.0), (3, frame.sources));
    let options = Options {
        memory: 1 << 30,
        ..(*world.parts.options).clone()
    };
    world.head().options = Arc::new(options);
    let mut rest = Frame::default();
    while world.extend_frame(&mut rest) == Extent::Part {
        parts += 1;
    }
    assert!(parts > 6, "a frame of 4 MiB has many parts");
    assert_eq!(
        (rest.first_source, frame.sources + rest.sources),
        (frame.sources, 40)
    );
    assert!(world.frame().is_empty());
}

#[test]
fn sources_of_the_oldest_journal_file_are_sealed_at_three_quarters() {
    let mut world = world(Durability::Sync);
    let old = world.register("old").unwrap();
    let new = world.register("new").unwrap();
    world.append(old, 1, &[("v", Value::F64(1.0))]).unwrap();
    let first = world.head().pins.current();
    world.head().pins.grow(first, 47 << 10);
    world.head().pins.rotate();
    world.append(new, 1, &[("v", Value::F64(1.0))]).unwrap();
    world.relieve_journal();
    assert_eq!(world.blocks(), [], "48 KiB of 64 are three quarters");
    let second = world.head().pins.current();
    world.head().pins.grow(second, 1 << 10);
    world.relieve_journal();
    let sources: Vec<u32> = world.blocks().iter().map(|block| block.0).collect();
    assert_eq!(sources, [old]);
    assert!(world.parts.log.is_checkpoint_due());
    // At the bound, another checkpoint is requested, but no source is examined again.
    world.parts.log.set_checkpoint_due(false);
    world.head().pins.grow(second, 64 << 10);
    world.head().relief.cursor = 1;
    world.relieve_journal();
    assert!(world.parts.log.is_checkpoint_due() && world.head().relief.cursor == 1);
}

#[test]
fn idle_sources_are_sealed_and_busy_ones_are_not() {
    let mut world = world(Durability::Memory);
    let idle = world.register("idle").unwrap();
    let busy = world.register("busy").unwrap();
    world.head().tick = u16::MAX;
    world.append(idle, 1, &[("v", Value::F64(1.0))]).unwrap();
    // Ticks wrap around.
    world.head().tick = 6;
    world.append(busy, 1, &[("v", Value::F64(1.0))]).unwrap();
    world.head().seal_idle(0..2, 8);
    assert_eq!(world.blocks().len(), 0);
    world.head().tick = 7;
    world.head().seal_idle(0..2, 8);
    let sources: Vec<u32> = world.blocks().iter().map(|block| block.0).collect();
    assert_eq!(sources, [idle]);
}

#[test]
fn open_segments_are_counted_and_rows_are_reserved() {
    let mut world = world(Durability::Memory);
    let source = world.register("m").unwrap();
    let (used, load) = (world.used(), world.parts.head.load());
    assert_eq!(
        (load.rows, load.blocks, world.parts.log.open().len()),
        (0, 0, 0)
    );
    world.append(source, 1, &[("v", Value::F64(1.0))]).unwrap();
    let load = world.parts.head.load();
    assert_eq!(load.blocks, 1);
    assert!(load.rows > 0);
    assert_eq!(world.used(), used, "rows are reserved, not used");
    let files = world.open_bytes();
    world.seal(source).unwrap();
    let open = world.open_bytes() - files;
    assert!(open > 0 && open.is_multiple_of(ALIGNMENT as u64), "{open}");
    assert_eq!(world.used(), used + open);
    let load = world.parts.head.load();
    world.parts.log.note_free(Some(0), &load);
    assert!(world.parts.log.is_crowded());
    assert_eq!(world.parts.log.headroom(&load), 0);
    assert!(!world.parts.log.may_shed(), "others took the space");
}

/// Between its two locks, the sealer has added a block to the log, and the buffer is still in the
/// queue.
#[test]
fn a_buffer_whose_block_is_in_the_log_is_not_read_twice() {
    let mut world = world(Durability::Memory);
    let source = world.register("m").unwrap();
    for time in 0..3 {
        world
            .append(source, time, &[("v", Value::F64(1.0))])
            .unwrap();
        world.head().seal(source);
    }
    world.append(source, 3, &[("v", Value::F64(1.0))]).unwrap();
    for _ in 0..2 {
        let number = world.parts.log.number_segment();
        let file = world.slots.claim(number).unwrap();
        world.parts.log.add_slots([(number, file)]);
    }
    let mut encoder = Encoder::new(Together {
        bundling: Bundling::Never,
        ..Together::default()
    });
    world.parts.head.copy_taken(u64::MAX, &mut encoder);
    encoder.encode();
    let done = world
        .parts
        .log
        .append_encoded(&encoder.blocks()[..2], &encoder);
    assert_eq!((done, world.parts.head.sealing.len()), (2, 3));
    assert_eq!(world.unsealed(source), [3, 4]);
    world.head().free_taken(done);
    assert_eq!(world.unsealed(source), [3, 4]);
    assert_eq!(world.parts.head.sealing.len(), 1);
}

#[test]
fn readers_find_taken_buffers_oldest_first_and_before_the_open_one() {
    let mut world = world(Durability::Memory);
    let (one, other) = (world.register("m").unwrap(), world.register("n").unwrap());
    for (source, time) in [(one, 1), (other, 2), (one, 3)] {
        world
            .append(source, time, &[("v", Value::F64(1.0))])
            .unwrap();
        world.head().seal(source);
    }
    world.append(one, 4, &[("v", Value::F64(1.0))]).unwrap();
    let numbers = |world: &World, source| -> Vec<u64> { world.unsealed(source) };
    assert_eq!(numbers(&world, one), [1, 3, 4]);
    assert_eq!(numbers(&world, other), [2]);
    assert_eq!(
        (
            world.parts.head.buffers.rows(),
            world.parts.head.load().blocks
        ),
        (4, 4)
    );
    assert_eq!(world.blocks().len(), 3);
    assert_eq!(numbers(&world, one), [4]);
    assert_eq!(
        (
            world.parts.head.buffers.rows(),
            world.parts.head.load().blocks
        ),
        (1, 1)
    );
}
