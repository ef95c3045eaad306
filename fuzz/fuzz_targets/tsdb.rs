//! Parts of blocks of Prometheus. No bytes cause a panic, and nothing is larger than the bytes justify.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_wire::tsdb::{chunk, index, tombstones};

fuzz_target!(|bytes: &[u8]| {
    let mut samples = Vec::new();
    let _ = chunk::decode_xor(bytes, &mut samples);
    assert!(samples.len() <= bytes.len() * 4);
    if let Ok(found) = chunk::parse(bytes) {
        assert!(chunk::chunk_bytes(bytes).is_ok_and(|size| size <= bytes.len()));
        samples.clear();
        let _ = chunk::decode_xor(found.data, &mut samples);
        assert!(samples.len() <= found.data.len() * 4);
    }
    if let Ok(series) = index::decode_series(bytes) {
        assert!(series.labels.len() * 2 + series.chunks.len() * 3 <= bytes.len());
    }
    if let Ok(contents) = index::decode_contents(bytes, u64::MAX) {
        assert!(contents.series <= contents.series_end);
    }
    let _ = index::decode_symbols_header(bytes);
    let _ = index::decode_length(bytes);
    if let Ok((covered, _)) = tombstones::parse(bytes) {
        if let Ok(found) = tombstones::decode(covered) {
            assert!(found.len() * 3 <= covered.len());
        }
    }
});
