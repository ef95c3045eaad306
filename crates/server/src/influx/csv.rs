//! Answers in the CSV of InfluxDB 1: the columns `name` and `tags`, then those of the table. An empty line and another
//! head follow if a table has other columns than the one before, and between statements.

use super::json::Notation;
use csv::Writer;
use seiner_influxql::{Answer, Cell, Table};
use std::io::{self, Write};

/// Writer of the answers of a request.
#[derive(Default)]
pub struct CsvAnswer {
    /// Columns of the last table of this request. `None` before the first one.
    columns: Option<Vec<String>>,
}

impl CsvAnswer {
    /// Writes the result of a statement. Warnings have no place in CSV.
    pub fn result(
        &mut self,
        out: &mut impl Write,
        answer: &Answer,
        notation: &Notation,
    ) -> io::Result<()> {
        for (at, table) in answer.tables.iter().enumerate() {
            if at == 0 || self.columns.as_ref() != Some(&table.columns) {
                self.head(out, &["name", "tags"], &table.columns)?;
            }
            rows(out, table, notation)?;
        }
        Ok(())
    }

    /// Writes the error of a statement.
    pub fn error(&mut self, out: &mut impl Write, error: &str) -> io::Result<()> {
        self.head(out, &["error"], &[])?;
        let mut lines = Writer::from_writer(out);
        lines.write_record([error])?;
        lines.flush()
    }

    fn head(&mut self, out: &mut impl Write, first: &[&str], columns: &[String]) -> io::Result<()> {
        if self.columns.is_some() {
            out.write_all(b"\n")?;
        }
        self.columns = Some(columns.to_vec());
        let mut lines = Writer::from_writer(out);
        let columns = columns.iter().map(String::as_str);
        lines.write_record(first.iter().copied().chain(columns))?;
        lines.flush()
    }
}

fn rows(out: &mut impl Write, table: &Table, notation: &Notation) -> io::Result<()> {
    let tags = tags(table);
    let mut lines = Writer::from_writer(out);
    for row in &table.rows {
        lines.write_field(&table.name)?;
        lines.write_field(&tags)?;
        for cell in row {
            lines.write_field(text(cell, notation))?;
        }
        lines.write_record(None::<&[u8]>)?;
    }
    lines.flush()
}

/// Returns the tags in the form of line protocol: `host=a,room=b`.
fn tags(table: &Table) -> String {
    let escaped = |text: &str| {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            if matches!(letter, ',' | '=' | ' ') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        escaped
    };
    let pairs = table.tags.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    pairs.collect::<Vec<String>>().join(",")
}

/// Returns a value as text. Times are numbers, in ns unless the client gives a unit.
fn text(cell: &Option<Cell>, notation: &Notation) -> String {
    match cell {
        None => String::new(),
        Some(Cell::Time(ns)) => ns.div_euclid(notation.unit_ns.unwrap_or(1)).to_string(),
        Some(Cell::Float(value)) => value.to_string(),
        Some(Cell::Single(value)) => value.to_string(),
        Some(Cell::Integer(value)) => value.to_string(),
        Some(Cell::Unsigned(value)) => value.to_string(),
        Some(Cell::Bool(value)) => value.to_string(),
        Some(Cell::Text(text)) => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], value: Cell) -> Table {
        Table {
            name: "m".into(),
            tags: vec![("host".into(), "a b,\"c\"".into())],
            columns: columns.iter().map(|name| name.to_string()).collect(),
            rows: vec![
                vec![Some(Cell::Time(1_500_000_000)), Some(value)],
                vec![Some(Cell::Time(2_000_000_000)), None],
            ],
        }
    }

    #[test]
    fn answers_have_the_form_of_influxdb() {
        let answer = |tables| Answer {
            tables,
            zone: None,
            warnings: Vec::new(),
        };
        let (float, text) = (Cell::Float(1e21), Cell::text("x\"\n"));
        let first = answer(vec![
            table(&["time", "v"], float.clone()),
            table(&["time", "v"], Cell::Bool(true)),
            table(&["time", "w"], text),
        ]);
        let notation = Notation {
            unit_ns: None,
            chunk_rows: None,
            zone: None,
        };
        let seconds = Notation {
            unit_ns: Some(1_000_000_000),
            chunk_rows: Some(1),
            zone: None,
        };
        let (mut out, mut csv) = (Vec::new(), CsvAnswer::default());
        csv.result(&mut out, &first, &notation).unwrap();
        csv.result(&mut out, &answer(Vec::new()), &notation)
            .unwrap();
        csv.error(&mut out, "no, not this").unwrap();
        let last = answer(vec![table(&["time", "v"], Cell::Integer(-1))]);
        csv.result(&mut out, &last, &seconds).unwrap();
        let tags = r#""host=a\ b\,""c""""#;
        let expected = format!(
            "name,tags,time,v\nm,{tags},1500000000,1000000000000000000000\nm,{tags},2000000000,\n\
             m,{tags},1500000000,true\nm,{tags},2000000000,\n\nname,tags,time,w\nm,{tags},1500000000,\"x\"\"\n\"\n\
             m,{tags},2000000000,\n\nerror\n\"no, not this\"\n\nname,tags,time,v\nm,{tags},1,-1\nm,{tags},2,\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
