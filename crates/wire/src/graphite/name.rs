//! Paths with tags: `disk.used;host=a;mount=/`.

use crate::Skipped;
use crate::line::{Arena, shown};
use crate::sample::Name;
use memchr::{memchr, memchr3};
use seiner_model::SourceKey;

/// Returns the name of the source of a path, in the notation of lines.
pub(super) fn source_name<'b>(path: &'b [u8], arena: &'b Arena) -> Result<&'b [u8], Skipped> {
    if path.is_empty() {
        return Err(Skipped::because("the path is empty"));
    }
    if path.len() > SourceKey::MAX_BYTES {
        return Err(Skipped::because(format!(
            "the path is longer than {} bytes",
            SourceKey::MAX_BYTES
        )));
    }
    let Ok(text) = std::str::from_utf8(path) else {
        return Err(Skipped::because(format!(
            "path {:?} is not UTF-8",
            shown(path)
        )));
    };
    // A path without characters to escape is its own name in the notation of lines, with other separators.
    if memchr3(b',', b' ', b'\\', path).is_none() {
        match memchr(b';', path) {
            None => return Ok(path),
            Some(end) if end > 0 && are_tags(&path[end + 1..]) => {
                return Ok(arena.keep_replaced(path, b';', b','));
            }
            Some(_) => {}
        }
    }
    let mut parts = text.split(';');
    let measurement = parts.next().unwrap_or_default();
    if measurement.is_empty() {
        return Err(Skipped::because("the path has no name before its tags"));
    }
    let mut name = Name::new(measurement)?;
    for part in parts {
        let (tag, value) = match part.split_once('=') {
            Some((tag, value)) if !tag.is_empty() && !value.is_empty() => (tag, value),
            _ => {
                let part = shown(part.as_bytes());
                return Err(Skipped::because(format!(
                    "{part:?} is not a tag; write ;tag=value"
                )));
            }
        };
        name.tag(tag, value)?;
    }
    Ok(arena.keep(name.as_bytes()))
}

/// Returns whether a text is a list of tags, each with a name and a value without an equals sign.
fn are_tags(text: &[u8]) -> bool {
    text.split(|byte| *byte == b';').all(|tag| {
        let equals = memchr(b'=', tag);
        equals.is_some_and(|at| {
            at > 0 && at + 1 < tag.len() && memchr(b'=', &tag[at + 1..]).is_none()
        })
    })
}
