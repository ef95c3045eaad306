//! Golden requests of remote write.
//!
//! `golden/remote-write/v1/` holds bodies with their decoded contents in text. `samples-1` and `metadata-1` were sent by
//! Prometheus 2.42, `samples-2` was made by hand. Files are added and never edited.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_model::{Batch, Notation, Value};
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{LabelNotation, Version, WriteDecoder};
use std::fmt::Write;
use std::path::PathBuf;

/// Returns the contents of a request: metadata, rows, rejections.
fn contents(version: Version, request: &[u8]) -> String {
    let mut text = String::new();
    let mut decoder = WriteDecoder::new(version, request).unwrap();
    let arena = Arena::new();
    let mut batch = Batch::new();
    assert_eq!(decoder.fill(usize::MAX, &arena, &mut batch), Ok(false));
    for one in &decoder.metadata {
        let utf8 = |bytes| std::str::from_utf8(bytes).unwrap();
        let (family, help, unit) = (utf8(one.family), utf8(one.help), utf8(one.unit));
        writeln!(text, "metadata {family} {} {help:?} {unit:?}", one.kind).unwrap();
    }
    for row in &batch.rows {
        let key = LabelNotation.source_key(row.name).unwrap();
        let Value::F64(value) = batch.cells_of(row)[0].value else {
            panic!("a value is no float");
        };
        let bits = value.to_bits();
        writeln!(text, "sample {key} {} {bits:016x} {value}", row.time).unwrap();
    }
    for one in &decoder.rejections.listed {
        let (name, samples) = (&one.name, one.samples);
        writeln!(text, "rejected {} {name} {samples}", one.series).unwrap();
    }
    writeln!(text, "ignored {}", decoder.ignored).unwrap();
    text
}

#[test]
fn golden_requests_are_decoded() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/remote-write/v1");
    for (name, version) in [
        ("samples-1", Version::V1),
        ("metadata-1", Version::V1),
        ("samples-2", Version::V2),
    ] {
        let body = std::fs::read(folder.join(format!("{name}.snappy"))).unwrap();
        let request = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        let found = contents(version, &request);
        let path = folder.join(format!("{name}.txt"));
        if !path.exists() && std::env::var_os("SEINER_BLESS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{name}: {error}; SEINER_BLESS=1 writes missing files"));
        assert_eq!(found, expected, "{name}");
    }
}
