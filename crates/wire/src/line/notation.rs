//! The name of a source as lines write it.

use super::escape::{IN_MEASUREMENT, IN_NAME, find_unescaped, unescape_in_place};
use memchr::memchr;
use seiner_model::{KeyError, Notation, SourceKey};

/// `measurement,tag=value,tag=value`, with backslashes before `,`, `=`, space and backslash.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineNotation;

impl Notation for LineNotation {
    fn id(&self) -> u32 {
        // A name that is canonical means here what it means everywhere.
        SourceKey::NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let end = find_unescaped(name, 0, b',').unwrap_or(name.len());
        let measurement = text(&name[..end], IN_MEASUREMENT)?;
        let mut tags = Vec::new();
        let mut rest = &name[end..];
        while let Some(after_comma) = rest.strip_prefix(b",") {
            let end = find_unescaped(after_comma, 0, b',').unwrap_or(after_comma.len());
            tags.push(tag(&after_comma[..end])?);
            rest = &after_comma[end..];
        }
        SourceKey::new(measurement, tags)
    }
}

fn tag(pair: &[u8]) -> Result<(String, String), KeyError> {
    let Some(equals) = find_unescaped(pair, 0, b'=') else {
        let pair = super::fault::shown(pair);
        return Err(KeyError::Notation(format!(
            "tag {pair:?} has no value; write tag=value"
        )));
    };
    let (key, value) = (
        text(&pair[..equals], IN_NAME)?,
        text(&pair[equals + 1..], IN_NAME)?,
    );
    if value.is_empty() {
        return Err(KeyError::Notation(format!(
            "tag {key:?} has an empty value; leave the tag out instead"
        )));
    }
    Ok((key, value))
}

fn text(raw: &[u8], escapable: &[u8]) -> Result<String, KeyError> {
    let mut bytes = raw.to_vec();
    if memchr(b'\\', raw).is_some() {
        let len = unescape_in_place(&mut bytes, escapable);
        bytes.truncate(len);
    }
    String::from_utf8(bytes).map_err(|error| {
        KeyError::Notation(format!(
            "{:?} is not UTF-8",
            super::fault::shown(error.as_bytes())
        ))
    })
}
