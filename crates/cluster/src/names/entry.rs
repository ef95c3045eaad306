//! Entries of a log of names, as bytes.

use seiner_codec::varint;
use seiner_model::{FieldType, SourceKey};
use std::sync::Arc;

/// Source, or new fields of a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Number of the source.
    pub number: u32,
    /// Measurement and tags.
    pub key: Arc<SourceKey>,
    /// Fields.
    pub fields: Vec<(Arc<str>, FieldType)>,
}

/// Types of fields by their codes.
const TYPES: [FieldType; 6] = [
    FieldType::F64,
    FieldType::F32,
    FieldType::I64,
    FieldType::U64,
    FieldType::Bool,
    FieldType::Str,
];

/// Encodes entries as values of about `bytes` bytes.
pub(crate) fn encode(entries: &[Entry], bytes: usize) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    let mut value = Vec::new();
    for entry in entries {
        varint::put_u64(u64::from(entry.number), &mut value);
        put_text(entry.key.measurement(), &mut value);
        varint::put_u64(entry.key.tags().len() as u64, &mut value);
        for (tag, text) in entry.key.tags() {
            put_text(tag, &mut value);
            put_text(text, &mut value);
        }
        varint::put_u64(entry.fields.len() as u64, &mut value);
        for (name, field_type) in &entry.fields {
            put_text(name, &mut value);
            let code = TYPES.iter().position(|known| known == field_type);
            value.push(code.expect("all types have codes") as u8);
        }
        if value.len() >= bytes {
            values.push(std::mem::take(&mut value));
        }
    }
    values.extend((!value.is_empty()).then_some(value));
    values
}

/// Decodes the entries of a value. Returns `None` if the bytes are not entries.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let number = u32::try_from(varint::get_u64(&mut bytes).ok()?).ok()?;
        let measurement = text(&mut bytes)?;
        let mut tags = Vec::new();
        for _ in 0..count(&mut bytes)? {
            tags.push((text(&mut bytes)?, text(&mut bytes)?));
        }
        let mut fields = Vec::new();
        for _ in 0..count(&mut bytes)? {
            let name: Arc<str> = text(&mut bytes)?.into();
            let (&code, rest) = bytes.split_first()?;
            bytes = rest;
            fields.push((name, *TYPES.get(code as usize)?));
        }
        let key = Arc::new(SourceKey::new(measurement, tags).ok()?);
        entries.push(Entry {
            number,
            key,
            fields,
        });
    }
    Some(entries)
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    varint::put_u64(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = count(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// Reads a count, which is at most the number of remaining bytes.
fn count(bytes: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(varint::get_u64(bytes).ok()?).ok()?;
    (count <= bytes.len()).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_return_and_damaged_bytes_are_rejected() {
        let entry = |number: u32| Entry {
            number,
            key: Arc::new(SourceKey::new("cpu", [("host", "a"), ("core", "1")]).unwrap()),
            fields: TYPES
                .iter()
                .map(|kind| (format!("{kind:?}").into(), *kind))
                .collect(),
        };
        let entries: Vec<Entry> = (0..5).map(entry).collect();
        let values = encode(&entries, 100);
        assert!(values.len() > 1);
        let decoded: Vec<Entry> = values
            .iter()
            .flat_map(|value| decode(value).unwrap())
            .collect();
        assert_eq!(decoded, entries);
        for end in 1..values[0].len() {
            // Some cuts fall between entries; no cut panics.
            let _ = decode(&values[0][..end]);
        }
        assert_eq!(decode(&[1, 200, 3]), None);
    }
}
