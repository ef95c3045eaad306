//! Lines and points of OpenTSDB. No bytes cause a panic, and a point that is rejected leaves no row behind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::{Batch, Notation};
use seiner_wire::line::{Arena, LineNotation};
use seiner_wire::opentsdb::{decode_line, decode_point, each_point};

fuzz_target!(|bytes: &[u8]| {
    let arena = Arena::new();
    let mut batch = Batch::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let rows = batch.rows.len();
        let decoded = decode_line(line, 1, &arena, &mut batch);
        assert!(batch.rows.len() - rows <= usize::from(decoded.is_ok()));
    }
    let _ = each_point(bytes, |point| {
        let rows = batch.rows.len();
        let decoded = decode_point(point, 1, &arena, &mut batch);
        assert_eq!(batch.rows.len() - rows, usize::from(decoded.is_ok()));
    });
    assert_eq!(batch.rows.len(), batch.cells.len());
    for row in &batch.rows {
        let _ = LineNotation.source_key(row.name);
    }
});
