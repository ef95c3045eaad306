//! Splits a canonical name into its pieces in place, without building a key.
//!
//! Sources that are registered one after another usually share their first tags. A spelling stores
//! the latest name, and returns the number of its pieces with which the next name begins. These
//! pieces are not read again.

use memchr::memchr;
use seiner_model::SourceKey;
use std::ops::Range;

/// Latest name and its pieces: the measurement, then the tags in order.
#[derive(Default)]
pub struct Spelling {
    name: Vec<u8>,
    pieces: Vec<Piece>,
    /// Pieces of a name that may still prove not canonical.
    fresh: Vec<Piece>,
}

/// Place of a piece in its name.
#[derive(Clone, Copy)]
pub struct Piece {
    start: usize,
    /// End of the tag's name. Equals the start for a measurement.
    tag_end: usize,
    value: usize,
    end: usize,
}

impl Piece {
    fn tag(self, name: &[u8]) -> &[u8] {
        &name[self.start..self.tag_end]
    }
}

impl Spelling {
    /// Splits the next name and returns the number of its first pieces that equal those of the
    /// previous name. Returns `None` for a name that is not canonical, does not name a source, or
    /// contains a backslash. The previous name then remains the latest.
    pub fn read(&mut self, name: &[u8]) -> Option<usize> {
        let same = common_len(&self.name, name);
        // The comma after a piece is part of the comparison.
        let kept = self.pieces.iter().take_while(|piece| piece.end < same);
        let kept = kept.count();
        let last = kept.checked_sub(1).map(|last| self.pieces[last]);
        let start = last.map_or(0, |piece| piece.end + 1);
        self.fresh.clear();
        if name.len() > SourceKey::MAX_BYTES || !split(name, start, last, &mut self.fresh) {
            return None;
        }
        let fresh = std::mem::take(&mut self.fresh);
        self.follow(name, kept, &fresh);
        self.fresh = fresh;
        Some(kept)
    }

    /// Does the same as [`Spelling::read`] with the result of another spelling, which had the same previous name: the
    /// number of the first pieces that were kept, and the pieces after them.
    pub fn follow(&mut self, name: &[u8], kept: usize, fresh: &[Piece]) {
        self.pieces.truncate(kept);
        let start = self.pieces.last().map_or(0, |last| last.end + 1);
        self.name.truncate(start);
        self.name.extend_from_slice(&name[start..]);
        self.pieces.extend_from_slice(fresh);
    }

    /// Returns the pieces of the latest name that were not kept.
    pub fn fresh(&self) -> &[Piece] {
        &self.fresh
    }

    /// Returns the number of pieces of the latest name.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns tag and value of a piece. The tag of the measurement is empty.
    pub fn piece(&self, index: usize) -> (&[u8], &[u8]) {
        let piece = self.pieces[index];
        (piece.tag(&self.name), &self.name[piece.value..piece.end])
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let pieces = self.pieces.capacity() + self.fresh.capacity();
        self.name.capacity() + pieces * size_of::<Piece>()
    }
}

/// Finds the pieces from `start` on, which follow `last`. Returns whether they are canonical.
fn split(name: &[u8], mut start: usize, mut last: Option<Piece>, pieces: &mut Vec<Piece>) -> bool {
    let rest = &name[start..];
    if !is_plain(rest) {
        return false;
    }
    for text in rest.split(|&byte| byte == b',') {
        let Some(piece) = piece(name, last, start..start + text.len()) else {
            return false;
        };
        pieces.push(piece);
        last = Some(piece);
        start = piece.end + 1;
    }
    true
}

/// Returns whether the bytes of a text need no escaping. Texts end at ASCII bytes, so each text is
/// UTF-8 if the whole name is.
fn is_plain(bytes: &[u8]) -> bool {
    let odd = |odd: bool, &byte: &u8| odd | (byte == b'\\') | (byte == 0);
    !bytes.iter().fold(false, odd) && (bytes.is_ascii() || str::from_utf8(bytes).is_ok())
}

/// Returns the piece between two commas, if it may follow the previous piece.
fn piece(name: &[u8], before: Option<Piece>, range: Range<usize>) -> Option<Piece> {
    let Range { start, end } = range;
    let Some(before) = before else {
        return (start < end).then_some(Piece {
            start,
            tag_end: start,
            value: start,
            end,
        });
    };
    let text = &name[start..end];
    let equals = text.iter().position(|&byte| byte == b'=')?;
    let value = &text[equals + 1..];
    let piece = Piece {
        start,
        tag_end: start + equals,
        value: start + equals + 1,
        end,
    };
    // The measurement's tag is empty. Every tag except another empty tag may follow it.
    let follows = before.tag(name) < piece.tag(name);
    (follows && !value.is_empty() && !value.contains(&b'=')).then_some(piece)
}

/// Returns the name with its tags sorted. Returns `None` if the name contains a backslash.
pub fn sorted(name: &[u8]) -> Option<Vec<u8>> {
    if memchr(b'\\', name).is_some() {
        return None;
    }
    let mut texts = name.split(|&byte| byte == b',');
    let mut sorted = Vec::with_capacity(name.len());
    sorted.extend_from_slice(texts.next()?);
    let mut tags: Vec<&[u8]> = texts.collect();
    tags.sort_by_key(|tag| &tag[..memchr(b'=', tag).unwrap_or(tag.len())]);
    for tag in tags {
        sorted.push(b',');
        sorted.extend_from_slice(tag);
    }
    Some(sorted)
}

