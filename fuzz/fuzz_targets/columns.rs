//! Columns of any type. Any input is an error or values, never a panic. The first byte is the type, the next two are
//! the count.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_codec::decode_column;
use seiner_model::FieldType;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[code, low, high], mut rest)) = bytes.split_first_chunk::<3>() else { return };
    let Some(field_type) = FieldType::from_code(code % 6) else { return };
    let count = usize::from(u16::from_le_bytes([low, high])) % 4096;
    if let Ok(column) = decode_column(&mut rest, field_type, count) {
        assert_eq!(column.field_type(), field_type);
        assert_eq!(column.len(), count);
    }
});
