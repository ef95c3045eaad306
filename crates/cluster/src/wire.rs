//! Messages between ports: rows that are not handed over, as bytes.
//!
//! The rows are encoded as bundles, whose numbers of sources are positions in a list of names.
//! `docs/format/cluster.md` describes the bytes.

use crate::names::{Entry, decode as decode_names, encode as encode_names};
use crate::peers::{PortRows, Unflushed};
use seiner_bundle::{BundleWriter, Directory, Layout};
use seiner_codec::varint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// First byte of a message.
const VERSION: u8 = 1;
/// Bytes at which a bundle is finished.
const BUNDLE: usize = 1 << 20;

/// Encodes rows.
pub fn encode(rows: &PortRows) -> Vec<u8> {
    let mut out = vec![VERSION];
    varint::put_u64(rows.journals.len() as u64, &mut out);
    for (port, epoch) in &rows.journals {
        put_bytes(port.as_bytes(), &mut out);
        varint::put_u64(*epoch, &mut out);
    }
    let mut by_stamp: BTreeMap<u64, Vec<(u32, &Unflushed)>> = BTreeMap::new();
    for (nth, rows) in rows.rows.iter().enumerate() {
        by_stamp
            .entry(rows.stamp)
            .or_default()
            .push((nth as u32, rows));
    }
    let entries: Vec<Entry> = rows.rows.iter().enumerate().map(entry).collect();
    let names = encode_names(&entries, usize::MAX).concat();
    put_bytes(&names, &mut out);
    for (stamp, rows) in by_stamp {
        put_bundles(stamp, &rows, &mut out);
    }
    out
}

fn entry((nth, rows): (usize, &Unflushed)) -> Entry {
    Entry {
        number: nth as u32,
        key: rows.key.clone(),
        fields: rows.fields.clone(),
    }
}

/// Appends bundles with the rows of one stamp.
fn put_bundles(stamp: u64, rows: &[(u32, &Unflushed)], out: &mut Vec<u8>) {
    let mut writer = BundleWriter::new(Default::default());
    for (nth, rows) in rows {
        let fields = rows
            .fields
            .iter()
            .map(|(name, kind)| (name.to_string(), *kind));
        let layout = Arc::new(Layout::new(fields));
        for part in crate::columns::divide(rows.rows.clone()) {
            // The rows of a source are ascending and within the limits of a bundle.
            if writer.push(u64::from(*nth), &layout, &part).is_err() {
                finish(
                    stamp,
                    std::mem::replace(&mut writer, BundleWriter::new(Default::default())),
                    out,
                );
                writer
                    .push(u64::from(*nth), &layout, &part)
                    .expect("a part fits into an empty bundle");
            }
            if writer.estimated_bytes() >= BUNDLE {
                finish(
                    stamp,
                    std::mem::replace(&mut writer, BundleWriter::new(Default::default())),
                    out,
                );
            }
        }
    }
    finish(stamp, writer, out);
}

fn finish(stamp: u64, mut writer: BundleWriter, out: &mut Vec<u8>) {
    if writer.is_empty() {
        return;
    }
    let bundle = writer.finish();
    varint::put_u64(stamp, out);
    put_bytes(&bundle.directory, out);
    put_bytes(&bundle.data, out);
}

/// Decodes rows.
///
/// # Errors
/// If the bytes are not a message of this version.
pub fn decode(bytes: &[u8]) -> Result<PortRows, String> {
    let (&version, mut rest) = bytes.split_first().ok_or("the message is empty")?;
    if version != VERSION {
        return Err(format!("the message has version {version}, not {VERSION}"));
    }
    let rest = &mut rest;
    let mut found = PortRows::default();
    for _ in 0..number(rest)?.min(1 << 20) {
        let port = String::from_utf8_lossy(get_bytes(rest)?).into_owned();
        found.journals.push((port, number(rest)?));
    }
    let names = decode_names(get_bytes(rest)?).ok_or("the names are damaged")?;
    while !rest.is_empty() {
        let stamp = number(rest)?;
        let directory = Directory::parse(get_bytes(rest)?).map_err(|error| error.to_string())?;
        let data = get_bytes(rest)?;
        for chunk in directory.chunks() {
            let bytes = data
                .get(chunk.start..chunk.end)
                .ok_or("a chunk is missing")?;
            let rows = directory
                .decode_chunk(chunk.index, bytes)
                .map_err(|error| error.to_string())?;
            for source in rows.sources() {
                let name = names
                    .get(source.id as usize)
                    .ok_or("a source has no name")?;
                let fields = source.layout.fields().iter();
                found.rows.push(Unflushed {
                    key: name.key.clone(),
                    fields: fields
                        .map(|(name, kind)| (name.as_str().into(), *kind))
                        .collect(),
                    rows: source.rows,
                    stamp,
                });
            }
        }
    }
    Ok(found)
}

fn number(bytes: &mut &[u8]) -> Result<u64, String> {
    varint::get_u64(bytes).map_err(|error| error.to_string())
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put_u64(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn get_bytes<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = usize::try_from(number(bytes)?).unwrap_or(usize::MAX);
    let (taken, rest) = bytes
        .split_at_checked(length)
        .ok_or("the message is cut off")?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::{Column, Columns, FieldColumn, FieldType, SourceKey};

    fn rows(name: &str, count: i64, stamp: u64) -> Unflushed {
        Unflushed {
            key: Arc::new(SourceKey::new(name, [("a", "b")]).unwrap()),
            fields: vec![("x".into(), FieldType::I64)],
            rows: Columns {
                times: (0..count).map(|nth| nth * 1000 + 5).collect(),
                fields: vec![FieldColumn {
                    present: None,
                    values: Column::I64((0..count).collect()),
                }],
            },
            stamp,
        }
    }

    #[test]
    fn rows_return_and_damaged_messages_are_rejected() {
        let sent = PortRows {
            journals: vec![("a".to_string(), 3), ("b".to_string(), 1)],
            rows: vec![
                rows("m", 10, u64::MAX),
                rows("n", 3, 7),
                rows("o", 1, u64::MAX),
            ],
        };
        let bytes = encode(&sent);
        let mut returned = decode(&bytes).unwrap();
        returned.rows.sort_by_key(|rows| rows.key.to_string());
        assert_eq!(returned, sent);
        for end in 0..bytes.len() {
            // A cut between bundles is a shorter message; no cut panics.
            let _ = decode(&bytes[..end]);
        }
        assert!(decode(&[9]).is_err());
        assert_eq!(
            decode(&encode(&PortRows::default())).unwrap(),
            PortRows::default()
        );
    }

    #[test]
    fn long_sources_are_divided_and_come_back_in_order() {
        let sent = PortRows {
            journals: Vec::new(),
            rows: vec![rows("m", 250_000, 1)],
        };
        let returned = decode(&encode(&sent)).unwrap();
        let times = returned
            .rows
            .iter()
            .flat_map(|part| part.rows.times.clone());
        assert_eq!(times.collect::<Vec<i64>>(), sent.rows[0].rows.times);
        assert!(returned.rows.len() > 1);
    }
}