/// Returns the length of the common prefix of two names, in bytes.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    let (one_words, _) = one.as_chunks::<8>();
    let (other_words, _) = other.as_chunks::<8>();
    for (index, (one, other)) in one_words.iter().zip(other_words).enumerate() {
        let differing = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return index * 8 + differing.trailing_zeros() as usize / 8;
        }
    }
    let at = one_words.len().min(other_words.len()) * 8;
    let rest = one[at..].iter().zip(&other[at..]);
    at + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes a name by the slow path. Returns `None` if the name is not for a spelling.
    fn pieces(name: &[u8]) -> Option<Vec<(String, String)>> {
        let text = std::str::from_utf8(name).ok()?;
        let mut commas = text.split(',');
        let measurement = commas.next()?;
        let tags: Vec<(&str, &str)> = commas
            .map(|tag| tag.split_once('='))
            .collect::<Option<_>>()?;
        let key = SourceKey::new(measurement, tags.iter().copied()).ok()?;
        let mut canonical = Vec::new();
        key.put_name(&mut canonical);
        if canonical != name || text.contains('\\') {
            return None;
        }
        let tags = key.tags();
        let tags = tags.map(|(tag, value)| (tag.to_string(), value.to_string()));
        Some(
            [(String::new(), measurement.to_string())]
                .into_iter()
                .chain(tags)
                .collect(),
        )
    }

    fn check(names: &[&[u8]]) {
        let mut spelling = Spelling::default();
        let mut before: Vec<(String, String)> = Vec::new();
        for name in names {
            let kept = spelling.read(name);
            let expected = pieces(name);
            let shown = String::from_utf8_lossy(name);
            assert_eq!(kept.is_some(), expected.is_some(), "{shown:?}");
            let expected = expected.unwrap_or_else(|| before.clone());
            let found: Vec<(String, String)> = (0..spelling.pieces())
                .map(|index| spelling.piece(index))
                .map(|(tag, value)| [tag, value].map(|text| String::from_utf8_lossy(text).into()))
                .map(|[tag, value]| (tag, value))
                .collect();
            assert_eq!(found, expected, "{shown:?}");
            let kept = kept.unwrap_or(found.len());
            assert_eq!(found[..kept], before[..kept], "{shown:?}");
            before = found;
        }
    }

    #[test]
    fn pieces_shared_with_the_previous_name_are_reused() {
        let mut spelling = Spelling::default();
        for (name, kept) in [
            (&b"gauge,host=a,sensor=temp_1"[..], Some(0)),
            (b"gauge,host=a,sensor=temp_12", Some(2)),
            (b"gauge,host=a,sensor=temp_12,unit=C", Some(2)),
            (b"gauge,host=a,sensor=temp_12", Some(2)),
            (b"gauge,host=ab,sensor=temp_1", Some(1)),
            (b"gauges,host=ab,sensor=temp_1", Some(0)),
            (b"gauges", Some(0)),
            (b"gauges", Some(0)),
            (b"gauges,a=1,b=2", Some(0)),
            (b"gauges,a=1,a=2", None),
            (b"gauges,a=1,b=2", Some(2)),
        ] {
            assert_eq!(spelling.read(name), kept, "{name:?}");
        }
    }

    #[test]
    fn tags_are_sorted_by_their_names() {
        for (name, expected) in [
            ("m", Some("m")),
            ("m,b=1,a=2", Some("m,a=2,b=1")),
            ("m,a-b=1,a=2", Some("m,a=2,a-b=1")),
            ("m,b=1,a=2,", Some("m,,a=2,b=1")),
            ("m,b=1\\,a=2", None),
        ] {
            let expected = expected.map(|name| name.as_bytes().to_vec());
            assert_eq!(sorted(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn names_that_are_not_canonical_are_omitted() {
        let long = [b"m,t=".to_vec(), vec![b'x'; SourceKey::MAX_BYTES]].concat();
        for name in [
            &b""[..],
            b",a=1",
            b"m,",
            b"m,a",
            b"m,a=",
            b"m,=1",
            b"m,a=1,",
            b"m,a=1=2",
            b"m,a,b=1",
            b"m,b=1,a=1",
            b"m,a=1,a=1",
            b"m,a=x\\ y",
            b"m\\,a=1",
            b"m,a=\0",
            b"m\0,a=1",
            b"m,a=\xff",
            &long,
        ] {
            let mut spelling = Spelling::default();
            assert_eq!(spelling.read(name), None, "{name:?}");
            check(&[b"m,a=1,b=2", name, b"m,a=1,b=3"]);
        }
        check(&[b"a=b,c=d", "µ,é=ü".as_bytes(), b"m 1,a b=c d\n"]);
    }

    proptest! {
        #[test]
        fn names_are_parsed_like_keys(
            names in prop::collection::vec(prop::collection::vec(prop::sample::select(b"m,,,===ab\\\0\xC3\xA9".to_vec()), 0..24), 1..8),
        ) {
            check(&names.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }

        #[test]
        fn source_names_are_parsed_like_keys(
            names in prop::collection::vec("m[12]{0,9}(,a=[xy]{1,9})?(,b[12]=[xy ]{1,3}){0,3}", 1..12),
        ) {
            check(&names.iter().map(String::as_bytes).collect::<Vec<_>>());
        }
    }
}
