//! Names of sources in the distributed store, with their numbers and fields.
//!
//! Each port appends the names that it registers to a log of its own; all ports follow all logs. A source has the
//! number that the first port gave it. Two ports that register a source at the same time give it two numbers: a reader
//! looks at both. Numbers are dense, because each port takes them from blocks of [`BLOCK`].

mod entry;
mod postings;

pub(crate) use entry::{Entry, decode, encode};

use crate::keys::{KeyBuilder, KeyReader};
use crate::locks::{locked, read, written};
use crate::rows::{Found, Level, Range, Reading, Row, Rows, RowsError, Swap};
use postings::Postings;
use seiner_model::{FieldType, Selector, SourceKey};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

/// Name of the table with the logs.
pub(crate) const TABLE: &str = "names";
/// Name of the table with the next free block of numbers, which is only written conditionally.
pub(crate) const NUMBERS: &str = "numbers";

/// Numbers in a block.
const BLOCK: u32 = 1024;
/// Rows of a log in one partition.
const ROWS: u64 = 256;
/// Bytes of entries in one row, about.
const ROW_BYTES: usize = 256 << 10;
/// Partition with the lengths of the logs.
const LENGTHS: &[u8] = b"lengths";

/// Source with all of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    /// Measurement and tags.
    pub key: Arc<SourceKey>,
    /// Numbers, ascending.
    pub numbers: Vec<u32>,
    /// Fields with their types, by name.
    pub fields: BTreeMap<Arc<str>, FieldType>,
}

/// Names that this port knows.
pub(crate) struct Names {
    rows: Arc<dyn Rows>,
    port: String,
    table: Arc<str>,
    known: RwLock<Known>,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Known {
    /// Sources, in the order in which this port learned of them.
    sources: Vec<Named>,
    by_key: HashMap<Arc<SourceKey>, usize>,
    postings: Postings,
    /// Lengths of the logs as far as they were read.
    read: HashMap<String, u64>,
}

/// State of this port's log.
struct Own {
    /// Numbers that this port may still give.
    free: std::ops::Range<u32>,
    /// Number of rows of the log. `None` before it was read.
    length: Option<u64>,
}

/// Source to register: its key and its fields.
pub(crate) type Wanted<'a> = (&'a Arc<SourceKey>, &'a [(Arc<str>, FieldType)]);

impl Names {
    /// Creates an empty list. [`Names::refresh`] reads the logs.
    pub fn new(rows: Arc<dyn Rows>, port: &str) -> Names {
        Names {
            rows,
            port: port.to_string(),
            table: TABLE.into(),
            known: RwLock::default(),
            own: Mutex::new(Own {
                free: 0..0,
                length: None,
            }),
        }
    }

    /// Reads the names that other ports have added since the last call.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn refresh(&self) -> Result<(), RowsError> {
        let range = Range::whole(TABLE, LENGTHS);
        self.refresh_to(self.rows.range(&range, Level::Quorum)?)
    }

    /// Returns the request for the lengths of all logs.
    pub fn reading() -> Reading {
        Reading::whole(TABLE, LENGTHS)
    }

    /// Reads the names up to the lengths that answer a [`Names::reading`].
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn refresh_to(&self, lengths: Vec<Found>) -> Result<(), RowsError> {
        for (port, length) in lengths_of(lengths) {
            let from = self.known().read.get(&port).copied().unwrap_or(0);
            if from < length {
                let entries = self.read(&port, from..length)?;
                let mut known = written(&self.known);
                entries.into_iter().for_each(|entry| known.add(entry));
                let read = known.read.entry(port).or_default();
                *read = length.max(*read);
            }
        }
        Ok(())
    }

    /// Returns the lengths of all logs.
    fn lengths(&self) -> Result<Vec<(String, u64)>, RowsError> {
        let range = Range::whole(TABLE, LENGTHS);
        Ok(lengths_of(self.rows.range(&range, Level::Quorum)?))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        read(&self.known)
    }

