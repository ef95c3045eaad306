//! Rows of a buffer with any columns. No input causes a panic, and rows that a replay accepts one by one are also
//! decoded as a whole. The first byte is the number of columns. Their types follow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;
use seiner_model::FieldType;

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, rest)) = bytes.split_first() else { return };
    let Some((codes, rest)) = rest.split_at_checked(usize::from(count % 8)) else { return };
    let types: Vec<FieldType> = codes.iter().filter_map(|code| FieldType::from_code(code % 6)).collect();
    fuzzing::rows(rest, &types);
});
