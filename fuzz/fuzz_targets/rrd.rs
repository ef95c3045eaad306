//! Dumps of rrdtool. No text causes a panic, and the rows are in order and not more than the text can contain.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_wire::rrd::decode;

fuzz_target!(|text: &str| {
    if let Ok(file) = decode(text, "AVERAGE") {
        assert!(file.rows.is_sorted_by(|one, next| one.0 < next.0));
        assert!(file.rows.len() <= text.len());
    }
});