    /// Reads rows of a log.
    fn read(&self, port: &str, rows: std::ops::Range<u64>) -> Result<Vec<Entry>, RowsError> {
        let mut entries = Vec::new();
        for part in rows.start / ROWS..=(rows.end - 1) / ROWS {
            let range = Range {
                table: TABLE,
                partition: &log(port, part),
                from: &rows.start.to_be_bytes(),
                to: Some(&rows.end.to_be_bytes()),
                limit: usize::MAX,
            };
            for (_, value) in self.rows.range(&range, Level::Quorum)? {
                let decoded = decode(&value).ok_or_else(|| {
                    RowsError::Rejected(format!("a row in the log of names of {port} is damaged"))
                })?;
                entries.extend(decoded);
            }
        }
        Ok(entries)
    }

    /// Returns the first number of each source. New sources and new fields are appended to the log of this port,
    /// durably, before the function returns.
    ///
    /// # Errors
    /// If too few replicas answer. Some sources may have been registered.
    pub fn register(&self, wanted: &[Wanted<'_>]) -> Result<Vec<u32>, RowsError> {
        let mut own = locked(&self.own);
        let mut new = Vec::new();
        let mut numbers = Vec::with_capacity(wanted.len());
        for (key, fields) in wanted {
            let known = self.known().find(key).map(|named| {
                let is_new =
                    |field: &&(Arc<str>, FieldType)| named.fields.get(&field.0) != Some(&field.1);
                (named.numbers[0], fields.iter().any(|field| is_new(&field)))
            });
            let (number, is_new) = match known {
                Some(known) => known,
                None => (self.take_number(&mut own)?, true),
            };
            numbers.push(number);
            if is_new {
                new.push(Entry {
                    number,
                    key: (*key).clone(),
                    fields: fields.to_vec(),
                });
            }
        }
        if !new.is_empty() {
            self.append(&mut own, &new)?;
            let mut known = written(&self.known);
            new.into_iter().for_each(|entry| known.add(entry));
        }
        Ok(numbers)
    }

    fn take_number(&self, own: &mut Own) -> Result<u32, RowsError> {
        if own.free.is_empty() {
            own.free = self.take_block()?;
        }
        own.free
            .next()
            .ok_or_else(|| RowsError::Rejected("all numbers of sources are used up".to_string()))
    }

    /// Takes a block of numbers that no other port has.
    fn take_block(&self) -> Result<std::ops::Range<u32>, RowsError> {
        let mut expected: Option<Vec<u8>> = None;
        loop {
            let next = expected
                .as_deref()
                .map_or(Some(0), |value| KeyReader(value).u32());
            let end = next.and_then(|next| next.checked_add(BLOCK));
            let (Some(next), Some(end)) = (next, end) else {
                return Ok(0..0);
            };
            let value = end.to_be_bytes();
            let swap = self
                .rows
                .swap(NUMBERS, b"numbers", b"next", expected.as_deref(), &value)?;
            match swap {
                Swap::Done => return Ok(next..end),
                Swap::Found(found) => expected = found,
            }
        }
    }

    /// Returns the length of this port's log. An earlier process may have written rows and failed to write their
    /// length: they count, because readers may have seen the length. They are written again, because they may be on too
    /// few replicas.
    fn end(&self) -> Result<u64, RowsError> {
        let lengths = self.lengths()?.into_iter();
        let own = lengths.filter(|(port, _)| *port == self.port);
        let mut end = own.map(|(_, length)| length).next().unwrap_or(0);
        loop {
            let range = Range {
                table: TABLE,
                partition: &log(&self.port, end / ROWS),
                from: &end.to_be_bytes(),
                to: None,
                limit: usize::MAX,
            };
            let found = self.rows.range(&range, Level::Quorum)?;
            let Some(last) = found.last().and_then(|(key, _)| KeyReader(key).u64()) else {
                return Ok(end);
            };
            let again = found.into_iter().map(|(key, value)| Row {
                table: self.table.clone(),
                partition: range.partition.to_vec(),
                key,
                value,
                life: None,
            });
            self.rows.write(again.collect(), Level::Quorum)?;
            end = last + 1;
        }
    }

    /// Appends entries to the log of this port.
    fn append(&self, own: &mut Own, entries: &[Entry]) -> Result<(), RowsError> {
        let length = match own.length {
            Some(length) => length,
            None => self.end()?,
        };
        own.length = Some(length);
        let mut rows = Vec::new();
        let mut next = length;
        for value in encode(entries, ROW_BYTES) {
            rows.push(Row {
                table: self.table.clone(),
                partition: log(&self.port, next / ROWS),
                key: next.to_be_bytes().to_vec(),
                value,
                life: None,
            });
            next += 1;
        }
        self.rows.write(rows, Level::Quorum)?;
        // Readers see the rows when the length counts them. They may see a length whose write fails, and do not read
        // these rows again: the next rows get other keys.
        own.length = Some(next);
        let row = Row {
            table: self.table.clone(),
            partition: LENGTHS.to_vec(),
            key: self.port.clone().into_bytes(),
            value: next.to_be_bytes().to_vec(),
            life: None,
        };
        self.rows.write(vec![row], Level::Quorum)?;
        let mut known = written(&self.known);
        // A log that an earlier process began has not been read yet.
        if known.read.get(&self.port).copied().unwrap_or(0) == length {
            known.read.insert(self.port.clone(), next);
        }
        Ok(())
    }

    /// Returns the sources of a selector with their positions: the order in which this port learned of them.
    pub fn select(&self, selector: &Selector) -> Vec<(usize, Named)> {
        let known = self.known();
        let found = |at: usize| {
            let named = known.sources.get(at)?;
            selector.holds(&named.key).then(|| (at, named.clone()))
        };
        match known.postings.of(selector) {
            Some(posting) => posting
                .iter()
                .filter_map(|at| found(*at as usize))
                .collect(),
            None => (0..known.sources.len()).filter_map(found).collect(),
        }
    }

    /// Returns the source with a key.
    pub fn find(&self, key: &SourceKey) -> Option<Named> {
        self.known().find(key).cloned()
    }

    /// Returns the source at a position.
    pub fn at(&self, position: usize) -> Option<Named> {
        self.known().sources.get(position).cloned()
    }

    /// Returns the numbers of all sources.
    pub fn numbers(&self) -> BTreeSet<u32> {
        let known = self.known();
        let sources = known.sources.iter();
        sources
            .flat_map(|named| named.numbers.iter().copied())
            .collect()
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.known().sources.len()
    }
}

impl Known {
    fn find(&self, key: &SourceKey) -> Option<&Named> {
        self.by_key.get(key).map(|&at| &self.sources[at])
    }

