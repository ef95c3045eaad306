//! Small blocks and lines: the same rows in either form are the same block.

use super::*;
use crate::dictionary::layouts::Layouts;
use proptest::prelude::*;
use seiner_model::FieldType;

const SOURCES: u32 = 40;
/// Sources whose rows are replayed. A journal does not contain the whole state of an encoder.
const REPLAYED: u32 = 8;
const LIMIT: Limit = Limit {
    bytes: 400,
    first_block: 0,
};

/// Change of a store's buffers.
#[derive(Clone, Debug)]
enum Change {
    Row {
        source: u32,
        step: i64,
        value: u64,
    },
    /// A row in its journal encoding.
    Replay {
        source: u32,
        step: i64,
        value: u64,
    },
    Seal {
        source: u32,
    },
    Scarce(bool),
    MakeSmall,
    GiveLine {
        source: u32,
    },
    Remove,
    Release,
}

fn change() -> impl Strategy<Value = Change> {
    let (replayed, source) = (0..REPLAYED, REPLAYED..SOURCES);
    let step = prop_oneof![4 => Just(1000i64), 1 => any::<i64>(), 1 => -5..5i64];
    let value = prop_oneof![
        4 => (0..500u64).prop_map(|tenths| (tenths as f64 / 10.0).to_bits()),
        1 => any::<u64>(),
        1 => Just(f64::NAN.to_bits()),
    ];
    prop_oneof![
        60 => (source, step.clone(), value.clone())
            .prop_map(|(source, step, value)| Change::Row { source, step, value }),
        15 => (replayed, step, value)
            .prop_map(|(source, step, value)| Change::Replay { source, step, value }),
        3 => (0..SOURCES).prop_map(|source| Change::Seal { source }),
        2 => any::<bool>().prop_map(Change::Scarce),
        2 => Just(Change::MakeSmall),
        1 => (0..SOURCES).prop_map(|source| Change::GiveLine { source }),
        1 => Just(Change::Remove),
        1 => Just(Change::Release),
    ]
}

/// Buffers with sources of one number each, and a time for each source.
struct World {
    buffers: Buffers,
    layouts: Layouts,
    numbers: [u32; 4],
    times: Vec<i64>,
    next: u64,
}

impl World {
    fn new() -> World {
        let mut layouts = Layouts::new();
        let types = [
            FieldType::F64,
            FieldType::I64,
            FieldType::F32,
            FieldType::Bool,
        ];
        let numbers = types.map(|field_type| layouts.extend(0, "v", field_type).0);
        let mut buffers = Buffers::default();
        for source in 0..SOURCES {
            buffers.add_source();
            buffers.set_layout(source, numbers[source as usize % 4]);
        }
        let times = vec![0; SOURCES as usize];
        World {
            buffers,
            layouts,
            numbers,
            times,
            next: 1,
        }
    }

    fn layout(&self, source: u32) -> std::sync::Arc<Layout> {
        let layout = self.layouts.get(self.numbers[source as usize % 4]);
        layout.expect("the layout was added").clone()
    }

    /// Seals a full block, and begins a block if none is open.
    fn prepare(&mut self, source: u32) {
        if LIMIT.is_reached(self.buffers.state(source)) {
            self.seal(source);
        }
        if self.buffers.state(source).rows == 0 {
            self.buffers
                .begin(source, self.next, self.next as u32 / 9, true);
            self.next += 1;
        }
    }

    /// Returns the rows of the block.
    fn seal(&mut self, source: u32) -> Vec<u8> {
        let state = self.buffers.state(source);
        if state.rows == 0 {
            return Vec::new();
        }
        let slot = self.buffers.detach(source);
        let rows = self.buffers.detached(slot, state.bytes).to_vec();
        self.buffers.free(slot, state.rows.into(), state.bytes);
        rows
    }

    fn row(&mut self, source: u32, step: i64, value: u64) -> (u8, Vec<u8>) {
        let time = self.times[source as usize].wrapping_add(step);
        self.times[source as usize] = time;
        let number = match source % 4 {
            0 => Number::F64(f64::from_bits(value)),
            1 => Number::Integer(value),
            2 => Number::F32(f64::from_bits(value) as f32),
            _ => Number::Integer(value % 2),
        };
        self.prepare(source);
        let layout = self.layout(source);
        let coded = self.buffers.append_number(source, 7, LIMIT, time, number);
        let coded = coded.or_else(|| {
            let (only, row) = (layout.types()[0], (time, number));
            self.buffers.append_small(source, only, 7, LIMIT, row)
        });
        let slowly = || {
            self.buffers
                .append_number_slowly(source, &layout, 7, time, number)
        };
        let (time, value) = coded.unwrap_or_else(slowly);
        let mut payload = Vec::new();
        row::put_word(time, &mut payload);
        row::put_word(value, &mut payload);
        (run::codes(time, value), payload)
    }

