//! Answers in the JSON of InfluxDB 1.

use seiner_influxql::{Answer, Cell, Table, Zone};
use seiner_model::rfc3339;
use std::io::{self, Write};

const NS_PER_MINUTE: i64 = 60_000_000_000;

/// Notation of an answer.
#[derive(Clone, Debug)]
pub struct Notation {
    /// Unit of times, ns. `None` for dates.
    pub unit_ns: Option<i64>,
    /// Rows of a part. `None` if the answer has one part.
    pub chunk_rows: Option<usize>,
    /// Time zone of dates; UTC without one.
    pub zone: Option<Zone>,
}

impl Notation {
    /// Returns whether an answer has several parts, each a JSON text of its own.
    pub fn is_chunked(&self) -> bool {
        self.chunk_rows.is_some()
    }
}

/// Part of a table.
struct Part<'t> {
    table: &'t Table,
    rows: &'t [Vec<Option<Cell>>],
    is_last: bool,
}

/// Writes the result of a statement.
pub fn write_result<'a>(
    out: &mut impl Write,
    number: usize,
    answer: &'a Answer,
    notation: &Notation,
) -> io::Result<()> {
    let notation = &Notation {
        zone: answer.zone.clone(),
        ..notation.clone()
    };
    let whole = |table: &'a Table| Part {
        table,
        rows: &table.rows,
        is_last: true,
    };
    let Some(chunk_rows) = notation.chunk_rows else {
        let parts: Vec<Part<'a>> = answer.tables.iter().map(whole).collect();
        return result(out, number, &parts, &answer.warnings, false, notation);
    };
    let tables = answer.tables.len();
    for (at, table) in answer.tables.iter().enumerate() {
        let chunks = table.rows.chunks(chunk_rows);
        let last = chunks.len().saturating_sub(1);
        for (chunk, rows) in chunks.enumerate() {
            let is_last = chunk == last;
            let part = Part {
                table,
                rows,
                is_last,
            };
            let continues = !is_last || at + 1 < tables;
            document(out, |out| {
                result(out, number, &[part], &answer.warnings, continues, notation)
            })?;
        }
    }
    match answer.tables.is_empty() {
        true => document(out, |out| {
            result(out, number, &[], &answer.warnings, false, notation)
        }),
        false => Ok(()),
    }
}

/// Writes the error of a statement.
pub fn write_error(
    out: &mut impl Write,
    number: usize,
    error: &str,
    notation: &Notation,
) -> io::Result<()> {
    let write = |out: &mut dyn Write| {
        write!(out, "{{\"statement_id\":{number},\"error\":")?;
        serde_json::to_writer(&mut *out, error)?;
        out.write_all(b"}")
    };
    match notation.is_chunked() {
        true => document(out, |out| write(out)),
        false => write(out),
    }
}

/// Writes a part of an answer as a JSON text of its own.
fn document<W: Write>(out: &mut W, write: impl FnOnce(&mut W) -> io::Result<()>) -> io::Result<()> {
    out.write_all(b"{\"results\":[")?;
    write(out)?;
    out.write_all(b"]}\n")
}

fn result(
    out: &mut impl Write,
    number: usize,
    parts: &[Part<'_>],
    warnings: &[String],
    continues: bool,
    notation: &Notation,
) -> io::Result<()> {
    write!(out, "{{\"statement_id\":{number}")?;
    if !parts.is_empty() {
        out.write_all(b",\"series\":[")?;
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            series(out, part, notation)?;
        }
        out.write_all(b"]")?;
    }
    if !warnings.is_empty() {
        out.write_all(b",\"messages\":[")?;
        for (at, warning) in warnings.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            out.write_all(b"{\"level\":\"warning\",\"text\":")?;
            serde_json::to_writer(&mut *out, warning)?;
            out.write_all(b"}")?;
        }
        out.write_all(b"]")?;
    }
    if continues {
        out.write_all(b",\"partial\":true")?;
    }
    out.write_all(b"}")
}