    fn add(&mut self, entry: Entry) {
        let at = *self.by_key.entry(entry.key.clone()).or_insert_with(|| {
            self.postings.add(&entry.key, self.sources.len() as u32);
            self.sources.push(Named {
                key: entry.key.clone(),
                numbers: Vec::new(),
                fields: BTreeMap::new(),
            });
            self.sources.len() - 1
        });
        let named = &mut self.sources[at];
        if let Err(place) = named.numbers.binary_search(&entry.number) {
            named.numbers.insert(place, entry.number);
        }
        for (name, field_type) in entry.fields {
            add_field(&mut named.fields, name, field_type);
        }
    }
}

/// Adds a field to those of a source, or its type to that of the known field.
pub(crate) fn add_field(
    fields: &mut BTreeMap<Arc<str>, FieldType>,
    name: Arc<str>,
    field_type: FieldType,
) {
    let known = fields.entry(name).or_insert(field_type);
    *known = common_type(*known, field_type);
}

/// Returns the type of a field that two ports have stored with different types: that of the other if they are equal,
/// f64 for numbers and booleans, text otherwise.
fn common_type(a: FieldType, b: FieldType) -> FieldType {
    match (a, b) {
        _ if a == b => a,
        (FieldType::Str, _) | (_, FieldType::Str) => FieldType::Str,
        _ => FieldType::F64,
    }
}

/// Returns the ports with the lengths of their logs.
fn lengths_of(found: Vec<Found>) -> Vec<(String, u64)> {
    let lengths = found
        .into_iter()
        .filter_map(|(key, value)| Some((String::from_utf8(key).ok()?, KeyReader(&value).u64()?)));
    lengths.collect()
}

/// Returns a partition of a port's log.
fn log(port: &str, part: u64) -> Vec<u8> {
    KeyBuilder::new().text("log").text(port).u64(part).done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryRows;
    use crate::rows::TableSpec;

    fn rows() -> Arc<MemoryRows> {
        let rows = MemoryRows::new();
        let table = |name: &str| TableSpec::lasting(name);
        rows.create(&[table(TABLE), table(NUMBERS)]).unwrap();
        Arc::new(rows)
    }

    fn key(name: &str) -> Arc<SourceKey> {
        Arc::new(SourceKey::new(name, [("a", "b")]).unwrap())
    }

    fn find(names: &Names, key: &SourceKey) -> Named {
        let mut all = names.select(&Selector::all()).into_iter();
        all.find(|(_, named)| *named.key == *key).unwrap().1
    }

    fn fields(name: &str, field_type: FieldType) -> Vec<(Arc<str>, FieldType)> {
        vec![(name.into(), field_type)]
    }

    #[test]
    fn ports_learn_names_and_fields_from_each_other() {
        let rows = rows();
        let (a, b) = (Names::new(rows.clone(), "a"), Names::new(rows, "b"));
        let (cpu, x) = (key("cpu"), fields("x", FieldType::F64));
        let first = a.register(&[(&cpu, &x)]).unwrap();
        assert_eq!(first, [0]);
        b.refresh().unwrap();
        let y = fields("y", FieldType::I64);
        assert_eq!(b.register(&[(&cpu, &y)]).unwrap(), [0], "the same number");
        assert_eq!(b.register(&[(&key("mem"), &x)]).unwrap(), [BLOCK]);
        a.refresh().unwrap();
        let named = find(&a, &cpu);
        assert_eq!(named.fields.len(), 2);
        assert_eq!(a.select(&Selector::all()).len(), 2);
        assert_eq!(a.register(&[(&cpu, &y)]).unwrap(), [0]);
        let written = a.lengths().unwrap();
        assert_eq!(written.len(), 2, "{written:?}");
    }

    #[test]
    fn a_source_registered_twice_at_the_same_time_has_two_numbers() {
        let rows = rows();
        let (a, b) = (Names::new(rows.clone(), "a"), Names::new(rows, "b"));
        let (cpu, x) = (key("cpu"), fields("x", FieldType::F64));
        a.register(&[(&cpu, &x)]).unwrap();
        let text = fields("x", FieldType::Bool);
        b.register(&[(&cpu, &text)]).unwrap();
        for names in [&a, &b] {
            names.refresh().unwrap();
            let named = find(names, &cpu);
            assert_eq!(named.numbers, [0, BLOCK]);
            assert_eq!(named.fields.values().collect::<Vec<_>>(), [&FieldType::F64]);
        }
    }

    /// A reader may have seen a length whose write failed, and does not read the rows before it again.
    #[test]
    fn rows_of_a_log_are_never_replaced_after_a_lost_answer() {
        for restarts in [false, true] {
            let rows = Arc::new(crate::lost_answers::LostAnswers::default());
            let table = |name: &str| TableSpec::lasting(name);
            rows.create(&[table(TABLE), table(NUMBERS)]).unwrap();
            let (mut a, b) = (Names::new(rows.clone(), "a"), Names::new(rows.clone(), "b"));
            let (cpu, x) = (key("cpu"), fields("x", FieldType::F64));
            rows.lose(LENGTHS, 1);
            assert!(a.register(&[(&cpu, &x)]).is_err());
            b.refresh().unwrap();
            if restarts {
                a = Names::new(rows.clone(), "a");
            }
            let numbers = a.register(&[(&cpu, &x)]).unwrap();
            b.refresh().unwrap();
            let found = find(&b, &cpu).numbers;
            assert!(
                found.contains(&numbers[0]),
                "{numbers:?} is not among {found:?}"
            );
        }
    }

    #[test]
    fn a_restarted_port_continues_its_log() {
        let rows = rows();
        let x = fields("x", FieldType::F64);
        let names: Vec<Arc<SourceKey>> = (0..3).map(|nth| key(&format!("m{nth}"))).collect();
        for name in &names {
            let port = Names::new(rows.clone(), "a");
            port.refresh().unwrap();
            port.register(&[(name, &x)]).unwrap();
        }
        let reader = Names::new(rows, "b");
        reader.refresh().unwrap();
        assert_eq!(reader.len(), 3);
        let numbers: Vec<u32> = reader
            .select(&Selector::all())
            .iter()
            .map(|(_, named)| named.numbers[0])
            .collect();
        assert_eq!(numbers, [0, BLOCK, 2 * BLOCK]);
    }
}
