//! Requests of OTLP metrics, in one batch and in small ones. The decoder never panics, and finds the same rows and
//! rejections in both forms. A request in JSON becomes a request that can be decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::{Batch, Notation};
use seiner_wire::line::Arena;
use seiner_wire::otlp::{Malformed, MetricsDecoder, from_json};
use seiner_wire::remote_write::{LabelNotation, Rejections};

/// Returns the number of rows, a sum of their times, the rejections and the number of points.
fn decode(bytes: &[u8], max_rows: usize) -> Result<(usize, i64, Rejections, u64), Malformed> {
    let promoted = ["a".to_string()];
    let mut decoder = MetricsDecoder::new(bytes, 7, &promoted);
    let (mut rows, mut times) = (0, 0_i64);
    loop {
        let arena = Arena::new();
        let mut batch = Batch::new();
        let more = decoder.fill(max_rows, &arena, &mut batch)?;
        assert!(batch.rows.len() <= max_rows);
        for (index, row) in batch.rows.iter().enumerate() {
            assert!(decoder.place_of_row(index).0 > 0);
            let _ = LabelNotation.source_key(row.name);
            times = times.wrapping_add(row.time);
        }
        rows += batch.rows.len();
        let _ = decoder.metadata();
        if !more {
            return Ok((rows, times, decoder.rejections, decoder.points));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, request)) = bytes.split_first() else { return };
    if first & 1 == 1 {
        let Ok(converted) = from_json(request, 1 << 20) else { return };
        assert!(converted.len() <= 1 << 20);
        assert!(decode(&converted, usize::MAX).is_ok());
        return;
    }
    let whole = decode(request, usize::MAX);
    let pieces = decode(request, 1 + usize::from(first >> 1));
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (whole, pieces) => assert_eq!(whole.is_err(), pieces.is_err()),
    }
});
