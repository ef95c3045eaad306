//! Bodies of Arrow, whole and in pieces. The decoder never panics, and finds the same rows in both forms.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_wire::arrow_body::{ArrowBodyError, ArrowDecoder, BodyOptions};

/// Returns the numbers of stored and of bad rows, and whether the body is valid.
fn decode(bytes: &[u8], piece: usize) -> (usize, u64, bool) {
    let mut decoder = ArrowDecoder::new(BodyOptions {
        measurement: Some("m".to_string()),
        ..BodyOptions::default()
    });
    let (mut stored, mut bad) = (0, 0);
    for piece in bytes.chunks(piece) {
        let taken = decoder.take(bytes::Bytes::copy_from_slice(piece), |rows| {
            for source in &rows.sources {
                assert_eq!(source.fields.len(), source.columns.fields.len());
                assert_eq!(source.columns.times.len(), source.numbers.len());
                stored += source.columns.times.len();
            }
            bad += rows.bad.iter().map(|bad| bad.count).sum::<u64>();
            Ok::<(), ArrowBodyError>(())
        });
        if taken.is_err() {
            return (stored, bad, false);
        }
    }
    (stored, bad, decoder.finish().is_ok())
}

fuzz_target!(|bytes: &[u8]| {
    assert_eq!(decode(bytes, usize::MAX), decode(bytes, 61));
});
