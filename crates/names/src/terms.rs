//! Terms pages: pairs of tag and value in ascending order, each with the list of its sources.
//!
//! A tag is stored as its index among the sorted tags of the file. Index and order of the measurement are those of a
//! tag with an empty name. A value is stored as the length of the prefix that the value before has too, and the other
//! bytes.

use crate::bytes::{Cursor, Malformed, put_bytes};
use crate::page::{Entries, EntriesWriter, PAGE_LIMIT, Position, common_prefix};
use crate::reader::Extent;
use seiner_codec::varint;
use seiner_model::SourceKey;
use std::cmp::Ordering;
use std::ops::Range;

/// Maximum number of sources that an entry lists one by one.
pub const NUMBERS: usize = 16;
/// Maximum bytes of a set within an entry. A longer one is elsewhere in the file.
pub const INLINE_BYTES: usize = 1024;

/// Form of a list: a set in the entry.
const INLINE: u64 = 0;
/// Form of a list: a set elsewhere in the file. A higher form is 1 more than the number of sources in the entry.
const STORED: u64 = 1;

/// Tag and value of a term: the index of the tag, and a value or the beginning of one.
pub type TermStart = (u32, Box<[u8]>);

/// Set of sources of a term, with more than [`NUMBERS`] numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRef {
    /// Number of sources.
    pub count: u64,
    /// Place of the bytes in the portable Roaring format.
    pub place: Place,
}

/// Place of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the body of the page.
    Page(Range<usize>),
    /// Elsewhere in the file.
    File(Extent),
}

