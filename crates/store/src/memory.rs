//! Store in memory, for tests. It implements all methods and is lost with its process.

use crate::answer::Query;
use crate::error::{Error, Reason, Receipt};
use crate::piece::{Cut, Piece};
use crate::series::Results;
use crate::status::{Durability, Status};
use crate::store::{IsOver, Parts, Store};
use crate::{MAX_FIELDS, MAX_TEXT_BYTES, SeriesData};
use seiner_model::{
    Batch, Column, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey, Strings,
    Value,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum length of the name of a field, in bytes.
const MAX_FIELD_NAME: usize = 1024;

/// Store with its samples in maps. No sample survives the process, so the durability is
/// [`Durability::Memory`]. The store has no memory limit, no retention and no roll-up levels.
#[derive(Default)]
pub struct MemoryStore {
    data: Mutex<Data>,
}

#[derive(Default)]
struct Data {
    /// Sources by their numbers.
    sources: Vec<Source>,
    /// Numbers of sources by their keys.
    by_key: HashMap<SourceKey, u32>,
    position: u64,
    rows: u64,
    samples: u64,
    rejected: u64,
    closed: bool,
}

struct Source {
    key: Arc<SourceKey>,
    /// Fields in the order of their first samples.
    fields: Vec<Field>,
}

struct Field {
    name: Arc<str>,
    field_type: FieldType,
    samples: BTreeMap<i64, Held>,
}

/// Value of any type.
#[derive(Clone, Debug)]
enum Held {
    F64(f64),
    F32(f32),
    I64(i64),
    U64(u64),
    Bool(bool),
    Str(String),
}

impl Held {
    fn of(value: Value<'_>) -> Held {
        match value {
            Value::F64(value) => Held::F64(value),
            Value::F32(value) => Held::F32(value),
            Value::I64(value) => Held::I64(value),
            Value::U64(value) => Held::U64(value),
            Value::Bool(value) => Held::Bool(value),
            Value::Str(value) => Held::Str(value.to_string()),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Held::F64(value) => Value::F64(*value),
            Held::F32(value) => Value::F32(*value),
            Held::I64(value) => Value::I64(*value),
            Held::U64(value) => Value::U64(*value),
            Held::Bool(value) => Value::Bool(*value),
            Held::Str(value) => Value::Str(value),
        }
    }
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.data
            .lock()
            .expect("no thread panics while it holds the data")
    }

    fn sources_of(&self, query: &Query) -> Result<Vec<SourceId>, Error> {
        match query.interval.is_empty() {
            true => Ok(Vec::new()),
            false => self.sources(&query.selector),
        }
    }

    fn scan_sources(
        &self,
        sources: Vec<SourceId>,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Results<'_, Piece> {
        let query = query.clone();
        let series = sources
            .into_iter()
            .take_while(move |_| is_over.as_ref().is_none_or(|is_over| !is_over()))
            .flat_map(move |source| self.data().sources[source.0 as usize].series(source, &query));
        Box::new(Cut::new(series.map(Ok)))
    }
}

