//! Lists of names.

use crate::answer::Table;
use crate::cell::Cell;
use crate::context::Context;
use crate::error::Error;
use crate::schema::{Schema, measurements};
use crate::select::condition::{Clock, Condition, split};
use crate::text::statement::{Keys, List, Show};
use seiner_model::{FieldType, Interval, Selector, SourceKey};
use std::collections::BTreeSet;

/// Name of the only database, if no tag distinguishes several.
const DATABASE: &str = "seiner";
/// Bytes of a row besides its values.
const ROW: usize = 64;

/// Answers a statement that lists names.
pub fn show(context: &Context, query: &Show) -> Result<Vec<Table>, Error> {
    match &query.list {
        List::Databases => Ok(vec![databases(context)?]),
        List::Policies => Ok(vec![policies()]),
        List::Measurements => {
            let mut rows = Vec::new();
            for name in measurements(context, &query.sources)? {
                if query.condition.is_none() || !chosen(context, query, &name)?.is_empty() {
                    rows.push(texts(&[&name]));
                }
            }
            Ok(non_empty(table(
                "measurements",
                &["name"],
                query.rows.cut(rows),
            )))
        }
        List::MeasurementCount => {
            let count = measurements(context, &query.sources)?.len();
            Ok(vec![table("", &["count"], vec![number(count)])])
        }
        List::Series | List::SeriesCount => series(context, query),
        List::TagKeys | List::TagValues(_) | List::FieldKeys => {
            let mut tables = Vec::new();
            for name in measurements(context, &query.sources)? {
                tables.extend(of_measurement(context, query, &name)?);
            }
            Ok(tables)
        }
    }
}

/// Returns the table of the databases: the values of their tag.
fn databases(context: &Context) -> Result<Table, Error> {
    let rows = match &context.databases.tag {
        None => vec![texts(&[DATABASE])],
        Some(tag) => {
            let all = Selector::default();
            let names = context.store.tag_values(&all, tag, usize::MAX)?;
            names.iter().map(|name| texts(&[name])).collect()
        }
    };
    Ok(table("databases", &["name"], rows))
}

/// Returns the table of one measurement, unless it is empty.
fn of_measurement(context: &Context, query: &Show, name: &str) -> Result<Option<Table>, Error> {
    let (rows, columns): (Vec<_>, &[&str]) = match &query.list {
        List::FieldKeys => {
            let schema = Schema::of_measurement(context, name)?;
            let fields = schema.fields.iter();
            let pairs = fields.flat_map(|(field, types)| types.iter().map(move |one| (field, one)));
            let rows = pairs.map(|(field, one)| texts(&[field, type_name(*one)]));
            (rows.collect(), &["fieldKey", "fieldType"])
        }
        List::TagValues(keys) => (tag_values(context, query, name, keys)?, &["key", "value"]),
        _ => {
            let names = match query.condition {
                None => context.store.tag_names(&context.databases.selector(name))?,
                Some(_) => {
                    let sources = chosen(context, query, name)?;
                    let tags = sources.iter().flat_map(|key| key.tags());
                    let names: BTreeSet<String> = tags.map(|(name, _)| name.to_string()).collect();
                    names.into_iter().collect()
                }
            };
            let rows = names.iter().map(|name| texts(&[name]));
            (rows.collect(), &["tagKey"])
        }
    };
    let table = table(name, columns, query.rows.cut(rows));
    Ok(non_empty(table).pop())
}

fn tag_values(
    context: &Context,
    query: &Show,
    name: &str,
    keys: &Keys,
) -> Result<Vec<Vec<Option<Cell>>>, Error> {
    let selector = context.databases.selector(name);
    let mut rows = Vec::new();
    let sources = match query.condition {
        None => Vec::new(),
        Some(_) => chosen(context, query, name)?,
    };
    for tag in context.store.tag_names(&selector)? {
        if !keys.holds(&tag) {
            continue;
        }
        let values: Vec<String> = match query.condition {
            None => context.store.tag_values(&selector, &tag, usize::MAX)?,
            Some(_) => {
                let values = sources.iter().map(|key| key.tag(&tag));
                let values: BTreeSet<&str> = values.filter(|value| !value.is_empty()).collect();
                values.into_iter().map(str::to_string).collect()
            }
        };
        for value in values {
            context.budget.hold(ROW + tag.len() + value.len())?;
            rows.push(texts(&[&tag, &value]));
        }
    }
    Ok(rows)
}

