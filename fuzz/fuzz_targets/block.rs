//! Any bytes as a block behind its checksum, with any columns: an error, or as many times and
//! values as it says. The first byte counts the columns, whose types follow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;
use seiner_model::FieldType;

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, rest)) = bytes.split_first() else { return };
    let Some((codes, rest)) = rest.split_at_checked(usize::from(count % 8)) else { return };
    let types: Vec<FieldType> = codes.iter().filter_map(|code| FieldType::from_code(code % 6)).collect();
    fuzzing::block(rest, &types);
});