impl Data {
    /// Returns the fields and types of a row's cells.
    fn check(cells: &[seiner_model::Cell<'_>]) -> Result<(), Reason> {
        let mut names = BTreeSet::new();
        for cell in cells {
            let is_name = !cell.field.is_empty()
                && cell.field.len() <= MAX_FIELD_NAME
                && std::str::from_utf8(cell.field).is_ok();
            if !is_name {
                return Err(Reason::FieldName);
            }
            if !names.insert(cell.field) {
                return Err(Reason::Fields);
            }
            if let Value::Str(text) = cell.value
                && text.len() > MAX_TEXT_BYTES
            {
                return Err(Reason::TextTooLong(text.len()));
            }
        }
        match (1..=MAX_FIELDS).contains(&names.len()) {
            true => Ok(()),
            false => Err(Reason::Fields),
        }
    }

    /// Counts the rows of a receipt and sets its position.
    fn note(&mut self, receipt: &mut Receipt) {
        let (rows, samples, rejected) = receipt.take_counts();
        self.rows += rows;
        self.samples += samples;
        self.rejected += rejected;
        self.position += rows;
        receipt.position = self.position;
    }

    /// Returns the number of a source, which is registered if it is new.
    fn register(&mut self, key: SourceKey) -> usize {
        let next = self.sources.len() as u32;
        let number = *self.by_key.entry(key.clone()).or_insert(next);
        if number == next {
            self.sources.push(Source {
                key: Arc::new(key),
                fields: Vec::new(),
            });
        }
        number as usize
    }

    fn put(
        &mut self,
        source: usize,
        time: i64,
        cells: &[seiner_model::Cell<'_>],
    ) -> Result<(), Reason> {
        Data::check(cells)?;
        let fields = &mut self.sources[source].fields;
        let mut new = 0;
        for cell in cells {
            let known = fields
                .iter()
                .find(|field| field.name.as_bytes() == cell.field);
            match known {
                Some(field) if cell.value.in_type(field.field_type).is_none() => {
                    return Err(Reason::FieldType {
                        field: field.name.to_string(),
                        stored: field.field_type,
                        sent: cell.value.field_type(),
                    });
                }
                Some(_) => {}
                None => new += 1,
            }
        }
        if fields.len() + new > MAX_FIELDS {
            return Err(Reason::Fields);
        }
        for cell in cells {
            let at = fields
                .iter()
                .position(|field| field.name.as_bytes() == cell.field);
            let at = at.unwrap_or_else(|| {
                fields.push(Field {
                    name: String::from_utf8_lossy(cell.field).into(),
                    field_type: cell.value.field_type(),
                    samples: BTreeMap::new(),
                });
                fields.len() - 1
            });
            let field = &mut fields[at];
            let value = cell.value.in_type(field.field_type);
            let value = Held::of(value.expect("types were checked"));
            field.samples.insert(time, value);
        }
        Ok(())
    }

    fn selected<'d>(
        &'d self,
        selector: &'d Selector,
    ) -> impl Iterator<Item = (SourceId, &'d Source)> {
        let all = self.sources.iter().enumerate();
        all.filter(|(_, source)| selector.holds(&source.key))
            .map(|(number, source)| (SourceId(number as u32), source))
    }
}

impl Source {
    /// Returns whether a field has a sample in an interval.
    fn has_samples(&self, interval: Interval) -> bool {
        let within = |field: &Field| {
            let mut samples = field.samples.range(interval.start..=interval.end);
            samples.next().is_some()
        };
        !interval.is_empty() && self.fields.iter().any(within)
    }

    /// Returns the samples of the wanted fields in an interval.
    fn series(&self, source: SourceId, query: &Query) -> Vec<SeriesData> {
        let mut found = Vec::new();
        let wanted = |name: &str| {
            let fields = query.fields.as_ref();
            fields.is_none_or(|fields| fields.iter().any(|field| field == name))
        };
        for field in self.fields.iter().filter(|field| wanted(&field.name)) {
            let mut times = Vec::new();
            let mut values = match field.field_type {
                FieldType::Str => Column::Str(Strings::default()),
                other => Column::new(other),
            };
            for (&time, held) in field
                .samples
                .range(query.interval.start..=query.interval.end)
            {
                times.push(time);
                values.push(held.value());
            }
            if !times.is_empty() {
                found.push(SeriesData {
                    source,
                    key: self.key.clone(),
                    field: field.name.clone(),
                    times,
                    values,
                });
            }
        }
        found
    }
}

/// Sources of a query.
struct MemoryParts<'a> {
    store: &'a MemoryStore,
    sources: Vec<SourceId>,
    query: Query,
    is_over: Option<IsOver>,
}

impl Parts for MemoryParts<'_> {
    fn sources(&self) -> usize {
        self.sources.len()
    }

    fn scan(&self, sources: Range<usize>) -> Results<'_, Piece> {
        let sources = self.sources[sources].to_vec();
        self.store
            .scan_sources(sources, &self.query, self.is_over.clone())
    }
}

