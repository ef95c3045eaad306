//! Clauses of `SELECT`.

use super::expression::{expression, kind};
use super::lexer::Token;
use super::parser::Parser;
use super::statement::{Column, Dimension, Expression, Fill, Select, Source, Window};
use crate::error::Error;
use crate::zone::Zone;

/// Maximum number of columns, sources or dimensions.
const MAX_LIST: usize = 4096;

/// Reads a query after `SELECT`.
pub fn select(parser: &mut Parser) -> Result<Select, Error> {
    let fields = list(parser, column)?;
    if parser.keyword("INTO")? {
        return Err(Error::invalid(
            "SELECT … INTO is not supported; retention classes make roll-ups",
        ));
    }
    if !parser.keyword("FROM")? {
        return Err(parser.unexpected("FROM"));
    }
    let sources = list(parser, source)?;
    let condition = condition(parser)?;
    let (mut every, mut dimensions) = (None, Vec::new());
    if parser.keywords("GROUP", "BY")? {
        for group in list(parser, group)? {
            match group {
                Group::Tags(dimension) => dimensions.push(dimension),
                Group::Every(buckets) if every.is_none() => every = Some(buckets),
                Group::Every(..) => return Err(Error::invalid("GROUP BY has time() twice")),
            }
        }
    }
    let fill = fill(parser)?;
    let descending = order(parser)?;
    let rows = window(parser, "LIMIT", "OFFSET")?;
    let tables = window(parser, "SLIMIT", "SOFFSET")?;
    let zone = zone(parser)?;
    Ok(Select {
        database: None,
        fields,
        sources,
        condition,
        every,
        dimensions,
        fill,
        descending,
        rows,
        tables,
        zone,
    })
}

/// Reads `tz('NAME')`, if it follows.
fn zone(parser: &mut Parser) -> Result<Option<Zone>, Error> {
    if !parser.keyword("TZ")? {
        return Ok(None);
    }
    parser.expect("(")?;
    let name = match parser.next()? {
        Token::Text(name) => name,
        _ => {
            return Err(Error::invalid(
                "tz() has the name of a time zone, such as tz('Europe/Berlin')",
            ));
        }
    };
    parser.expect(")")?;
    Zone::named(&name).map(Some)
}

/// Reads items separated by commas.
pub fn list<T>(
    parser: &mut Parser,
    item: impl Fn(&mut Parser) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut items = vec![item(parser)?];
    while parser.accept(",")? {
        if items.len() == MAX_LIST {
            let error = format!("a list has more than {MAX_LIST} items");
            return Err(Error::invalid(error));
        }
        items.push(item(parser)?);
    }
    Ok(items)
}

fn column(parser: &mut Parser) -> Result<Column, Error> {
    let expression = expression(parser)?;
    let name = match parser.keyword("AS")? {
        true => Some(parser.name("the name of the column")?),
        false => None,
    };
    Ok(Column { expression, name })
}

/// Reads a measurement, with or without database and retention policy, or a query in parentheses.
pub fn source(parser: &mut Parser) -> Result<Source, Error> {
    if parser.accept("(")? {
        if !parser.keyword("SELECT")? {
            return Err(parser.unexpected("SELECT"));
        }
        let inner = parser.nested(select)?;
        parser.expect(")")?;
        return Ok(Source::Query(Box::new(inner)));
    }
    let (mut name, mut first) = (String::new(), String::new());
    // Database, retention policy and measurement; the policy may be empty.
    for part in 0..3 {
        if part == 2 {
            parser.note_database(std::mem::take(&mut first))?;
        }
        if let Some(regex) = parser.regex()? {
            return Ok(Source::Matching(regex));
        }
        let is_empty_policy = part == 1 && matches!(parser.peek()?, Token::Sign("."));
        if !is_empty_policy {
            name = parser.name("a measurement")?;
        }
        if part == 0 {
            first.clone_from(&name);
        }
        if !parser.accept(".")? {
            break;
        }
    }
    Ok(Source::Measurement(name))
}

/// Reads `WHERE` with its condition, if it follows.
pub fn condition(parser: &mut Parser) -> Result<Option<Expression>, Error> {
    match parser.keyword("WHERE")? {
        true => expression(parser).map(Some),
        false => Ok(None),
    }
}

/// Part of `GROUP BY`.
enum Group {
    Every((i64, i64)),
    Tags(Dimension),
}

fn group(parser: &mut Parser) -> Result<Group, Error> {
    if let Some(regex) = parser.regex()? {
        return Ok(Group::Tags(Dimension::Matching(regex)));
    }
    if parser.accept("*")? {
        kind(parser)?;
        return Ok(Group::Tags(Dimension::All));
    }
    let is_time = matches!(parser.peek()?, Token::Word(word) if word.eq_ignore_ascii_case("time"));
    let name = parser.name("time(), a tag, * or a regular expression")?;
    if is_time && parser.accept("(")? {
        let every = duration(parser)?;
        let offset = match parser.accept(",")? {
            true => duration(parser)?,
            false => 0,
        };
        parser.expect(")")?;
        return match every > 0 {
            true => Ok(Group::Every((every, offset))),
            false => Err(Error::invalid("time() needs a duration of at least 1ns")),
        };
    }
    kind(parser)?;
    Ok(Group::Tags(Dimension::Tag(name)))
}

fn duration(parser: &mut Parser) -> Result<i64, Error> {
    let sign = match parser.accept("-")? {
        true => -1,
        false => 1,
    };
    match parser.peek()? {
        Token::Duration(ns) => {
            parser.next()?;
            Ok(sign * ns)
        }
        _ => Err(parser.unexpected("a duration such as 10s")),
    }
}

fn fill(parser: &mut Parser) -> Result<Fill, Error> {
    if !parser.keyword("FILL")? {
        return Ok(Fill::Null);
    }
    parser.expect("(")?;
    let words = [
        ("null", Fill::Null),
        ("none", Fill::None),
        ("previous", Fill::Previous),
        ("linear", Fill::Linear),
    ];
    for (word, fill) in words {
        if parser.keyword(word)? {
            parser.expect(")")?;
            return Ok(fill);
        }
    }
    let what = "null, none, previous, linear or a number";
    let is_negative = parser.accept("-")?;
    let Token::Number(number) = parser.peek()? else {
        return Err(parser.unexpected(what));
    };
    parser.next()?;
    parser.expect(")")?;
    let number = number.number().unwrap_or_default();
    Ok(Fill::Number(if is_negative { -number } else { number }))
}

/// Reads `ORDER BY`. Returns whether the latest rows come first.
fn order(parser: &mut Parser) -> Result<bool, Error> {
    if !parser.keywords("ORDER", "BY")? {
        return Ok(false);
    }
    let by_time = parser.keyword("time")?;
    if parser.keyword("DESC")? {
        return Ok(true);
    }
    if !parser.keyword("ASC")? && !by_time {
        return Err(Error::invalid("only ORDER BY time is supported"));
    }
    Ok(false)
}

/// Reads the length and begin of a part of a list.
pub fn window(parser: &mut Parser, limit: &str, offset: &str) -> Result<Window, Error> {
    let mut window = Window::default();
    if parser.keyword(limit)? {
        // As in InfluxDB, a limit of 0 is none.
        window.limit = Some(parser.count()?).filter(|limit| *limit > 0);
    }
    if parser.keyword(offset)? {
        window.offset = parser.count()?;
    }
    Ok(window)
}
