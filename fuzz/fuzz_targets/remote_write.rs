//! Requests of remote write 1 and 2, in one batch and in small ones. The decoder never panics, and finds the same rows
//! and rejections in both forms. A name of a series never panics either.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::{Batch, Notation};
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{LabelNotation, Malformed, Rejections, Version, WriteDecoder};

/// Returns the number of rows, a sum of their times, and the rejections.
fn decode(version: Version, bytes: &[u8], max_rows: usize) -> Result<(usize, i64, Rejections), Malformed> {
    let mut decoder = WriteDecoder::new(version, bytes)?;
    let (mut rows, mut times) = (0, 0_i64);
    loop {
        let arena = Arena::new();
        let mut batch = Batch::new();
        let more = decoder.fill(max_rows, &arena, &mut batch)?;
        assert!(batch.rows.len() <= max_rows);
        for (index, row) in batch.rows.iter().enumerate() {
            assert!(decoder.series_of_row(index) > 0);
            let _ = LabelNotation.source_key(row.name);
            times = times.wrapping_add(row.time);
        }
        rows += batch.rows.len();
        if !more {
            return Ok((rows, times, decoder.rejections));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, request)) = bytes.split_first() else { return };
    let version = if first & 1 == 0 { Version::V1 } else { Version::V2 };
    let whole = decode(version, request, usize::MAX);
    let pieces = decode(version, request, 1 + usize::from(first >> 1));
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (whole, pieces) => assert_eq!(whole.is_err(), pieces.is_err()),
    }
    let _ = LabelNotation.source_key(request);
});
