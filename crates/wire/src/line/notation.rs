//! Names of sources as lines write them.

use super::escape::{IN_MEASUREMENT, IN_NAME, find_separator, is_escaped, unescape_in_place};
use memchr::{memchr, memchr_iter};
use seiner_model::{KeyError, Notation, SourceKey};

/// Notation `measurement,tag=value,tag=value`, with backslashes before `,`, `=` and space.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineNotation;

impl Notation for LineNotation {
    fn id(&self) -> u32 {
        // A canonical name without backslashes names the same source in this notation.
        SourceKey::NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let end = find_separator(name, b',').unwrap_or(name.len());
        let measurement = text(&name[..end], IN_MEASUREMENT)?;
        let mut tags = Vec::new();
        let mut rest = &name[end..];
        while let Some(after_comma) = rest.strip_prefix(b",") {
            let end = find_separator(after_comma, b',').unwrap_or(after_comma.len());
            tags.push(tag(&after_comma[..end])?);
            rest = &after_comma[end..];
        }
        SourceKey::new(measurement, tags)
    }
}

fn tag(pair: &[u8]) -> Result<(String, String), KeyError> {
    let Some(equals) = find_separator(pair, b'=') else {
        let pair = super::fault::shown(pair);
        return Err(KeyError::Notation(format!(
            "tag {pair:?} has no value; write tag=value"
        )));
    };
    let raw = &pair[equals + 1..];
    if is_swallowed(raw) {
        let pair = super::fault::shown(pair);
        return Err(KeyError::Notation(format!(
            "tag {pair:?} has a backslash before the comma, which makes the comma part of the value; \
             leave out the backslash at the end of a value"
        )));
    }
    let (key, value) = (text(&pair[..equals], IN_NAME)?, text(raw, IN_NAME)?);
    if value.is_empty() {
        return Err(KeyError::Notation(format!(
            "tag {key:?} has an empty value; leave the tag out instead"
        )));
    }
    Ok((key, value))
}

/// Returns whether a value contains the next tag: an equals sign follows an escaped comma. This happens if the
/// value ends in a backslash.
fn is_swallowed(raw: &[u8]) -> bool {
    let escaped = memchr_iter(b',', raw).find(|at| is_escaped(raw, 0, *at));
    escaped.is_some_and(|at| find_separator(&raw[at..], b'=').is_some())
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