fn series(out: &mut impl Write, part: &Part<'_>, notation: &Notation) -> io::Result<()> {
    let table = part.table;
    out.write_all(b"{")?;
    if !table.name.is_empty() {
        out.write_all(b"\"name\":")?;
        serde_json::to_writer(&mut *out, &table.name)?;
        out.write_all(b",")?;
    }
    if !table.tags.is_empty() {
        out.write_all(b"\"tags\":{")?;
        for (at, (name, value)) in table.tags.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, name)?;
            out.write_all(b":")?;
            serde_json::to_writer(&mut *out, value)?;
        }
        out.write_all(b"},")?;
    }
    out.write_all(b"\"columns\":")?;
    serde_json::to_writer(&mut *out, &table.columns)?;
    out.write_all(b",\"values\":[")?;
    for (at, row) in part.rows.iter().enumerate() {
        out.write_all(if at > 0 { b",[" } else { b"[" })?;
        for (at, value) in row.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            cell(out, value, notation)?;
        }
        out.write_all(b"]")?;
    }
    out.write_all(b"]")?;
    if !part.is_last {
        out.write_all(b",\"partial\":true")?;
    }
    out.write_all(b"}")
}

fn cell(out: &mut impl Write, value: &Option<Cell>, notation: &Notation) -> io::Result<()> {
    match value {
        None => out.write_all(b"null"),
        Some(Cell::Time(ns)) => match notation.unit_ns {
            Some(unit) => write!(out, "{}", ns.div_euclid(unit)),
            None => write!(out, "\"{}\"", date(*ns, notation.zone.as_ref())),
        },
        // JSON has no NaN and no infinite numbers; they are null.
        Some(Cell::Float(value)) => Ok(serde_json::to_writer(out, value)?),
        Some(Cell::Single(value)) => Ok(serde_json::to_writer(out, value)?),
        Some(Cell::Integer(value)) => write!(out, "{value}"),
        Some(Cell::Unsigned(value)) => write!(out, "{value}"),
        Some(Cell::Bool(value)) => write!(out, "{value}"),
        Some(Cell::Text(text)) => Ok(serde_json::to_writer(out, &**text)?),
    }
}

/// Returns a time as a date in a zone.
fn date(ns: i64, zone: Option<&Zone>) -> String {
    let offset = zone.map_or(0, |zone| zone.offset(ns));
    let mut text = rfc3339(ns.saturating_add(offset));
    if offset != 0 {
        let (sign, minutes) = (
            if offset < 0 { '-' } else { '+' },
            offset.abs() / NS_PER_MINUTE,
        );
        text.pop();
        text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(notation: &Notation) -> String {
        let row = |ns, value| vec![Some(Cell::Time(ns)), value];
        let table = Table {
            name: "m".into(),
            tags: vec![("host".into(), "a\"".into())],
            columns: vec!["time".into(), "v".into()],
            rows: vec![
                row(1_500_000_000, Some(Cell::Float(0.5))),
                row(2_000_000_000, None),
            ],
        };
        let answer = Answer {
            tables: vec![table],
            zone: None,
            warnings: vec!["lost".into()],
        };
        let mut out = Vec::new();
        write_result(&mut out, 3, &answer, notation).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn answers_have_the_form_of_influxdb() {
        let dates = Notation {
            unit_ns: None,
            chunk_rows: None,
            zone: None,
        };
        let head = r#"{"statement_id":3,"series":[{"name":"m","tags":{"host":"a\""},"columns":["time","v"],"values":"#;
        let tail = r#"}],"messages":[{"level":"warning","text":"lost"}]}"#;
        let rows = r#"[["1970-01-01T00:00:01.5Z",0.5],["1970-01-01T00:00:02Z",null]]"#;
        assert_eq!(written(&dates), format!("{head}{rows}{tail}"));
        let seconds = Notation {
            unit_ns: Some(1_000_000_000),
            chunk_rows: None,
            zone: None,
        };
        assert_eq!(written(&seconds), format!("{head}[[1,0.5],[2,null]]{tail}"));
    }

    #[test]
    fn parts_are_texts_of_their_own() {
        let notation = Notation {
            unit_ns: Some(1),
            chunk_rows: Some(1),
            zone: None,
        };
        let written = written(&notation);
        let parts: Vec<serde_json::Value> = written
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let partial = |at: usize| &parts[at]["results"][0]["series"][0]["partial"];
        assert_eq!(parts.len(), 2);
        assert_eq!(
            (partial(0).as_bool(), partial(1).as_bool()),
            (Some(true), None)
        );
        assert_eq!(parts[0]["results"][0]["partial"], true);
    }
}
