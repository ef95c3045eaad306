//! Encoding of columns: decoding returns the same values, bit for bit. The first byte is the type, the second the
//! effort. All other bytes are the values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_codec::{Effort, decode_column, encode_column};
use seiner_model::Column;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[code, effort], rest)) = bytes.split_first_chunk::<2>() else { return };
    let words = rest.as_chunks::<8>().0.iter().copied();
    let column = match code % 5 {
        0 => Column::F64(words.map(f64::from_le_bytes).collect()),
        1 => Column::F32(rest.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()),
        2 => Column::I64(words.map(i64::from_le_bytes).collect()),
        3 => Column::F64(rest.iter().map(|&byte| f64::from(byte) / 10.0).collect()),
        _ => Column::I64(rest.iter().map(|&byte| i64::from(byte as i8)).collect()),
    };
    let effort = if effort & 1 == 0 { Effort::Fast } else { Effort::Best };
    let mut encoded = Vec::new();
    encode_column(&column, effort, &mut encoded);
    let mut left = encoded.as_slice();
    let decoded = decode_column(&mut left, column.field_type(), column.len());
    assert_eq!(decoded.as_ref(), Ok(&column));
    assert!(left.is_empty());
});
