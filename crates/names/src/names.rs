//! Names pages: sources ascending by number, with their canonical names.
//!
//! A name is stored as the lengths of the prefix and the suffix that the name before has too, and the bytes between
//! them.

use crate::bytes::{Cursor, Malformed, put_bytes};
use crate::page::{Entries, EntriesWriter, Position, common_prefix};
use seiner_codec::varint;
use seiner_model::SourceKey;

/// Maximum bytes of a canonical name: every byte of the key may be escaped, and a tag has a comma and an equals sign.
const NAME_LIMIT: usize = 3 * SourceKey::MAX_BYTES;

/// Names page that is being written.
#[derive(Default)]
pub struct NamesWriter {
    page: EntriesWriter,
    first: u32,
    number: u32,
    name: Vec<u8>,
}

impl NamesWriter {
    /// Adds a source, whose number is greater than the numbers before.
    pub fn push(&mut self, number: u32, name: &[u8]) {
        if self.page.is_empty() {
            self.first = number;
        }
        let is_restart = self.page.begin();
        let out = &mut self.page.bytes;
        let (mut prefix, mut suffix, mut base) = (0, 0, 0);
        if !is_restart {
            base = self.number;
            prefix = common_prefix(&self.name, name);
            let (before, rest) = (&self.name[prefix..], &name[prefix..]);
            let same = before.iter().rev().zip(rest.iter().rev());
            suffix = same.take_while(|(a, b)| a == b).count();
        }
        varint::put_u64(u64::from(number - base), out);
        varint::put_u64(prefix as u64, out);
        varint::put_u64(suffix as u64, out);
        put_bytes(&name[prefix..name.len() - suffix], out);
        self.number = number;
        self.name.clear();
        self.name.extend_from_slice(name);
    }

    pub fn is_full(&self) -> bool {
        self.page.is_full()
    }

    /// Returns the first number and the bytes of the page, and begins the next one. `None` if there is no entry.
    pub fn finish(&mut self) -> Option<(u32, Vec<u8>)> {
        (!self.page.is_empty()).then(|| (self.first, self.page.finish()))
    }
}

/// Reader of the entries of a names page.
#[derive(Default)]
pub struct NamesCursor {
    position: Position,
    /// Number of the latest source.
    pub number: u32,
    /// Canonical name of the latest source.
    pub name: Vec<u8>,
}

impl NamesCursor {
    /// Reads the next source. Returns false at the end of the page.
    pub fn next(&mut self, entries: &Entries<'_>) -> Result<bool, Malformed> {
        let Some((mut rest, is_restart)) = self.position.next(entries)? else {
            return Ok(false);
        };
        let step = rest.number()?;
        if is_restart {
            self.number = step;
            self.name.clear();
        } else {
            let step = (step > 0).then_some(step).ok_or(Malformed)?;
            self.number = self.number.checked_add(step).ok_or(Malformed)?;
        }
        let prefix = rest.count(self.name.len())?;
        let suffix = rest.count(self.name.len() - prefix)?;
        let middle = rest.bytes()?;
        if prefix + middle.len() + suffix > NAME_LIMIT {
            return Err(Malformed);
        }
        let replaced = prefix..self.name.len() - suffix;
        match replaced.len() == middle.len() {
            true => self.name[replaced].copy_from_slice(middle),
            false => drop(self.name.splice(replaced, middle.iter().copied())),
        }
        self.position.advance(entries, &rest);
        Ok(true)
    }

    /// Finds a source by its number. Returns whether the page contains the number.
    pub fn find(&mut self, entries: &Entries<'_>, number: u32) -> Result<bool, Malformed> {
        let is_before = |mut rest: Cursor<'_>| Ok(rest.number()? <= number);
        let restart = entries.search(is_before)?;
        self.position = Position::restart(entries, restart)?;
        while self.next(entries)? {
            if self.number >= number {
                return Ok(self.number == number);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_return_in_order_and_by_number() {
        let name = |n: u32| format!("cpu,core={},host=web-{:04},zone=a", n % 4, n / 4).into_bytes();
        let mut writer = NamesWriter::default();
        let numbers: Vec<u32> = (0..300).map(|n| 5 + n * n).collect();
        for &number in &numbers {
            writer.push(number, &name(number));
        }
        let (first, page) = writer.finish().unwrap();
        assert_eq!((first, writer.finish()), (5, None));
        assert!(page.len() < 300 * 25, "{}", page.len());
        let entries = Entries::of(&page).unwrap();
        let mut cursor = NamesCursor::default();
        for &number in &numbers {
            assert!(cursor.next(&entries).unwrap());
            assert_eq!((cursor.number, &cursor.name), (number, &name(number)));
        }
        assert_eq!(cursor.next(&entries), Ok(false));
        for number in 0..numbers[299] + 2 {
            let found = cursor.find(&entries, number).unwrap();
            assert_eq!(found, numbers.binary_search(&number).is_ok(), "{number}");
            assert!(!found || cursor.name == name(number));
        }
    }
}
