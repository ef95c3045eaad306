//! Lines and pickles of Graphite. No bytes cause a panic, and a sample that is rejected leaves no row behind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::{Batch, Notation};
use seiner_wire::graphite::{Pickle, decode_line};
use seiner_wire::line::{Arena, LineNotation};

fuzz_target!(|bytes: &[u8]| {
    let arena = Arena::new();
    let mut batch = Batch::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let rows = batch.rows.len();
        let decoded = decode_line(line, 1, &arena, &mut batch);
        assert!(batch.rows.len() - rows <= usize::from(decoded.is_ok()));
    }
    if let Ok(mut pickle) = Pickle::parse(bytes) {
        assert!(pickle.len() <= bytes.len());
        let mut rows = batch.rows.len();
        while let Some(read) = pickle.next_row(1, &arena, &mut batch) {
            assert_eq!(batch.rows.len() - rows, usize::from(read.is_ok()));
            rows = batch.rows.len();
        }
    }
    assert_eq!(batch.rows.len(), batch.cells.len());
    for row in &batch.rows {
        let _ = LineNotation.source_key(row.name);
    }
});
