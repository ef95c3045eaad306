//! A source: a measurement with its tags.

use crate::selector;
use std::fmt::{self, Write as _};

/// A source's number in one store: dense, given in the order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// Why a measurement and tags do not name a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The measurement is empty.
    #[error("the measurement is empty")]
    EmptyMeasurement,
    /// A tag has an empty name.
    #[error("a tag has an empty name")]
    EmptyTagName,
    /// The same tag stands twice.
    #[error("tag {0:?} stands twice")]
    DuplicateTag(String),
    /// A name holds a control character that no notation can write back.
    #[error("{0:?} holds a NUL byte")]
    Nul(String),
    /// The key is longer than [`SourceKey::MAX_BYTES`].
    #[error("the measurement and tags take {0} bytes, more than {max}", max = SourceKey::MAX_BYTES)]
    TooLong(usize),
    /// The text is not in the notation that it was said to be in.
    #[error("{0}")]
    Notation(String),
}

/// The tag of the sources that hold what has become of older samples: the step of a level. It begins
/// with a byte that no name from outside may have, so nobody's source is ever taken for one.
const STEP_TAG: &str = "\0step";

/// Which level of a source another source is: the figures of its samples, a row a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LevelId {
    /// The length of a step in ns.
    pub step_ns: u64,
    /// Sources with many fields need several sources a level: which of them this is, from 0.
    pub part: u32,
}

/// The identity of a source: measurement, and tags sorted by name.
///
/// Tags with an empty value are dropped: an absent tag and an empty one are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    measurement: String,
    tags: Vec<(String, String)>,
}

impl SourceKey {
    /// The longest key, measurement and tags together, in bytes.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// The number of the notation of canonical names: line protocol's ([`Notation::id`]).
    ///
    /// [`Notation::id`]: crate::Notation::id
    pub const NOTATION: u32 = 1;

    /// A key from a measurement and tags in any order.
    pub fn new<M, I, K, V>(measurement: M, tags: I) -> Result<SourceKey, KeyError>
    where
        M: Into<String>,
        I: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<String>,
    {
        let measurement = measurement.into();
        let mut tags: Vec<(String, String)> = tags
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .filter(|(_, value): &(String, String)| !value.is_empty())
            .collect();
        tags.sort();
        let key = SourceKey { measurement, tags };
        key.check()?;
        Ok(key)
    }

    /// A key that comes from the store itself: as [`SourceKey::new`], and it may be a level's.
    pub fn stored<'t>(
        measurement: &str,
        tags: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<SourceKey, KeyError> {
        let mut level = None;
        let tags: Vec<(&str, &str)> = tags
            .into_iter()
            .filter(|(tag, value)| match *tag == STEP_TAG {
                true => {
                    level = LevelId::parse(value);
                    level.is_none()
                }
                false => true,
            })
            .collect();
        let base = SourceKey::new(measurement, tags)?;
        Ok(match level {
            Some(level) => base.level(level),
            None => base,
        })
    }

    /// The key of a level of this source.
    pub fn level(&self, level: LevelId) -> SourceKey {
        let mut tags = self.base().tags;
        // The first of all tags, as its first byte is the lowest.
        tags.insert(0, (STEP_TAG.to_string(), level.to_string()));
        SourceKey {
            measurement: self.measurement.clone(),
            tags,
        }
    }

    /// Which level this is, if it is one.
    pub fn level_id(&self) -> Option<LevelId> {
        let (tag, value) = self.tags.first()?;
        (tag == STEP_TAG).then(|| LevelId::parse(value)).flatten()
    }

    /// The source of which this is a level; itself, if it is none.
    pub fn base(&self) -> SourceKey {
        let mut base = self.clone();
        base.tags.retain(|(tag, _)| tag != STEP_TAG);
        base
    }

    /// The name of the tag that tells levels from other sources.
    pub fn step_tag() -> &'static str {
        STEP_TAG
    }

    fn check(&self) -> Result<(), KeyError> {
        if self.measurement.is_empty() {
            return Err(KeyError::EmptyMeasurement);
        }
        if self.tags.iter().any(|(key, _)| key.is_empty()) {
            return Err(KeyError::EmptyTagName);
        }
        if let Some(pair) = self.tags.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(KeyError::DuplicateTag(pair[0].0.clone()));
        }
        let mut bytes = self.measurement.len();
        for text in self.tags.iter().flat_map(|(key, value)| [key, value]) {
            bytes += text.len();
            if text.contains('\0') {
                return Err(KeyError::Nul(text.clone()));
            }
        }
        if self.measurement.contains('\0') {
            return Err(KeyError::Nul(self.measurement.clone()));
        }
        if bytes > Self::MAX_BYTES {
            return Err(KeyError::TooLong(bytes));
        }
        Ok(())
    }

    /// The measurement.
    pub fn measurement(&self) -> &str {
        &self.measurement
    }

    /// The tags, sorted by name, each name once, no empty values.
    pub fn tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// Appends the canonical name, of which every key has one: `measurement,tag=value`, the tags
    /// sorted, with backslashes before commas, backslashes, and the `=` of tags and values, and
    /// before nothing else.
    pub fn put_name(&self, name: &mut Vec<u8>) {
        put_escaped(&self.measurement, |byte| matches!(byte, b',' | b'\\'), name);
        let in_tags = |byte| matches!(byte, b',' | b'=' | b'\\');
        for (tag, value) in &self.tags {
            name.push(b',');
            put_escaped(tag, in_tags, name);
            name.push(b'=');
            put_escaped(value, in_tags, name);
        }
    }

    /// The value of a tag; the empty string where the source does not have it.
    pub fn tag(&self, name: &str) -> &str {
        self.tags
            .binary_search_by(|(key, _)| key.as_str().cmp(name))
            .map_or("", |at| &self.tags[at].1)
    }
}

impl LevelId {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<LevelId> {
        let (step, part) = text.split_once('/').unwrap_or((text, "0"));
        Some(LevelId {
            step_ns: step.parse().ok()?,
            part: part.parse().ok()?,
        })
    }
}

/// As the tag writes it: `60000000000`, and `60000000000/1` for the second part.
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

/// The selector notation: `cpu{core="0",host="a"}`. [`Selector::parse`] reads it as the conditions
/// that this source meets.
///
/// [`Selector::parse`]: crate::Selector::parse
impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        selector::write_name(f, &self.measurement)?;
        if self.tags.is_empty() {
            return Ok(());
        }
        for (index, (key, value)) in self.tags.iter().enumerate() {
            f.write_char(if index == 0 { '{' } else { ',' })?;
            // What no name may have, nobody's terminal should get.
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
    fn levels_are_told_from_sources_and_cannot_be_named_from_outside() {
        let key = SourceKey::new("cpu", [("host", "a")]).unwrap();
        for part in [0, 3] {
            let level = LevelId {
                step_ns: 60_000_000_000,
                part,
            };
            let of = key.level(level);
            assert_eq!((of.level_id(), of.base()), (Some(level), key.clone()));
            let tags = || of.tags().iter().map(|(tag, value)| (&**tag, &**value));
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
    fn keys_that_name_nothing_are_refused() {
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
