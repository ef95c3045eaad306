//! Statements that list names: `SHOW`.

use super::clauses::{condition, list, source, window};
use super::parser::Parser;
use super::statement::{Keys, List, Show, Source};
use crate::error::Error;

/// Lists of InfluxDB that this server does not have, with the alternative.
const REJECTED: [(&str, &str); 9] = [
    ("USERS", "there are no users"),
    ("GRANTS", "there are no users"),
    ("QUERIES", "see /metrics"),
    ("STATS", "see /status and /metrics"),
    ("DIAGNOSTICS", "see /status and /metrics"),
    ("SHARDS", "see /api/v1/log"),
    ("SHARD", "see /api/v1/log"),
    ("SUBSCRIPTIONS", "there are none"),
    ("CONTINUOUS", "retention classes make roll-ups"),
];

/// Reads a statement after `SHOW`.
pub fn show(parser: &mut Parser) -> Result<Show, Error> {
    for (name, alternative) in REJECTED {
        if parser.keyword(name)? {
            let error = format!("SHOW {name} is not supported; {alternative}");
            return Err(Error::invalid(error));
        }
    }
    let mut list = kind(parser)?;
    database(parser)?;
    let mut sources = match list {
        List::Measurements => with_measurement(parser)?,
        _ => from(parser)?,
    };
    if let List::TagValues(keys) = &mut list {
        *keys = with_key(parser)?;
    }
    let condition = condition(parser)?;
    if sources.is_empty() && !matches!(list, List::Measurements) {
        sources = from(parser)?;
    }
    let rows = window(parser, "LIMIT", "OFFSET")?;
    Ok(Show {
        database: None,
        list,
        sources,
        condition,
        rows,
    })
}

fn kind(parser: &mut Parser) -> Result<List, Error> {
    if parser.keyword("DATABASES")? {
        return Ok(List::Databases);
    }
    if parser.keywords("RETENTION", "POLICIES")? {
        return Ok(List::Policies);
    }
    if parser.keyword("MEASUREMENTS")? {
        return Ok(List::Measurements);
    }
    if parser.keyword("MEASUREMENT")? {
        parser.keyword("EXACT")?;
        return counted(parser, List::MeasurementCount);
    }
    if parser.keyword("TAG")? {
        if parser.keyword("KEYS")? {
            return Ok(List::TagKeys);
        }
        return match parser.keyword("VALUES")? {
            true => Ok(List::TagValues(Keys::Among(Vec::new(), true))),
            false => Err(parser.unexpected("KEYS or VALUES")),
        };
    }
    if parser.keywords("FIELD", "KEYS")? {
        return Ok(List::FieldKeys);
    }
    if parser.keyword("SERIES")? {
        return match parser.keyword("EXACT")? {
            true => counted(parser, List::SeriesCount),
            false if parser.keyword("CARDINALITY")? => Ok(List::SeriesCount),
            false => Ok(List::Series),
        };
    }
    Err(parser.unexpected(
        "DATABASES, RETENTION POLICIES, MEASUREMENTS, TAG KEYS, TAG VALUES, FIELD KEYS or SERIES",
    ))
}

fn counted(parser: &mut Parser, list: List) -> Result<List, Error> {
    match parser.keyword("CARDINALITY")? {
        true => Ok(list),
        false => Err(parser.unexpected("CARDINALITY")),
    }
}

/// Reads `ON` with a database.
fn database(parser: &mut Parser) -> Result<(), Error> {
    if parser.keyword("ON")? {
        let name = parser.name("a database")?;
        parser.note_database(name)?;
    }
    Ok(())
}

fn from(parser: &mut Parser) -> Result<Vec<Source>, Error> {
    match parser.keyword("FROM")? {
        true => list(parser, measurement),
        false => Ok(Vec::new()),
    }
}

fn measurement(parser: &mut Parser) -> Result<Source, Error> {
    match source(parser)? {
        Source::Query(_) => Err(Error::invalid("SHOW reads measurements, not queries")),
        source => Ok(source),
    }
}

/// Reads `WITH MEASUREMENT`.
fn with_measurement(parser: &mut Parser) -> Result<Vec<Source>, Error> {
    if !parser.keywords("WITH", "MEASUREMENT")? {
        return Ok(Vec::new());
    }
    if parser.accept("=~")? {
        return match parser.regex()? {
            Some(regex) => Ok(vec![Source::Matching(regex)]),
            None => Err(parser.unexpected("a regular expression")),
        };
    }
    parser.expect("=")?;
    measurement(parser).map(|source| vec![source])
}

/// Reads `WITH KEY`.
fn with_key(parser: &mut Parser) -> Result<Keys, Error> {
    if !parser.keywords("WITH", "KEY")? {
        return Err(parser.unexpected("WITH KEY"));
    }
    for (sign, others) in [("=~", false), ("!~", true)] {
        if parser.accept(sign)? {
            return match parser.regex()? {
                Some(regex) => Ok(Keys::Matching(regex, others)),
                None => Err(parser.unexpected("a regular expression")),
            };
        }
    }
    if parser.keyword("IN")? {
        parser.expect("(")?;
        let names = list(parser, |parser| parser.name("a tag"))?;
        parser.expect(")")?;
        return Ok(Keys::Among(names, false));
    }
    let others = match parser.accept("=")? {
        true => false,
        false if parser.accept("!=")? || parser.accept("<>")? => true,
        false => return Err(parser.unexpected("=, !=, =~, !~ or IN")),
    };
    Ok(Keys::Among(vec![parser.name("a tag")?], others))
}
