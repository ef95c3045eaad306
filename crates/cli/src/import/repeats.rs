//! Detection of rows with the same source and time. The store would keep only the last of these
//! rows and lose the others.
//!
//! Memory is bounded. While the rows of each source arrive in ascending or descending order, the first and the
//! last time per source are sufficient ([`Spans`]). Otherwise the files are read again several times, and each
//! pass stores the fingerprints of one part of all rows ([`Part`]). Fingerprints have 64 bits: among a hundred
//! million rows the probability of one false alarm is 0.03 %.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of sources whose spans are stored, about 100 MB.
const MOST_SOURCES: usize = 1 << 20;

/// Number of rows per part, about 100 MB.
const PART_ROWS: u64 = 1 << 21;

/// Maximum number of places listed in the report.
pub const LISTED: usize = 5;

/// A row, represented by fingerprints.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Fingerprint of the source.
    pub source: u64,
    /// Time of the row, ns since 1970.
    pub time: i64,
    pub content: Content,
    /// Index of the file, and line number in it.
    pub place: (usize, u64),
}

/// Fields and values of a row, represented by fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// One bit for each field that has a value. Fields beyond the 64th share bits.
    pub fields: u64,
    /// Fingerprint of all values.
    pub values: u64,
}

/// Counts of rows that have the source and time of an earlier row.
#[derive(Debug, Default)]
pub struct Duplicates {
    /// Number of rows that replace a value of an earlier row.
    pub replaced: u64,
    /// Number of rows equal to the earlier row. Storing them again loses nothing.
    pub repeated: u64,
    /// Places of the first rows that replace values.
    pub places: Vec<(usize, u64)>,
}

impl Duplicates {
    fn count(&mut self, earlier: &mut Content, row: &Row) {
        if *earlier == row.content {
            self.repeated += 1;
            return;
        }
        let disjoint = earlier.fields & row.content.fields == 0;
        if !disjoint {
            self.replaced += 1;
            if self.places.len() < LISTED {
                self.places.push(row.place);
            }
        }
        // Rows with disjoint fields are combined into one.
        earlier.values = match disjoint {
            true => fingerprint((earlier.values, row.content.values)),
            false => row.content.values,
        };
        earlier.fields |= row.content.fields;
    }
}

struct Span {
    first: i64,
    last: i64,
    latest: Content,
}

/// Time spans of all sources. The spans are exact if each row is outside the span of its source, or at the end of
/// the span.
#[derive(Default)]
pub struct Spans {
    sources: HashMap<u64, Span>,
    duplicates: Duplicates,
    rows: u64,
    unsure: bool,
}

impl Spans {
    /// Processes the next row.
    pub fn see(&mut self, row: &Row) {
        self.rows += 1;
        if self.unsure {
            return;
        }
        match self.sources.entry(row.source) {
            Entry::Vacant(vacant) => {
                vacant.insert(Span {
                    first: row.time,
                    last: row.time,
                    latest: row.content,
                });
            }
            Entry::Occupied(mut occupied) => {
                let span = occupied.get_mut();
                if row.time > span.last {
                    (span.last, span.latest) = (row.time, row.content);
                } else if row.time == span.last {
                    self.duplicates.count(&mut span.latest, row);
                } else if row.time < span.first {
                    span.first = row.time;
                } else {
                    self.unsure = true;
                }
            }
        }
        self.unsure |= self.sources.len() > MOST_SOURCES;
        if self.unsure {
            self.sources = HashMap::new();
        }
    }

    /// Returns the counts. `Err` contains the number of parts in which all rows must be read again.
    pub fn end(self) -> Result<Duplicates, u64> {
        match self.unsure {
            true => Err(self.rows.div_ceil(PART_ROWS).max(1)),
            false => Ok(self.duplicates),
        }
    }
}

/// Rows whose fingerprints fall into one of several parts.
pub struct Part {
    number: u64,
    of: u64,
    seen: HashMap<u64, Content>,
}

impl Part {
    /// Creates part `number` of `of`.
    pub fn new(number: u64, of: u64) -> Part {
        Part {
            number,
            of,
            seen: HashMap::new(),
        }
    }

    /// Processes the next row and adds its counts to `duplicates`.
    pub fn see(&mut self, row: &Row, duplicates: &mut Duplicates) {
        let key = fingerprint((row.source, row.time));
        if key % self.of != self.number {
            return;
        }
        match self.seen.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(row.content);
            }
            Entry::Occupied(mut occupied) => duplicates.count(occupied.get_mut(), row),
        }
    }
}

/// Returns a fingerprint that is the same in each pass.
pub fn fingerprint(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(source: u64, time: i64, fields: u64, values: u64, line: u64) -> Row {
        Row {
            source,
            time,
            content: Content { fields, values },
            place: (0, line),
        }
    }

    fn by_spans(rows: &[Row]) -> Result<Duplicates, u64> {
        let mut spans = Spans::default();
        rows.iter().for_each(|row| spans.see(row));
        spans.end()
    }

    fn by_parts(rows: &[Row], parts: u64) -> Duplicates {
        let mut duplicates = Duplicates::default();
        for number in 0..parts {
            let mut part = Part::new(number, parts);
            rows.iter().for_each(|row| part.see(row, &mut duplicates));
        }
        duplicates
    }

    fn counts(duplicates: &Duplicates) -> (u64, u64) {
        (duplicates.replaced, duplicates.repeated)
    }

    #[test]
    fn replacing_rows_are_distinguished_from_repeating_and_completing_ones() {
        let rows = [
            row(1, 10, 0b01, 7, 2),
            row(2, 10, 0b01, 7, 3),
            // The same row, another value, another field.
            row(1, 10, 0b01, 7, 4),
            row(1, 10, 0b01, 8, 5),
            row(1, 10, 0b10, 9, 6),
            row(1, 11, 0b01, 7, 7),
        ];
        let duplicates = by_spans(&rows).unwrap();
        assert_eq!(counts(&duplicates), (1, 1));
        assert_eq!(duplicates.places, [(0, 5)]);
        for parts in [1, 3] {
            assert_eq!(counts(&by_parts(&rows, parts)), (1, 1));
        }
    }

    #[test]
    fn spans_suffice_for_ordered_rows_only() {
        let ascending: Vec<Row> = (0..9).map(|time| row(1, time, 1, 0, 0)).collect();
        let descending: Vec<Row> = (0..9).rev().map(|time| row(1, time, 1, 0, 0)).collect();
        assert_eq!(counts(&by_spans(&ascending).unwrap()), (0, 0));
        assert_eq!(counts(&by_spans(&descending).unwrap()), (0, 0));
        let mut mixed = ascending.clone();
        mixed.push(row(1, 4, 1, 5, 99));
        assert_eq!(by_spans(&mixed).unwrap_err(), 1);
        let duplicates = by_parts(&mixed, 2);
        assert_eq!(
            (counts(&duplicates), duplicates.places.as_slice()),
            ((1, 0), &[(0, 99)][..])
        );
    }
}
