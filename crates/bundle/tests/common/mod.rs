//! Rows of the benchmarks, and round trips.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use seiner_bundle::{Bundle, BundleWriter, Directory, Layout, Options, SourceRows};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType};

/// Time of the first sample of the benchmarks, ns.
pub const START: i64 = 1_699_920_000_000_000_000;
/// Time between two samples of a series, ns.
pub const PERIOD: i64 = 10_000_000_000;

/// Scatters neighbouring numbers, as the generator of the benchmarks does.
pub fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Values of one series, the same as those of the benchmarks (`bench/src/workload.rs`).
pub struct Gauge {
    random: u32,
    level: i32,
    decimals: u8,
}

impl Gauge {
    /// Creates the gauge of a series, by its number.
    pub fn new(series: u32) -> Gauge {
        let random = mix(series.wrapping_mul(2).wrapping_add(1)) | 1;
        let decimals = 1 + (series % 2) as u8;
        let level = 200 + (mix(random) % 800) as i32;
        Gauge {
            random,
            level: if decimals == 2 { level * 10 } else { level },
            decimals,
        }
    }

    pub fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }

    /// Returns the next value.
    pub fn value(&mut self) -> f64 {
        let (wander, noise) = (self.random(), self.random());
        let spread = if self.decimals == 2 { 32 } else { 10 };
        if wander & 0xf == 0 {
            self.level += (wander >> 4).count_ones() as i32 - 14;
        }
        let bell = noise.count_ones() as i32 - 16;
        let step = self.level + bell * spread / 4 + (noise >> 8) as i32 % (1 + spread / 4);
        f64::from(step) / if self.decimals == 2 { 100.0 } else { 10.0 }
    }
}

/// Returns the rows of a source of the benchmarks with an exact clock.
pub fn gauge_rows(source: u32, rows: usize) -> Columns {
    let mut gauge = Gauge::new(source);
    Columns {
        times: (0..rows as i64).map(|tick| START + tick * PERIOD).collect(),
        fields: vec![whole(Column::F64(
            (0..rows).map(|_| gauge.value()).collect(),
        ))],
    }
}

/// Returns a field with a value in every row.
pub fn whole(values: Column) -> FieldColumn {
    FieldColumn {
        present: None,
        values,
    }
}

/// Returns a layout of one field.
pub fn one_field(field_type: FieldType) -> Arc<Layout> {
    Arc::new(Layout::new([("value", field_type)]))
}

/// Returns a source of one field.
pub fn source(id: u64, times: Vec<i64>, values: Column) -> SourceRows {
    SourceRows {
        id,
        layout: one_field(values.field_type()),
        rows: Columns {
            times,
            fields: vec![whole(values)],
        },
    }
}

/// Encodes sources.
pub fn encode(sources: &[SourceRows], options: Options) -> Bundle {
    let mut writer = BundleWriter::new(options);
    for source in sources {
        writer
            .push(source.id, &source.layout, &source.rows)
            .unwrap();
    }
    writer.finish()
}

/// Returns the columns in the form in which a bundle returns them.
pub fn canonical(rows: &Columns) -> Columns {
    let count = rows.times.len();
    let fields = rows.fields.iter().map(|field| FieldColumn {
        present: match field.values.len() {
            values if values == count => None,
            0 => Some((0..count).map(|_| false).collect::<Bitmap>()),
            _ => field.present.clone(),
        },
        values: field.values.clone(),
    });
    Columns {
        times: rows.times.clone(),
        fields: fields.collect(),
    }
}

/// Returns all sources of a bundle, sorted by number and layout.
pub fn decode(bundle: &Bundle) -> Vec<SourceRows> {
    let directory = Directory::parse(&bundle.directory).unwrap();
    assert_eq!(directory.data_bytes(), bundle.data.len() as u64);
    let mut sources = Vec::new();
    for chunk in directory.chunks() {
        let bytes = &bundle.data[chunk.start..chunk.end];
        let rows = directory.decode_chunk(chunk.index, bytes).unwrap();
        assert_eq!(rows.len(), chunk.sources);
        let count = (0..rows.len()).map(|source| rows.times(source).len());
        assert_eq!(count.sum::<usize>(), chunk.rows);
        sources.extend(rows.sources());
    }
    sources.sort_by(|a, b| (a.id, &a.layout).cmp(&(b.id, &b.layout)));
    sources
}

/// Checks that all sources return, also one by one, and that the directory describes them.
pub fn round_trip(sources: &[SourceRows], options: Options) -> Bundle {
    let bundle = encode(sources, options);
    let mut expected: Vec<SourceRows> = sources
        .iter()
        .map(|source| SourceRows {
            rows: canonical(&source.rows),
            ..source.clone()
        })
        .collect();
    expected.sort_by(|a, b| (a.id, &a.layout).cmp(&(b.id, &b.layout)));
    let decoded = decode(&bundle);
    assert_eq!(decoded.len(), expected.len());
    for (decoded, expected) in decoded.iter().zip(&expected) {
        assert_eq!(decoded, expected);
    }
    let directory = Directory::parse(&bundle.directory).unwrap();
    let rows = || sources.iter().map(|source| &source.rows);
    assert_eq!(directory.sources(), sources.len() as u64);
    assert_eq!(
        directory.rows(),
        rows().map(|rows| rows.times.len() as u64).sum::<u64>()
    );
    let samples = rows().flat_map(|rows| rows.fields.iter().map(|field| field.values.len() as u64));
    assert_eq!(directory.samples(), samples.sum::<u64>());
    let times = || rows().flat_map(|rows| rows.times.iter().copied());
    if let (Some(first), Some(last)) = (times().min(), times().max()) {
        assert_eq!(
            (directory.interval().start, directory.interval().end),
            (first, last)
        );
    }
    bundle
}

/// Returns the bytes of a bundle.
pub fn bytes(bundle: &Bundle) -> usize {
    bundle.directory.len() + bundle.data.len()
}