/// List of a term that is being written.
pub enum List<'a> {
    /// At least one and at most [`NUMBERS`] sources, ascending.
    Numbers(&'a [u32]),
    /// Bytes of a set with a number of sources.
    Inline(u64, &'a [u8]),
    /// Place of a set with a number of sources.
    Stored(u64, Extent),
}

/// Terms page that is being written.
#[derive(Default)]
pub struct TermsWriter {
    page: EntriesWriter,
    first: (u32, Vec<u8>),
    tag: u32,
    value: Vec<u8>,
    number: u32,
}

impl TermsWriter {
    /// Adds a term, which is greater than the terms before.
    pub fn push(&mut self, tag: u32, value: &[u8], list: &List<'_>) {
        let common = match self.tag == tag {
            true => common_prefix(&self.value, value),
            false => 0,
        };
        if self.page.is_empty() {
            // Shortest text that is greater than the term before: the directory is in memory.
            self.first = (tag, value[..(common + 1).min(value.len())].to_vec());
        }
        let is_restart = self.page.begin();
        let out = &mut self.page.bytes;
        let (base, prefix) = match is_restart {
            true => (0, 0),
            false => (self.tag, common),
        };
        if is_restart {
            self.number = 0;
        }
        varint::put_u64(u64::from(tag - base), out);
        varint::put_u64(prefix as u64, out);
        put_bytes(&value[prefix..], out);
        match list {
            List::Numbers(numbers) => {
                varint::put_u64(numbers.len() as u64 + STORED, out);
                varint::put_i64(i64::from(numbers[0]) - i64::from(self.number), out);
                for pair in numbers.windows(2) {
                    varint::put_u64(u64::from(pair[1] - pair[0]), out);
                }
                self.number = numbers[0];
            }
            List::Inline(count, bytes) => {
                varint::put_u64(INLINE, out);
                varint::put_u64(*count, out);
                put_bytes(bytes, out);
            }
            List::Stored(count, extent) => {
                varint::put_u64(STORED, out);
                varint::put_u64(*count, out);
                put_extent(extent, out);
            }
        }
        self.tag = tag;
        self.value.clear();
        self.value.extend_from_slice(value);
    }

    pub fn is_full(&self) -> bool {
        self.page.is_full()
    }

    /// Returns a lower bound of the first term and the bytes of the page, and begins the next one. `None` if there is
    /// no entry.
    pub fn finish(&mut self) -> Option<(TermStart, Vec<u8>)> {
        if self.page.is_empty() {
            return None;
        }
        let (tag, value) = std::mem::take(&mut self.first);
        Some(((tag, value.into_boxed_slice()), self.page.finish()))
    }
}

/// Appends the place of bytes in the file.
pub fn put_extent(extent: &Extent, out: &mut Vec<u8>) {
    varint::put_u64(extent.offset, out);
    varint::put_u64(extent.len, out);
    out.extend_from_slice(&extent.sum.to_le_bytes());
}

/// Reads the place of bytes in the file.
pub fn parse_extent(rest: &mut Cursor<'_>) -> Result<Extent, Malformed> {
    Ok(Extent {
        offset: rest.varint()?,
        len: rest.varint()?,
        sum: rest.u32()?,
    })
}

/// Reader of the entries of a terms page.
#[derive(Default)]
pub struct TermsCursor {
    position: Position,
    /// Index of the tag of the latest term.
    pub tag: u32,
    /// Value of the latest term.
    pub value: Vec<u8>,
    /// Sources of the latest term, ascending. Empty if the term has a set.
    pub numbers: Vec<u32>,
    /// Set of the sources of the latest term.
    pub set: Option<SetRef>,
    /// First number of the latest list of numbers.
    base: u32,
}

impl TermsCursor {
    /// Returns the number of sources of the latest term.
    pub fn count(&self) -> u64 {
        let numbers = self.numbers.len() as u64;
        self.set.as_ref().map_or(numbers, |set| set.count)
    }

    /// Returns the order of the latest term and another one.
    pub fn cmp(&self, tag: u32, value: &[u8]) -> Ordering {
        (self.tag, self.value.as_slice()).cmp(&(tag, value))
    }

    /// Reads the next term. Returns false at the end of the page.
    pub fn next(&mut self, entries: &Entries<'_>) -> Result<bool, Malformed> {
        let Some((mut rest, is_restart)) = self.position.next(entries)? else {
            return Ok(false);
        };
        if is_restart {
            (self.tag, self.base) = (0, 0);
            self.value.clear();
        }
        self.tag = self.tag.checked_add(rest.number()?).ok_or(Malformed)?;
        let prefix = rest.count(self.value.len())?;
        let suffix = rest.bytes()?;
        if prefix + suffix.len() > SourceKey::MAX_BYTES {
            return Err(Malformed);
        }
        self.value.truncate(prefix);
        self.value.extend_from_slice(suffix);
        self.list(entries, &mut rest)?;
        self.position.advance(entries, &rest);
        Ok(true)
    }

    fn list(&mut self, entries: &Entries<'_>, rest: &mut Cursor<'_>) -> Result<(), Malformed> {
        self.numbers.clear();
        self.set = None;
        let form = rest.varint()?;
        match form {
            INLINE | STORED => {
                let count = rest.varint()?;
                let place = if form == STORED {
                    Place::File(parse_extent(rest)?)
                } else {
                    let len = rest.bytes()?.len();
                    let end = entries.body.len() - rest.0.len();
                    Place::Page(end - len..end)
                };
                self.set = Some(SetRef { count, place });
            }
            form if form - STORED <= NUMBERS as u64 => {
                let first = i64::from(self.base).checked_add(rest.signed()?);
                let first = first.and_then(|first| u32::try_from(first).ok());
                let mut number = first.ok_or(Malformed)?;
                self.base = number;
                self.numbers.push(number);
                for _ in 1..form - STORED {
                    let step = Some(rest.number()?).filter(|step| *step > 0);
                    let next = step.and_then(|step| number.checked_add(step));
                    number = next.ok_or(Malformed)?;
                    self.numbers.push(number);
                }
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// Reads the first term that is not less than another one. Returns false if there is none in the page.
    pub fn seek(
        &mut self,
        entries: &Entries<'_>,
        tag: u32,
        value: &[u8],
    ) -> Result<bool, Malformed> {
        let is_before = |mut rest: Cursor<'_>| {
            let found_tag = rest.number()?;
            rest.count(0)?;
            Ok((found_tag, rest.bytes()?) <= (tag, value))
        };
        let restart = entries.search(is_before)?;
        self.position = Position::restart(entries, restart)?;
        while self.next(entries)? {
            if self.cmp(tag, value).is_ge() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

// The longest entry has a value, and a list that is not longer than an inline set.
const _: () =
    assert!(crate::page::PAGE_BYTES + SourceKey::MAX_BYTES + 2 * INLINE_BYTES < PAGE_LIMIT);

#[cfg(test)]
mod tests {
    use super::*;

    fn value(n: u32) -> Vec<u8> {
        format!("value-{n:05}").into_bytes()
    }

    #[test]
    fn terms_return_in_order_and_are_found() {
        let extent = Extent {
            offset: 1 << 40,
            len: 3000,
            sum: 7,
        };
        let mut writer = TermsWriter::default();
        writer.push(0, b"cpu", &List::Stored(500, extent));
        for n in 0..200 {
            let numbers = [1000 - n, 2000, 1 << 31];
            let list = match n % 50 {
                7 => List::Inline(40, b"set"),
                _ => List::Numbers(&numbers[..1 + n as usize % 3]),
            };
            writer.push(1 + n / 100, &value(2 * n), &list);
        }
        let ((tag, first), page) = writer.finish().unwrap();
        assert_eq!((tag, &*first), (0, &b"c"[..]));
        let entries = Entries::of(&page).unwrap();
        let mut cursor = TermsCursor::default();
        assert!(cursor.next(&entries).unwrap());
        let place = Place::File(extent);
        assert_eq!(cursor.set, Some(SetRef { count: 500, place }));
        for n in 0..200 {
            assert!(cursor.next(&entries).unwrap());
            assert!(cursor.cmp(1 + n / 100, &value(2 * n)).is_eq());
            match (n % 50, &cursor.set) {
                (
                    7,
                    Some(SetRef {
                        count: 40,
                        place: Place::Page(range),
                    }),
                ) => {
                    assert_eq!(&entries.body[range.clone()], b"set");
                }
                (_, None) => assert_eq!(
                    cursor.numbers,
                    [1000 - n, 2000, 1 << 31][..1 + n as usize % 3]
                ),
                (_, set) => panic!("{set:?}"),
            }
        }
        assert_eq!(cursor.next(&entries), Ok(false));
        for n in 0..399 {
            let tag = 1 + n / 200;
            assert!(cursor.seek(&entries, tag, &value(n)).unwrap(), "{n}");
            assert_eq!(cursor.cmp(tag, &value(n)).is_eq(), n % 2 == 0, "{n}");
        }
        assert_eq!(cursor.seek(&entries, 2, &value(399)), Ok(false));
        assert_eq!(cursor.seek(&entries, 0, b""), Ok(true));
    }
}
