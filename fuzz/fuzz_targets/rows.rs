//! Any bytes as the rows of a buffer with any columns: never a panic, and what a replay takes in
//! row by row is read as a whole later. The first byte counts the columns, whose types follow.

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
