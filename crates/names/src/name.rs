//! Canonical names of sources: `measurement,tag=value`, with the tags sorted.
//!
//! A backslash escapes commas and backslashes, and `=` in the names and values of tags. A key has one canonical name.

use memchr::{memchr, memchr2, memchr3};
use seiner_model::SourceKey;
use std::borrow::Cow;

/// Appends the canonical name of a source, as [`SourceKey::put_name`] does.
pub fn put_name<'t>(
    measurement: &[u8],
    tags: impl Iterator<Item = (&'t [u8], &'t [u8])>,
    out: &mut Vec<u8>,
) {
    put_escaped(measurement, |text| memchr2(b',', b'\\', text), out);
    let in_tags = |text: &[u8]| memchr3(b',', b'=', b'\\', text);
    for (tag, value) in tags {
        out.push(b',');
        put_escaped(tag, in_tags, out);
        out.push(b'=');
        put_escaped(value, in_tags, out);
    }
}

fn put_escaped(text: &[u8], find: impl Fn(&[u8]) -> Option<usize>, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = find(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', rest[at]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Returns the key with a canonical name. `None` if the bytes are no name of a key.
pub fn parse_name(name: &[u8]) -> Option<SourceKey> {
    let name = std::str::from_utf8(name).ok()?;
    let mut rest = name;
    let measurement = take_until(&mut rest, b',')?;
    let mut tags = Vec::new();
    let mut more = measurement.len() < name.len();
    while more {
        let pair = take_until(&mut rest, b',')?;
        let mut value = pair;
        let tag = take_until(&mut value, b'=')?;
        if tag.len() == pair.len() {
            return None;
        }
        tags.push((unescaped(tag), unescaped(value)));
        more = !rest.is_empty();
    }
    SourceKey::new(unescaped(measurement), tags).ok()
}

/// Returns the text before an unescaped byte, and removes both from `rest`. Without such a byte: all of `rest`.
/// `None` if the text ends with the backslash of an escape.
fn take_until<'t>(rest: &mut &'t str, end: u8) -> Option<&'t str> {
    let text = *rest;
    let mut at = 0;
    while let Some(next) = memchr2(end, b'\\', &text.as_bytes()[at..]) {
        at += next;
        if text.as_bytes()[at] == end {
            *rest = &text[at + 1..];
            return Some(&text[..at]);
        }
        at += 2;
        if at > text.len() {
            return None;
        }
    }
    *rest = "";
    Some(text)
}

/// Removes the backslashes of escapes.
fn unescaped(text: &str) -> Cow<'_, str> {
    if memchr(b'\\', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(key: &SourceKey) -> (Vec<u8>, Vec<u8>) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let tags = key.tags();
        let tags = tags.map(|(tag, value)| (tag.as_bytes(), value.as_bytes()));
        put_name(key.measurement().as_bytes(), tags, &mut ours);
        key.put_name(&mut theirs);
        (ours, theirs)
    }

    proptest! {
        #[test]
        fn names_are_those_of_keys(
            measurement in "[a,=\\\\é]{1,5}",
            tags in prop::collection::btree_map("[a-c,=\\\\]{1,3}", "[a,=\\\\é]{1,4}", 0..4),
        ) {
            let key = SourceKey::new(measurement, tags).unwrap();
            let (ours, theirs) = bytes(&key);
            prop_assert_eq!(&ours, &theirs);
            prop_assert_eq!(parse_name(&ours), Some(key));
        }

        #[test]
        fn any_bytes_are_parsed_or_rejected(name in "[a,=\\\\é\0]{0,12}") {
            parse_name(name.as_bytes());
        }
    }

    #[test]
    fn other_bytes_are_no_name() {
        for name in ["", ",", "a,b", "a,=b", "a\\", "a,b=c\\", "a,b=1,b=2", "\0"] {
            assert_eq!(parse_name(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(parse_name(&[0xff]), None);
    }
}
