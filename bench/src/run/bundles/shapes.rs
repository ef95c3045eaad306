//! Rows of the cases: the benchmarks' gauges, and other clocks, fields and types.

use crate::workload::{Gauge, PERIOD, START};
use seiner_bundle::Layout;
use seiner_model::{Column, Columns, FieldColumn, FieldType, Strings};
use seiner_random::SplitMixRng;
use std::sync::Arc;

/// Nature of the rows of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Gauges with an exact clock.
    Gauges,
    /// Ten gauges per source.
    TenFields,
    /// Clock with a phase per source in whole seconds; no fields.
    WholeSeconds,
    /// Clock with a phase per source in ms, and a jitter of 5 ms; no fields.
    OwnPhase,
    /// Clock with a jitter of 500 ms; no fields.
    Jitter,
    /// The same in ns.
    JitterNs,
    /// The same for ten sources of a host together.
    HostJitter,
    /// Doubles with full mantissas.
    FullMantissas,
    /// Counters at rates of 1 to 10^6 per second.
    Counters,
    /// Booleans that change at 2 % of the rows.
    Booleans,
    /// Texts of eight states.
    States,
    /// Doubles that are constant in a source.
    Constant,
}

impl Shape {
    /// All shapes but the gauges.
    pub const OTHERS: [Shape; 11] = [
        Shape::TenFields,
        Shape::WholeSeconds,
        Shape::OwnPhase,
        Shape::Jitter,
        Shape::JitterNs,
        Shape::HostJitter,
        Shape::FullMantissas,
        Shape::Counters,
        Shape::Booleans,
        Shape::States,
        Shape::Constant,
    ];

    /// Returns the name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Gauges => "gauges",
            Shape::TenFields => "ten gauges a source",
            Shape::WholeSeconds => "clock: own phase in whole seconds",
            Shape::OwnPhase => "clock: own phase, jitter 5 ms",
            Shape::Jitter => "clock: jitter 500 ms, in ms",
            Shape::JitterNs => "clock: jitter 500 ms, in ns",
            Shape::HostJitter => "clock: jitter 500 ms of hosts of ten sources, in ms",
            Shape::FullMantissas => "doubles with full mantissas",
            Shape::Counters => "counters, 1 to 10^6 per second",
            Shape::Booleans => "booleans that change at 2 % of the rows",
            Shape::States => "texts of eight states",
            Shape::Constant => "constant in a source",
        }
    }

    fn fields(self) -> Vec<FieldType> {
        match self {
            Shape::Gauges | Shape::FullMantissas | Shape::Constant => vec![FieldType::F64],
            Shape::TenFields => vec![FieldType::F64; 10],
            Shape::Counters => vec![FieldType::U64],
            Shape::Booleans => vec![FieldType::Bool],
            Shape::States => vec![FieldType::Str],
            _ => Vec::new(),
        }
    }
}

/// Rows of all sources of a case, in flat columns.
pub struct Sources {
    /// Nature of the rows.
    pub shape: Shape,
    /// Fields of a row.
    pub layout: Arc<Layout>,
    /// Rows of each source.
    pub rows_per_source: usize,
    times: Vec<i64>,
    fields: Vec<Column>,
}

