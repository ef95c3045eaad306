//! A source: a measurement with its tags.

use crate::selector;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};

/// Number of a source in one store. Numbers are dense and are assigned in the order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// Reasons to reject a measurement with tags as the key of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The measurement is empty.
    #[error("the measurement is empty")]
    EmptyMeasurement,
    /// A tag has an empty name.
    #[error("a tag has an empty name")]
    EmptyTagName,
    /// Two tags have the same name.
    #[error("tag {0:?} stands twice")]
    DuplicateTag(String),
    /// A measurement, tag name or tag value contains a NUL byte, which no notation can write.
    #[error("{0:?} holds a NUL byte")]
    Nul(String),
    /// The key is longer than [`SourceKey::MAX_BYTES`].
    #[error("the measurement and tags take {0} bytes, more than {max}", max = SourceKey::MAX_BYTES)]
    TooLong(usize),
    /// The text is not valid in its notation.
    #[error("{0}")]
    Notation(String),
}

/// Name of the tag that contains a [`LevelId`]: it marks sources that store roll-ups of older samples. The name
/// begins with a NUL byte, which [`SourceKey::new`] rejects, so no source from outside is mistaken for a level.
const STEP_TAG: &str = "\0step";

/// Identity of a level among the levels of one source. A level stores one row of aggregates per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LevelId {
    /// Length of a step, ns.
    pub step_ns: u64,
    /// Number of this part, from 0. The level of a source with many fields is split into several sources.
    pub part: u32,
}

/// Identity of a source: measurement, and tags sorted by name.
///
/// Tags with an empty value are dropped: an absent tag and an empty one are the same.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SourceKey {
    /// Measurement, and names and values of the tags, one after the other. Millions of keys are created and dropped by
    /// a query of all sources, so a key has few pieces of memory.
    text: Box<str>,
    /// Ends of these texts. [`SourceKey::MAX_BYTES`] fits.
    ends: Box<[u16]>,
}

impl SourceKey {
    /// Maximum size of a key in bytes: the measurement plus the names and values of all tags.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// Number of the notation of canonical names, which is that of line protocol ([`Notation::id`]).
    ///
    /// [`Notation::id`]: crate::Notation::id
    pub const NOTATION: u32 = 1;

