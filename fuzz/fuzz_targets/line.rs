//! Line protocol, in one piece and in two. The parser never panics, never consumes more than its input, and finds the
//! same rows and errors in both forms.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::Batch;
use seiner_wire::line::{Arena, LineParser, Precision};

fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, text)) = bytes.split_first() else { return };
    let arena = Arena::new();
    let mut batch = Batch::new();
    let mut errors = Vec::new();
    let mut parser = LineParser::new(Precision::default());
    let taken = parser.parse(text, true, 7, usize::MAX, &arena, &mut batch, &mut errors);
    assert_eq!(taken, text.len(), "the last piece is consumed");

    let cut = usize::from(cut) % (text.len() + 1);
    let (arena, mut pieces, mut rejected) = (Arena::new(), Batch::new(), Vec::new());
    let mut parser = LineParser::new(Precision::default());
    let taken = parser.parse(&text[..cut], false, 7, usize::MAX, &arena, &mut pieces, &mut rejected);
    assert!(taken <= cut);
    parser.parse(&text[taken..], true, 7, usize::MAX, &arena, &mut pieces, &mut rejected);
    assert_eq!(pieces.rows.len(), batch.rows.len());
    assert_eq!(pieces.cells.len(), batch.cells.len());
    assert_eq!(rejected.len(), errors.len());
});