fn series(context: &Context, query: &Show) -> Result<Vec<Table>, Error> {
    let mut rows = Vec::new();
    let mut count = 0;
    for name in measurements(context, &query.sources)? {
        for key in chosen(context, query, &name)? {
            count += 1;
            if matches!(query.list, List::Series) {
                let mut line = Vec::new();
                key.put_name(&mut line);
                rows.push(texts(&[&String::from_utf8_lossy(&line)]));
            }
        }
    }
    if matches!(query.list, List::SeriesCount) {
        return Ok(vec![table("", &["count"], vec![number(count)])]);
    }
    rows.sort_by(|a, b| text(&a[0]).cmp(text(&b[0])));
    Ok(non_empty(table("", &["key"], query.rows.cut(rows))))
}

/// Returns the sources of a measurement that meet the condition.
fn chosen(context: &Context, query: &Show, name: &str) -> Result<Vec<SourceKey>, Error> {
    let schema = Schema::of_measurement(context, name)?;
    let condition = match &query.condition {
        None => Condition::default(),
        Some(condition) => {
            let clock = Clock {
                now: context.now,
                zone: None,
            };
            split(condition, &schema, clock)?
        }
    };
    if !condition.of_rows.is_empty() {
        return Err(Error::invalid(
            "the condition of SHOW can contain tags and times, but no fields",
        ));
    }
    let mut selector = context.databases.selector(name);
    selector.matchers.extend(condition.matchers.iter().cloned());
    let sources = match condition.interval == Interval::ALL {
        true => context.store.sources(&selector)?,
        false => context
            .store
            .sources_within(&selector, condition.interval)?,
    };
    let mut keys = Vec::new();
    for source in sources {
        let Some(key) = context.store.source_key(source)? else {
            continue;
        };
        if condition.holds_for(&|tag| key.tag(tag)) {
            context.budget.hold(ROW + key.to_string().len())?;
            keys.push(key);
        }
    }
    context.budget.check()?;
    Ok(keys)
}

fn policies() -> Table {
    let columns = [
        "name",
        "duration",
        "shardGroupDuration",
        "replicaN",
        "default",
    ];
    let row = vec![
        Some(Cell::text("autogen")),
        Some(Cell::text("0s")),
        Some(Cell::text("168h0m0s")),
        Some(Cell::Integer(1)),
        Some(Cell::Bool(true)),
    ];
    table("", &columns, vec![row])
}

fn type_name(field_type: FieldType) -> &'static str {
    match field_type {
        FieldType::F64 | FieldType::F32 => "float",
        FieldType::I64 => "integer",
        FieldType::U64 => "unsigned",
        FieldType::Bool => "boolean",
        FieldType::Str => "string",
    }
}

fn table(name: &str, columns: &[&str], rows: Vec<Vec<Option<Cell>>>) -> Table {
    Table {
        name: name.to_string(),
        tags: Vec::new(),
        columns: columns.iter().map(|name| name.to_string()).collect(),
        rows,
    }
}

fn non_empty(table: Table) -> Vec<Table> {
    match table.rows.is_empty() {
        true => Vec::new(),
        false => vec![table],
    }
}

fn texts(values: &[&str]) -> Vec<Option<Cell>> {
    values.iter().map(|value| Some(Cell::text(value))).collect()
}

fn number(count: usize) -> Vec<Option<Cell>> {
    vec![Some(Cell::Integer(count as i64))]
}

fn text(cell: &Option<Cell>) -> &str {
    match cell {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}