    /// Creates a key from a measurement and tags in any order.
    ///
    /// # Errors
    /// If the measurement or the name of a tag is empty, two tags have the same name, a text contains a NUL
    /// byte, or the key exceeds [`SourceKey::MAX_BYTES`].
    pub fn new<M, I, K, V>(measurement: M, tags: I) -> Result<SourceKey, KeyError>
    where
        M: AsRef<str>,
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let measurement = measurement.as_ref();
        let tags: Vec<(K, V)> = tags.into_iter().collect();
        let tags = tags
            .iter()
            .map(|(tag, value)| (tag.as_ref(), value.as_ref()));
        let mut tags: Vec<(&str, &str)> = tags.filter(|(_, value)| !value.is_empty()).collect();
        tags.sort_unstable();
        check(measurement, &tags)?;
        Ok(SourceKey::of(measurement, tags.into_iter()))
    }

    /// Creates a key from names that the store itself recorded. Unlike [`SourceKey::new`], accepts the tag of a
    /// level.
    ///
    /// # Errors
    /// As [`SourceKey::new`].
    pub fn stored<'t>(
        measurement: &str,
        tags: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<SourceKey, KeyError> {
        let mut level = None;
        let tags = tags
            .into_iter()
            .filter(|(tag, value)| match *tag == STEP_TAG {
                true => {
                    level = LevelId::parse(value);
                    level.is_none()
                }
                false => true,
            });
        let base = SourceKey::new(measurement, tags)?;
        Ok(match level {
            Some(level) => base.level(level),
            None => base,
        })
    }

    /// Creates a key without checking it: from the texts of a key, with the tags in their order.
    pub fn recorded<'t>(
        measurement: &str,
        tags: impl ExactSizeIterator<Item = (&'t str, &'t str)> + Clone,
    ) -> SourceKey {
        let key = SourceKey::of(measurement, tags);
        debug_assert!(
            SourceKey::stored(measurement, key.tags()).as_ref() == Ok(&key),
            "{key} is the key of a source"
        );
        key
    }

    /// Returns the key of these texts.
    fn of<'t>(
        measurement: &str,
        tags: impl ExactSizeIterator<Item = (&'t str, &'t str)> + Clone,
    ) -> SourceKey {
        let bytes = tags.clone().map(|(tag, value)| tag.len() + value.len());
        let mut text = String::with_capacity(measurement.len() + bytes.sum::<usize>());
        let mut ends = Vec::with_capacity(1 + 2 * tags.len());
        let texts = tags.flat_map(|(tag, value)| [tag, value]);
        for part in std::iter::once(measurement).chain(texts) {
            text.push_str(part);
            ends.push(u16::try_from(text.len()).expect("the length of a key is limited"));
        }
        SourceKey {
            text: text.into_boxed_str(),
            ends: ends.into_boxed_slice(),
        }
    }

    /// Returns the text with an index: the measurement, or a name or a value of a tag.
    fn part(&self, index: usize) -> &str {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        &self.text[start.into()..self.ends[index].into()]
    }

    /// Returns the key of a level of this source.
    pub fn level(&self, level: LevelId) -> SourceKey {
        let level = level.to_string();
        // This tag sorts first because its first byte is the lowest.
        let mut tags = vec![(STEP_TAG, level.as_str())];
        tags.extend(self.tags().filter(|(tag, _)| *tag != STEP_TAG));
        SourceKey::of(self.measurement(), tags.into_iter())
    }

    /// Returns the identity of this level; `None` if this source is not a level.
    pub fn level_id(&self) -> Option<LevelId> {
        let (tag, value) = self.tags().next()?;
        (tag == STEP_TAG).then(|| LevelId::parse(value)).flatten()
    }

    /// Returns the source whose level this is, or a copy of this key if it is not a level.
    pub fn base(&self) -> SourceKey {
        let tags: Vec<_> = self.tags().filter(|(tag, _)| *tag != STEP_TAG).collect();
        SourceKey::of(self.measurement(), tags.into_iter())
    }

    /// Returns the name of the tag that distinguishes levels from other sources.
    pub fn step_tag() -> &'static str {
        STEP_TAG
    }

    /// Returns the measurement.
    pub fn measurement(&self) -> &str {
        self.part(0)
    }

    /// Returns the names and values of the tags, sorted by name. Names are unique, and no value is empty.
    pub fn tags(
        &self,
    ) -> impl ExactSizeIterator<Item = (&str, &str)> + DoubleEndedIterator + Clone {
        (0..self.ends.len() / 2).map(|tag| (self.part(2 * tag + 1), self.part(2 * tag + 2)))
    }

    /// Appends the canonical name: `measurement,tag=value`, with the tags sorted.
    ///
    /// Commas and backslashes are escaped by a backslash, and so is `=` in the names and values of tags. No
    /// other byte is escaped. Every key has exactly one canonical name.
    pub fn put_name(&self, name: &mut Vec<u8>) {
        let in_measurement = |byte| matches!(byte, b',' | b'\\');
        put_escaped(self.measurement(), in_measurement, name);
        let in_tags = |byte| matches!(byte, b',' | b'=' | b'\\');
        for (tag, value) in self.tags() {
            name.push(b',');
            put_escaped(tag, in_tags, name);
            name.push(b'=');
            put_escaped(value, in_tags, name);
        }
    }

    /// Returns the value of a tag, or the empty string if the source does not have the tag.
    pub fn tag(&self, name: &str) -> &str {
        let found = self.tags().find(|(tag, _)| *tag == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Checks the measurement and the sorted tags of a key from outside.
fn check(measurement: &str, tags: &[(&str, &str)]) -> Result<(), KeyError> {
    if measurement.is_empty() {
        return Err(KeyError::EmptyMeasurement);
    }
    if tags.iter().any(|(tag, _)| tag.is_empty()) {
        return Err(KeyError::EmptyTagName);
    }
    if let Some(pair) = tags.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(KeyError::DuplicateTag(pair[0].0.to_string()));
    }
    let texts = tags.iter().flat_map(|(tag, value)| [*tag, *value]);
    let mut bytes = 0;
    for text in texts.chain([measurement]) {
        bytes += text.len();
        if text.contains('\0') {
            return Err(KeyError::Nul(text.to_string()));
        }
    }
    match bytes <= SourceKey::MAX_BYTES {
        true => Ok(()),
        false => Err(KeyError::TooLong(bytes)),
    }
}

/// Order of the measurements, then of the tags.
impl Ord for SourceKey {
    fn cmp(&self, other: &SourceKey) -> Ordering {
        let measurements = self.measurement().cmp(other.measurement());
        measurements.then_with(|| self.tags().cmp(other.tags()))
    }
}

impl PartialOrd for SourceKey {
    fn partial_cmp(&self, other: &SourceKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LevelId {
    /// Parses the text that [`fmt::Display`] writes; `None` for any other text.
    pub fn parse(text: &str) -> Option<LevelId> {
        let (step, part) = text.split_once('/').unwrap_or((text, "0"));
        Some(LevelId {
            step_ns: step.parse().ok()?,
            part: part.parse().ok()?,
        })
    }
}

/// Text of the level's tag: the step in ns, such as `60000000000`, and `60000000000/1` for the second part.
impl fmt::Display for LevelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => write!(f, "{}", self.step_ns),
            part => write!(f, "{}/{part}", self.step_ns),
        }
    }
}