impl Store for MemoryStore {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        let mut data = self.data();
        if data.closed {
            return Err(Error::Closed);
        }
        let mut receipt = Receipt::default();
        for (at, row) in batch.rows.iter().enumerate() {
            let cells = batch.cells_of(row);
            let put = notation
                .source_key(row.name)
                .map_err(Reason::Key)
                .and_then(|key| {
                    let source = data.register(key);
                    data.put(source, row.time, cells)
                });
            match put {
                Ok(()) => {
                    receipt.rows += 1;
                    receipt.samples += cells.len();
                }
                Err(reason) => receipt.reject(at, reason),
            }
        }
        data.note(&mut receipt);
        Ok(receipt)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        let mut data = self.data();
        match data.closed {
            true => Err(Error::Closed),
            false => Ok(SourceId(data.register(key.clone()) as u32)),
        }
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        let mut data = self.data();
        if data.closed {
            return Err(Error::Closed);
        }
        if source.0 as usize >= data.sources.len() {
            return Err(Error::UnknownSource(source.0));
        }
        if columns.fields.len() != fields.len() {
            let (fields, columns) = (fields.len(), columns.fields.len());
            let text = format!("{fields} fields are named for {columns} columns");
            return Err(Error::Query(text));
        }
        let mut receipt = Receipt::default();
        let mut next = vec![0; fields.len()];
        for (row, &time) in columns.times.iter().enumerate() {
            let mut cells = Vec::new();
            for ((field, column), next) in fields.iter().zip(&columns.fields).zip(&mut next) {
                let present = column.present.as_ref();
                if present.is_none_or(|present| present.get(row)) {
                    let value = column.values.get(*next);
                    let field = field.as_bytes();
                    cells.push(seiner_model::Cell { field, value });
                    *next += 1;
                }
            }
            match data.put(source.0 as usize, time, &cells) {
                Ok(()) => {
                    receipt.rows += 1;
                    receipt.samples += cells.len();
                }
                Err(reason) => receipt.reject(row, reason),
            }
        }
        data.note(&mut receipt);
        Ok(receipt)
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }

    fn is_durable(&self, _position: u64) -> bool {
        true
    }

    fn wait_durable(&self, _position: u64) -> Result<(), Error> {
        Ok(())
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        let mut data = self.data();
        if data.closed {
            return Err(Error::Closed);
        }
        let mut count = 0;
        for source in &mut data.sources {
            if selector.holds(&source.key) {
                count += 1;
                for field in &mut source.fields {
                    field.samples.retain(|&time, _| !interval.contains(time));
                }
            }
        }
        Ok(count)
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        let data = self.data();
        let names = data.sources.iter();
        let names: BTreeSet<&str> = names.map(|source| source.key.measurement()).collect();
        Ok(names.into_iter().map(str::to_string).collect())
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        let data = self.data();
        let tags = data
            .selected(selector)
            .flat_map(|(_, source)| source.key.tags());
        let names: BTreeSet<&str> = tags.map(|(name, _)| name).collect();
        Ok(names.into_iter().map(str::to_string).collect())
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let data = self.data();
        let tags = data
            .selected(selector)
            .flat_map(|(_, source)| source.key.tags());
        let values: BTreeSet<&str> = tags
            .filter(|(name, _)| *name == tag)
            .map(|(_, value)| value)
            .collect();
        let values = values.into_iter().take(limit);
        Ok(values.map(str::to_string).collect())
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        let data = self.data();
        let fields = data
            .selected(selector)
            .flat_map(|(_, source)| &source.fields);
        let fields: BTreeSet<(String, FieldType)> = fields
            .map(|field| (field.name.to_string(), field.field_type))
            .collect();
        Ok(fields.into_iter().collect())
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        let data = self.data();
        Ok(data.selected(selector).map(|(source, _)| source).collect())
    }

    fn sources_within(
        &self,
        selector: &Selector,
        interval: Interval,
    ) -> Result<Vec<SourceId>, Error> {
        let data = self.data();
        let within = data
            .selected(selector)
            .filter(|(_, source)| source.has_samples(interval));
        Ok(within.map(|(source, _)| source).collect())
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        let data = self.data();
        let found = data.sources.get(source.0 as usize);
        Ok(found.map(|source| (*source.key).clone()))
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        let sources = self.sources_of(query)?;
        Ok(self.scan_sources(sources, query, is_over))
    }

    fn parts(
        &self,
        query: &Query,
        _threads: usize,
        is_over: Option<IsOver>,
    ) -> Result<Option<Box<dyn Parts + '_>>, Error> {
        Ok(Some(Box::new(MemoryParts {
            store: self,
            sources: self.sources_of(query)?,
            query: query.clone(),
            is_over,
        })))
    }

    fn status(&self) -> Status {
        let data = self.data();
        let series = data.sources.iter().map(|source| source.fields.len() as u64);
        Status {
            sources: data.sources.len() as u64,
            series: series.sum(),
            rows_accepted: data.rows,
            samples_accepted: data.samples,
            rows_rejected: data.rejected,
            unsynced_samples: data.samples,
            disk_budget: u64::MAX,
            memory_budget: u64::MAX,
            ..Status::default()
        }
    }

    fn close(&self) -> Result<(), Error> {
        self.data().closed = true;
        Ok(())
    }
}
