//! Fields and tags of the source of a query.

use crate::answer::Table;
use crate::cell::Cell;
use crate::context::Context;
use crate::error::Error;
use crate::text::statement::{Kind, Source};
use seiner_model::FieldType;
use std::collections::{BTreeMap, BTreeSet};

/// Fields with their types, and tags.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Types of each field: several, if sources disagree.
    pub fields: BTreeMap<String, BTreeSet<FieldType>>,
    /// Names of tags.
    pub tags: BTreeSet<String>,
}

impl Schema {
    /// Returns the schema of a measurement.
    ///
    /// # Errors
    /// If the names cannot be read.
    pub fn of_measurement(context: &Context, name: &str) -> Result<Schema, Error> {
        let (store, selector) = (context.store, context.databases.selector(name));
        let mut schema = Schema::default();
        for (field, field_type) in store.fields(&selector)? {
            schema.fields.entry(field).or_default().insert(field_type);
        }
        schema.tags.extend(store.tag_names(&selector)?);
        Ok(schema)
    }

    /// Returns the schema of the result of a query.
    pub fn of_tables(tables: &[Table]) -> Schema {
        let mut schema = Schema::default();
        for table in tables {
            let tags = table.tags.iter().map(|(name, _)| name.clone());
            schema.tags.extend(tags);
            for (at, name) in table.columns.iter().enumerate().skip(1) {
                let mut types = table.rows.iter().filter_map(|row| row[at].as_ref());
                let found = types.next().map_or(FieldType::F64, field_type);
                schema.fields.entry(name.clone()).or_default().insert(found);
            }
        }
        schema
    }

    /// Returns the kind of a name: a field, if there is one. Other names are tags, which may be absent.
    pub fn kind(&self, name: &str, wanted: Option<Kind>) -> Kind {
        match wanted {
            Some(kind) => kind,
            None if self.fields.contains_key(name) => Kind::Field,
            None => Kind::Tag,
        }
    }

    /// Returns whether all values of a field are numbers.
    pub fn is_numeric(&self, field: &str) -> bool {
        let types = self.fields.get(field);
        types.is_some_and(|types| types.iter().all(is_number))
    }

    /// Returns whether a field has numbers, in some sources at least.
    pub fn has_numbers(&self, field: &str) -> bool {
        let types = self.fields.get(field);
        types.is_some_and(|types| types.iter().any(is_number))
    }
}

fn is_number(field_type: &FieldType) -> bool {
    !matches!(field_type, FieldType::Bool | FieldType::Str)
}

fn field_type(cell: &Cell) -> FieldType {
    match cell {
        Cell::Float(_) => FieldType::F64,
        Cell::Single(_) => FieldType::F32,
        Cell::Integer(_) | Cell::Time(_) => FieldType::I64,
        Cell::Unsigned(_) => FieldType::U64,
        Cell::Bool(_) => FieldType::Bool,
        Cell::Text(_) => FieldType::Str,
    }
}

/// Returns the measurements of the chosen database that are chosen by names and regular expressions, sorted. All, if
/// nothing is given.
///
/// # Errors
/// If the names cannot be read.
pub fn measurements(context: &Context, sources: &[Source]) -> Result<Vec<String>, Error> {
    let mut all = context.store.measurements()?;
    let chosen = |name: &str| {
        sources.iter().any(|source| match source {
            Source::Measurement(wanted) => wanted == name,
            Source::Matching(regex) => regex.is_match(name),
            Source::Query(_) => false,
        })
    };
    if !sources.is_empty() {
        all.retain(|name| chosen(name));
    }
    if context.databases.matcher().is_none() {
        return Ok(all);
    }
    let mut present = Vec::new();
    for name in all {
        let selector = context.databases.selector(&name);
        if !context.store.sources(&selector)?.is_empty() {
            present.push(name);
        }
    }
    Ok(present)
}
