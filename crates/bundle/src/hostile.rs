//! Tests with damaged bytes: an error or rows, never a panic.

use std::sync::Arc;

use seiner_model::{Column, Columns, FieldColumn, FieldType, Strings};

use crate::{Bundle, BundleError, BundleWriter, Directory, Layout, Options, fuzzing};

/// Returns a small bundle of all types, with gaps, strays and two layouts.
fn small() -> Bundle {
    let layout = Arc::new(Layout::new(FieldType::ALL.map(|kind| (kind.name(), kind))));
    let other = Arc::new(Layout::new([
        ("value", FieldType::F64),
        ("name", FieldType::Str),
    ]));
    let mut writer = BundleWriter::new(Options::default());
    for id in 0..30u64 {
        let count = 1 + (id % 5) as usize;
        let number = |row: usize| (id as i64 * 37 + row as i64 * 11) % 101;
        let mut texts = Strings::default();
        (0..count).for_each(|row| texts.push(["on", "off", "idle"][number(row) as usize % 3]));
        let columns = [
            Column::F64((0..count).map(|row| number(row) as f64 / 10.0).collect()),
            Column::F32((0..count).map(|row| number(row) as f32 * 1.1).collect()),
            Column::I64((0..count).map(|row| number(row) - 50).collect()),
            Column::U64(
                (0..count)
                    .map(|row| number(row) as u64 * 1_000_003)
                    .collect(),
            ),
            Column::Bool((0..count).map(|row| number(row) > 50).collect()),
            Column::Str(texts),
        ];
        let fields = columns.into_iter().map(|values| FieldColumn {
            present: None,
            values,
        });
        let mut rows = Columns {
            times: (0..count as i64)
                .map(|row| row * 1_000 + (id % 3) as i64)
                .collect(),
            fields: fields.collect(),
        };
        if count > 2 {
            let gaps = (0..count).map(|row| row != 1).collect();
            let picked: Vec<usize> = (0..count).filter(|row| *row != 1).collect();
            if let Some(field) = rows.fields[0].pick(&picked) {
                rows.fields[0] = FieldColumn {
                    present: Some(gaps),
                    values: field.values,
                };
            }
        }
        writer.push(id * id, &layout, &rows).unwrap();
        let mut values: Vec<f64> = (0..8).map(|row| number(row) as f64 / 100.0).collect();
        values[3] = f64::NAN;
        // Distinct texts are left to the codec.
        let mut names = Strings::default();
        (0..8).for_each(|row| names.push(&format!("source {id}, row {row}")));
        let rows = Columns {
            times: (0..8)
                .map(|row| row * 10 + number(row as usize))
                .scan(0, |sum, step| {
                    *sum += step;
                    Some(*sum)
                })
                .collect(),
            fields: vec![
                FieldColumn {
                    present: None,
                    values: Column::F64(values),
                },
                FieldColumn {
                    present: None,
                    values: Column::Str(names),
                },
            ],
        };
        writer.push(id * id, &other, &rows).unwrap();
    }
    writer.finish()
}

/// Decodes all chunks of a bundle as a reader does.
fn read(directory: &[u8], data: &[u8]) -> Result<Vec<crate::SourceRows>, BundleError> {
    let directory = Directory::parse(directory)?;
    let mut all = Vec::new();
    for chunk in directory.chunks() {
        let bytes = data.get(chunk.start..chunk.end).unwrap_or_default();
        all.extend(directory.decode_chunk(chunk.index, bytes)?.sources());
    }
    Ok(all)
}

#[test]
fn every_flipped_byte_is_detected() {
    let bundle = small();
    assert_eq!(read(&bundle.directory, &bundle.data).unwrap().len(), 60);
    for at in 0..bundle.directory.len() {
        let mut damaged = bundle.directory.clone();
        damaged[at] ^= 0x10;
        assert!(
            read(&damaged, &bundle.data).is_err(),
            "byte {at} of the directory"
        );
    }
    for at in 0..bundle.data.len() {
        let mut damaged = bundle.data.clone();
        damaged[at] ^= 0x10;
        assert!(
            read(&bundle.directory, &damaged).is_err(),
            "byte {at} of the data"
        );
    }
    for length in 0..bundle.directory.len() {
        assert!(read(&bundle.directory[..length], &bundle.data).is_err());
    }
    for length in 0..bundle.data.len() {
        assert!(read(&bundle.directory, &bundle.data[..length]).is_err());
    }
}

/// The same without checksums, which an attacker can compute.
#[test]
fn damaged_bytes_with_right_checksums_never_panic() {
    let bundle = small();
    let directory = &bundle.directory[4..];
    let mut errors = 0;
    for at in 0..directory.len() {
        for flip in [1, 2, 0x10, 0x80, 0xff] {
            let mut damaged = directory.to_vec();
            damaged[at] ^= flip;
            errors += usize::from(!fuzzing::bundle(&damaged, &bundle.data));
        }
        fuzzing::bundle(&directory[..at], &bundle.data);
    }
    for at in 0..bundle.data.len() {
        for flip in [1, 2, 0x10, 0x80, 0xff] {
            let mut damaged = bundle.data.clone();
            damaged[at] ^= flip;
            errors += usize::from(!fuzzing::bundle(directory, &damaged));
        }
        fuzzing::bundle(directory, &bundle.data[..at]);
    }
    assert!(fuzzing::bundle(directory, &bundle.data));
    assert!(errors > bundle.data.len(), "only {errors} errors");
}

#[test]
fn random_bytes_never_panic() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for length in 0..2000 {
        let bytes: Vec<u8> = (0..length % 300)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Small numbers pass more checks.
                (state >> 33) as u8 >> (state >> 61)
            })
            .collect();
        let (directory, data) = bytes.split_at(bytes.len() * 3 / 4);
        let directory = [&[1, 1], directory].concat();
        fuzzing::bundle(&directory, data);
    }
}

#[test]
fn errors_name_the_place() {
    let bundle = small();
    let directory = Directory::parse(&bundle.directory).unwrap();
    let last = directory.chunks().last().unwrap();
    let bytes = &bundle.data[last.start..last.end];
    let error = directory.decode_chunk(last.index, &bytes[1..]).unwrap_err();
    let text = error.to_string();
    let (start, length) = (last.start, last.end - last.start);
    assert_eq!(
        text,
        format!(
            "chunk {}, at byte {start} of the data, has {} bytes, the directory states {length}",
            last.index,
            length - 1
        )
    );
    let error = directory.decode_chunk(99, bytes).unwrap_err();
    assert_eq!(
        error,
        BundleError::NoChunk {
            chunk: 99,
            chunks: directory.chunks().len()
        }
    );
    let error = directory.decode_unchecked(last.index, &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("in chunk {}", last.index)),
        "{error}"
    );
    let mut next = bundle.directory[4..].to_vec();
    next[0] = 2;
    let version = BundleError::Version {
        expected: 1,
        found: 2,
    };
    assert_eq!(Directory::parse_body(&next).unwrap_err(), version);
}