    fn replay(&mut self, source: u32, codes: u8, payload: &[u8]) {
        self.prepare(source);
        let layout = self.layout(source);
        let mut padded = payload.to_vec();
        padded.resize(payload.len() + 16, 0);
        if self.buffers.replay_number(source, codes, &padded).is_none() {
            let replayed = self.buffers.replay(source, &layout, &[codes], payload);
            replayed.expect("the row was encoded by the other buffers");
        }
    }

    /// Returns all that readers see.
    fn seen(&self) -> Vec<(OpenState, Option<super::line::OpenBlock>)> {
        let state = |source| match self.buffers.state(source) {
            open if open.rows == 0 => OpenState::default(),
            open => OpenState { touched: 0, ..open },
        };
        let both = |source| (state(source), self.buffers.open_block(source));
        (0..SOURCES).map(both).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_the_same_in_small_blocks_and_in_lines(
        changes in prop::collection::vec(change(), 1..600)
    ) {
        let (mut plain, mut mixed, mut writer) = (World::new(), World::new(), World::new());
        for change in changes {
            match change {
                Change::Row { source, step, value } => {
                    let expected = plain.row(source, step, value);
                    prop_assert_eq!(mixed.row(source, step, value), expected);
                }
                Change::Replay { source, step, value } => {
                    let (codes, payload) = writer.row(source, step, value);
                    plain.replay(source, codes, &payload);
                    mixed.replay(source, codes, &payload);
                }
                Change::Seal { source } => {
                    let expected = plain.seal(source);
                    prop_assert_eq!(mixed.seal(source), expected);
                    writer.seal(source);
                }
                Change::Scarce(scarce) => mixed.buffers.set_scarce(scarce),
                Change::MakeSmall => mixed.buffers.make_small(2, |_| true),
                Change::GiveLine { source } => {
                    let layout = mixed.layout(source);
                    mixed.buffers.give_line(source, &layout, 7);
                }
                Change::Remove => mixed.buffers.remove_unused(0..SOURCES, 100, 50),
                Change::Release => mixed.buffers.release_idle(),
            }
            prop_assert_eq!(mixed.seen(), plain.seen());
            let counts = |world: &World| {
                let buffers = &world.buffers;
                (buffers.rows(), buffers.row_bytes(), buffers.open_blocks())
            };
            prop_assert_eq!(counts(&mixed), counts(&plain));
        }
    }
}

#[test]
fn a_small_block_becomes_a_line_when_it_grows_and_small_again_only_before() {
    let mut world = World::new();
    world.buffers.set_scarce(true);
    for row in 0..5 {
        world.row(0, 1000, (row as f64 / 10.0).to_bits());
    }
    assert!(world.buffers.small.state(0).is_some() && world.buffers.lines.get(0).is_none());
    for row in 0..60 {
        world.row(0, 1000, (row as f64 / 10.0).to_bits());
    }
    assert!(world.buffers.small.state(0).is_none() && world.buffers.lines.get(0).is_some());
    world.buffers.make_small(10, |_| true);
    assert!(
        world.buffers.small.state(0).is_none(),
        "the block has too many rows"
    );
    world.row(1, 1000, 5);
    assert!(
        world.buffers.small.state(1).is_some(),
        "a neighbour needs no line"
    );
    world.seal(0);
    world.buffers.make_small(10, |_| true);
    assert!(
        world.buffers.lines.get(0).is_none(),
        "no open block needs a line"
    );
}

#[test]
fn a_malformed_row_leaves_a_small_block_unchanged() {
    let mut world = World::new();
    world.buffers.set_scarce(true);
    let (codes, payload) = world.row(0, 1000, 1.5f64.to_bits());
    let before = world.seen();
    let layout = world.layout(0);
    // A start in the middle, a time without its bytes, a text in a column of numbers.
    for (codes, payload) in [(codes, &payload[..]), (0x08, &[1][..]), (0xC0, &[0; 9][..])] {
        let replayed = world.buffers.replay(0, &layout, &[codes], payload);
        assert!(replayed.is_err(), "{codes:x}");
        assert_eq!(world.seen(), before);
    }
}