fn put_escaped(text: &str, escaped: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| escaped(byte)) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', rest[at]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Selector notation: `cpu{core="0",host="a"}`. [`Selector::parse`] reads it as a selector that this source
/// satisfies.
///
/// [`Selector::parse`]: crate::Selector::parse
impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        selector::write_name(f, self.measurement())?;
        if self.tags().len() == 0 {
            return Ok(());
        }
        for (index, (key, value)) in self.tags().enumerate() {
            f.write_char(if index == 0 { '{' } else { ',' })?;
            // The NUL byte of a level's tag must not reach a terminal.
            selector::write_name(f, key.trim_start_matches('\0'))?;
            f.write_char('=')?;
            selector::write_quoted(f, value)?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_sorted_and_empty_ones_dropped() {
        let key = SourceKey::new("cpu", [("host", "a"), ("core", "0"), ("rack", "")]).unwrap();
        assert_eq!(key.to_string(), r#"cpu{core="0",host="a"}"#);
        assert_eq!(key.tag("host"), "a");
        assert_eq!(key.tag("rack"), "");
    }

    #[test]
    fn every_key_has_one_canonical_name() {
        let name = |measurement: &str, tags: &[(&str, &str)]| {
            let mut name = Vec::new();
            let key = SourceKey::new(measurement, tags.iter().copied()).unwrap();
            key.put_name(&mut name);
            String::from_utf8(name).unwrap()
        };
        assert_eq!(
            name("cpu", &[("host", "a"), ("core", "0")]),
            "cpu,core=0,host=a"
        );
        assert_eq!(
            name("a=b,c", &[("d", "1=2 3"), ("e,=", "\\")]),
            r"a=b\,c,d=1\=2 3,e\,\==\\"
        );
    }

    #[test]
    fn keys_are_ordered_by_measurement_and_then_by_tags() {
        let mut keys: Vec<(&str, Vec<(&str, &str)>)> = vec![
            ("ab", vec![("c", "d")]),
            ("a", vec![("bc", "d")]),
            ("a", vec![("b", "cd")]),
            ("a", vec![("b", "c"), ("d", "e")]),
            ("a", vec![("b", "c")]),
            ("abcd", vec![]),
            ("a", vec![("b", "cde"), ("f", "g")]),
        ];
        let key = |(measurement, tags): &(&str, Vec<(&str, &str)>)| {
            SourceKey::new(measurement, tags.iter().copied()).unwrap()
        };
        let mut found: Vec<SourceKey> = keys.iter().map(key).collect();
        found.sort();
        keys.sort();
        assert!(keys.iter().map(key).eq(found.iter().cloned()));
        assert!(found.windows(2).all(|pair| pair[0] != pair[1]));
        for ((measurement, tags), key) in keys.iter().zip(&found) {
            assert_eq!(key.measurement(), *measurement);
            assert!(key.tags().eq(tags.iter().copied()));
            assert!(key.tags().rev().eq(tags.iter().copied().rev()));
        }
    }

    #[test]
    fn levels_differ_from_sources_and_cannot_be_named_from_outside() {
        let key = SourceKey::new("cpu", [("host", "a")]).unwrap();
        for part in [0, 3] {
            let level = LevelId {
                step_ns: 60_000_000_000,
                part,
            };
            let of = key.level(level);
            assert_eq!((of.level_id(), of.base()), (Some(level), key.clone()));
            let tags = || of.tags();
            assert_eq!(SourceKey::stored("cpu", tags()), Ok(of.clone()));
            assert!(matches!(
                SourceKey::new("cpu", tags()),
                Err(KeyError::Nul(_))
            ));
            assert!(of.tags().is_sorted());
        }
        assert_eq!(key.level_id(), None);
        assert!(SourceKey::stored("cpu", [("\0step", "x")]).is_err());
    }

    #[test]
    fn keys_without_a_name_are_rejected() {
        let none: [(&str, &str); 0] = [];
        assert_eq!(SourceKey::new("", none), Err(KeyError::EmptyMeasurement));
        assert_eq!(
            SourceKey::new("m", [("", "x")]),
            Err(KeyError::EmptyTagName)
        );
        assert_eq!(
            SourceKey::new("m", [("a", "1"), ("a", "2")]),
            Err(KeyError::DuplicateTag("a".into()))
        );
        assert!(matches!(SourceKey::new("m\0", none), Err(KeyError::Nul(_))));
        assert!(matches!(
            SourceKey::new("m".repeat(20_000), none),
            Err(KeyError::TooLong(20_000))
        ));
    }
}
