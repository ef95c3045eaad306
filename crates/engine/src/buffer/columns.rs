//! Columns: decodes the rows of a buffer into the columns of a block.

use super::row::{
    ColumnState, Malformed, Reader, TimeState, bits_of, codes_bytes, follow_number, follow_time,
    nibble,
};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType, Strings};

/// Decodes all rows of a block into columns, in order of arrival.
pub fn decode(bytes: &[u8], rows: usize, types: &[FieldType]) -> Result<Columns, Malformed> {
    match types {
        [FieldType::F64] => decode_f64(bytes, rows),
        _ => decode_any(bytes, rows, types),
    }
}

/// Decodes the usual block: one column of floats. It has no gaps, because a row without a value
/// does not exist.
fn decode_f64(bytes: &[u8], rows: usize) -> Result<Columns, Malformed> {
    let mut times = Vec::with_capacity(rows);
    let mut values = Vec::with_capacity(rows);
    let (mut time, mut state, mut at) = (TimeState::default(), ColumnState::default(), 0);
    for _ in 0..rows {
        let codes = *bytes.get(at).ok_or(Malformed)?;
        let (time_code, value_code) = (codes & 15, codes >> 4);
        // Both deltas are short and not at the end of the bytes, so whole words are read.
        if time_code <= 8
            && value_code <= 8
            && let Some(window) = bytes[at + 1..].first_chunk()
        {
            follow_time(&mut time, window, time_code as usize);
            state.previous = follow_number(
                state.previous,
                window,
                time_code as usize,
                value_code as usize,
            );
            values.push(f64::from_bits(bits_of(&state, FieldType::F64)));
            at += 1 + (time_code + value_code) as usize;
        } else {
            let mut reader = Reader { bytes, at: at + 1 };
            reader.time(time_code, &mut time)?;
            let bits = reader.value(value_code, FieldType::F64, &mut state)?;
            values.push(f64::from_bits(bits.ok_or(Malformed)?));
            at = reader.at;
        }
        times.push(time.last);
    }
    Ok(Columns {
        times,
        fields: vec![FieldColumn {
            present: None,
            values: Column::F64(values),
        }],
    })
}

fn decode_any(bytes: &[u8], rows: usize, types: &[FieldType]) -> Result<Columns, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    let mut time = TimeState::default();
    let mut states = vec![ColumnState::default(); types.len()];
    let mut times = Vec::with_capacity(rows);
    let mut bits: Vec<Vec<u64>> = types.iter().map(|_| Vec::with_capacity(rows)).collect();
    let mut present: Vec<Option<Bitmap>> = vec![None; types.len()];
    for row in 0..rows {
        let codes = reader.take(codes_bytes(types.len()))?;
        reader.time(nibble(codes, 0), &mut time)?;
        times.push(time.last);
        for (column, &field_type) in types.iter().enumerate() {
            let value = reader.value(nibble(codes, column + 1), field_type, &mut states[column])?;
            if value.is_none() && present[column].is_none() {
                present[column] = Some((0..row).map(|_| true).collect());
            }
            if let Some(present) = &mut present[column] {
                present.push(value.is_some());
            }
            bits[column].extend(value);
        }
    }
    let fields = types
        .iter()
        .zip(bits)
        .zip(present)
        .map(|((&field_type, bits), present)| {
            Ok(FieldColumn {
                present,
                values: column_of(field_type, bits, bytes)?,
            })
        })
        .collect::<Result<Vec<_>, Malformed>>()?;
    Ok(Columns { times, fields })
}

fn column_of(field_type: FieldType, bits: Vec<u64>, block: &[u8]) -> Result<Column, Malformed> {
    Ok(match field_type {
        FieldType::F64 => Column::F64(bits.into_iter().map(f64::from_bits).collect()),
        FieldType::F32 => Column::F32(
            bits.into_iter()
                .map(|bits| f32::from_bits(bits as u32))
                .collect(),
        ),
        FieldType::I64 => Column::I64(bits.into_iter().map(|bits| bits as i64).collect()),
        FieldType::U64 => Column::U64(bits),
        FieldType::Bool => Column::Bool(bits.into_iter().map(|bits| bits != 0).collect()),
        FieldType::Str => {
            let mut texts = Strings::default();
            for place in bits {
                let at = place as usize - 1;
                let len = block.get(at..at + 2).ok_or(Malformed)?;
                let len = u16::from_le_bytes([len[0], len[1]]) as usize;
                let bytes = block.get(at + 2..at + 2 + len).ok_or(Malformed)?;
                texts.push(std::str::from_utf8(bytes).map_err(|_| Malformed)?);
            }
            Column::Str(texts)
        }
    })
}
