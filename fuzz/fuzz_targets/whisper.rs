//! Files of Whisper. No bytes cause a panic, and the samples are in order and not more than the file has points.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_wire::whisper::decode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = decode(bytes) {
        assert!(file.samples.is_sorted_by(|one, next| one.0 < next.0));
        assert!(file.samples.len() * 12 <= bytes.len());
        let taken: usize = file.archives.iter().map(|archive| archive.samples).sum();
        assert_eq!(taken, file.samples.len());
    }
});