impl Sources {
    /// Makes sources with about `samples` values, or rows if there are no fields.
    pub fn new(shape: Shape, rows: usize, samples: usize) -> Sources {
        let types = shape.fields();
        let count = (samples / rows / types.len().max(1)).max(16);
        let names = (0..).map(|field| format!("f{field}"));
        let mut random = SplitMixRng::new(1);
        let mut sources = Sources {
            shape,
            layout: Arc::new(Layout::new(names.zip(types.iter().copied()))),
            rows_per_source: rows,
            times: Vec::with_capacity(count * rows),
            fields: types.iter().map(|one| Column::new(*one)).collect(),
        };
        let mut host = Vec::new();
        for source in 0..count {
            let clock = match shape {
                Shape::HostJitter if source % 10 != 0 => host.clone(),
                _ => clock(shape, rows, &mut random),
            };
            host.clone_from(&clock);
            sources.times.extend(clock);
            let fields = sources.fields.len();
            for (field, column) in sources.fields.iter_mut().enumerate() {
                let series = (source * fields + field) as u32;
                push_values(column, shape, series, rows, &mut random);
            }
        }
        sources
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.times.len() / self.rows_per_source
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// Returns the number of values, or of rows if there are no fields.
    pub fn units(&self) -> usize {
        self.times.len() * self.fields.len().max(1)
    }

    /// Replaces `rows` by those of a source. Its memory is reused.
    pub fn copy(&self, source: usize, rows: &mut Columns) {
        let range = source * self.rows_per_source..(source + 1) * self.rows_per_source;
        rows.times.clear();
        rows.times.extend_from_slice(&self.times[range.clone()]);
        if rows.fields.len() != self.fields.len() {
            let empty = self.fields.iter().map(|column| FieldColumn {
                present: None,
                values: Column::new(column.field_type()),
            });
            rows.fields = empty.collect();
        }
        for (to, from) in rows.fields.iter_mut().zip(&self.fields) {
            match (&mut to.values, from) {
                (Column::F64(to), Column::F64(from)) => {
                    to.clear();
                    to.extend_from_slice(&from[range.clone()]);
                }
                (Column::U64(to), Column::U64(from)) => {
                    to.clear();
                    to.extend_from_slice(&from[range.clone()]);
                }
                (to, from) => {
                    *to = Column::new(from.field_type());
                    range.clone().for_each(|row| to.push(from.get(row)));
                }
            }
        }
    }
}

/// Returns the times of a source.
fn clock(shape: Shape, rows: usize, random: &mut SplitMixRng) -> Vec<i64> {
    const MS: i64 = 1_000_000;
    let phase = match shape {
        Shape::WholeSeconds => random.below(10) as i64 * 1000 * MS,
        Shape::OwnPhase => random.below(10_000) as i64 * MS,
        _ => 0,
    };
    let ticks = (0..rows as i64).map(|row| START + row * PERIOD + phase);
    let jittered = ticks.map(|tick| match shape {
        Shape::OwnPhase => tick + (random.below(11) + random.below(11)) as i64 / 2 * MS,
        Shape::Jitter | Shape::HostJitter => tick + random.below(1000) as i64 * MS,
        Shape::JitterNs => tick + random.below(1_000_000_000) as i64,
        _ => tick,
    });
    jittered.collect()
}

/// Appends the values of a series.
fn push_values(
    column: &mut Column,
    shape: Shape,
    series: u32,
    rows: usize,
    random: &mut SplitMixRng,
) {
    match column {
        Column::F64(values) => match shape {
            Shape::FullMantissas => {
                let level = random.below(1000) as f64;
                let part =
                    |random: &mut SplitMixRng| random.below(1 << 40) as f64 / (1u64 << 40) as f64;
                values.extend((0..rows).map(|_| level + part(random)));
            }
            Shape::Constant => {
                let value = random.below(10_000) as f64 / 10.0;
                values.extend(std::iter::repeat_n(value, rows));
            }
            _ => {
                let mut gauge = Gauge::new(series);
                values.extend((0..rows).map(|_| gauge.value()));
            }
        },
        Column::U64(values) => {
            let rate = 10u64.pow(random.below(7) as u32);
            let mut count = random.below(rate * 100_000);
            values.extend((0..rows).map(|_| {
                count += rate * 10 + random.below(rate + 1);
                count
            }));
        }
        Column::Bool(values) => {
            let mut state = random.below(2) == 0;
            values.extend((0..rows).map(|_| {
                state ^= random.below(50) == 0;
                state
            }));
        }
        Column::Str(texts) => push_states(texts, rows, random),
        _ => {}
    }
}

fn push_states(texts: &mut Strings, rows: usize, random: &mut SplitMixRng) {
    const STATES: [&str; 8] = [
        "idle", "starting", "running", "stopping", "failed", "ok", "warning", "unknown",
    ];
    let mut state = random.below(8);
    for _ in 0..rows {
        if random.below(50) == 0 {
            state = random.below(8);
        }
        texts.push(STATES[state as usize]);
    }
}
