//! Destination of imported rows: a store directly, or a server through line protocol.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::target::Open;
use seiner_model::{Batch, Cell, FieldType, Interval, Row, Selector, Value};
use seiner_store::Query;
use seiner_wire::line::{LineNotation, Precision};
use std::io::{Read, Write};

/// Number of rows of a batch. The last batch of a file has fewer.
pub const BATCH_ROWS: usize = 1024;

/// Bytes of one request.
const REQUEST_BYTES: usize = 4 << 20;

/// Maximum number of sources examined for earlier samples.
const LOOKED_AT: usize = 16;

/// Maximum number of rejected rows and cells that are reported individually.
pub const MAX_REPORTED: u64 = 100;

/// Writes rows to a target and counts them.
pub struct Sink {
    target: Open,
    /// Line protocol that is not sent yet. `lines` has the file's line number of each of its lines.
    text: Vec<u8>,
    lines: Vec<u64>,
    counts: Counts,
    /// Number of rejected rows and cells so far.
    reported: u64,
}

/// Counts of an import.
#[derive(Default)]
pub struct Counts {
    /// Rows stored.
    pub taken: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Cells rejected, in rows that were stored.
    pub rejected_cells: u64,
}

impl Sink {
    /// Creates a sink for a target.
    pub fn new(target: Open) -> Sink {
        Sink {
            target,
            text: Vec::new(),
            lines: Vec::new(),
            counts: Counts::default(),
            reported: 0,
        }
    }

    /// Counts a rejected row and reports it.
    pub fn reject(&mut self, line: u64, reason: &str, report: &mut dyn FnMut(u64, &str)) {
        self.counts.rejected += 1;
        self.report(line, reason, report);
    }

    /// Counts a rejected cell and reports it.
    pub fn reject_cell(&mut self, line: u64, reason: &str, report: &mut dyn FnMut(u64, &str)) {
        self.counts.rejected_cells += 1;
        self.report(line, reason, report);
    }

    fn report(&mut self, line: u64, reason: &str, report: &mut dyn FnMut(u64, &str)) {
        self.reported += 1;
        if self.reported <= MAX_REPORTED {
            report(line, reason);
        }
    }

    /// Returns true if the target has samples of a measurement between two times, both included.
    /// Returns false if the target cannot answer.
    pub fn has_samples(&self, measurement: &str, (first, last): (i64, i64)) -> bool {
        match &self.target {
            Open::Store(store) => {
                let query = Query {
                    selector: selector(measurement),
                    fields: None,
                    interval: Interval::new(first, last),
                };
                store.time_range(&query, LOOKED_AT).is_some()
            }
            Open::Server(remote) => {
                let parameters = [
                    ("select", format!("{measurement:?}")),
                    ("from", format!("{first}ns")),
                    ("to", format!("{last}ns")),
                    ("points", "1".to_string()),
                    ("aggregate", "count".to_string()),
                    ("limit", "1".to_string()),
                ];
                let mut text = String::new();
                let answered = remote.get("/api/v1/query", &parameters);
                answered.is_ok_and(|mut answer| {
                    answer.read_to_string(&mut text).is_ok()
                        && serde_json::from_str::<serde_json::Value>(&text)
                            .is_ok_and(|answer| answer["series"][0].is_object())
                })
            }
        }
    }

    /// Returns the fields of a measurement in the target, with their types. A server is not asked.
    pub fn stored_types(&self, measurement: &str) -> Result<Vec<(String, FieldType)>, Failure> {
        match &self.target {
            Open::Store(store) => Ok(store.fields(&selector(measurement))?),
            Open::Server(_) => Ok(Vec::new()),
        }
    }

    /// Writes rows. `lines` contains the line number of each row in its file.
    pub fn take(
        &mut self,
        batch: &Batch<'_>,
        lines: &[u64],
        report: &mut dyn FnMut(u64, &str),
    ) -> Result<(), Failure> {
        if let Open::Store(store) = &self.target {
            let receipt = store.append(&LineNotation, batch)?;
            self.counts.taken += receipt.rows as u64;
            let unlisted = receipt.rejected_total - receipt.rejected.len();
            for (row, reason) in receipt.rejected {
                self.reject(lines[row], &reason.to_string(), report);
            }
            self.counts.rejected += unlisted as u64;
            return Ok(());
        }
        for (row, line) in batch.rows.iter().zip(lines) {
            match write_line(&mut self.text, row, batch.cells_of(row)) {
                Ok(()) => self.lines.push(*line),
                Err(reason) => self.reject(*line, reason, report),
            }
        }
        // A file ends with a short batch. The rest is sent then, so that rejections are reported under that
        // file's name.
        if self.text.len() >= REQUEST_BYTES || batch.rows.len() < BATCH_ROWS {
            self.send(report)?;
        }
        Ok(())
    }

    fn send(&mut self, report: &mut dyn FnMut(u64, &str)) -> Result<(), Failure> {
        let (text, lines) = (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.lines),
        );
        let Open::Server(remote) = &self.target else {
            return Ok(());
        };
        if text.is_empty() {
            return Ok(());
        }
        let written = Remote::write(remote, &text, Precision::Ns, true)?;
        self.counts.taken += lines.len() as u64 - written.rejected;
        let listed: u64 = written.listed.iter().map(|line| line.count).sum();
        self.counts.rejected += written.rejected.saturating_sub(listed);
        for rejected in written.listed {
            let line = usize::try_from(rejected.line - 1)
                .ok()
                .and_then(|at| lines.get(at))
                .copied();
            self.reject(line.unwrap_or(0), &rejected.reason, report);
        }
        Ok(())
    }

    /// Ends the import and returns the counts.
    pub fn finish(self) -> Result<Counts, Failure> {
        if let Open::Store(store) = &self.target {
            store.close()?;
        }
        Ok(self.counts)
    }
}

fn selector(measurement: &str) -> Selector {
    Selector {
        measurement: Some(measurement.to_string()),
        matchers: Vec::new(),
    }
}

/// Appends a row as a line. Floats are written as the shortest decimals that parse to the same value.
fn write_line(text: &mut Vec<u8>, row: &Row<'_>, cells: &[Cell<'_>]) -> Result<(), &'static str> {
    let start = text.len();
    let written = try_write_line(text, row, cells);
    if written.is_err() {
        text.truncate(start);
    }
    written
}

fn try_write_line(
    text: &mut Vec<u8>,
    row: &Row<'_>,
    cells: &[Cell<'_>],
) -> Result<(), &'static str> {
    if row.name.contains(&b'\n') {
        return Err(
            "line protocol has no notation for a newline in a tag; import into a directory with --data",
        );
    }
    text.extend_from_slice(row.name);
    for (index, cell) in cells.iter().enumerate() {
        text.push(if index == 0 { b' ' } else { b',' });
        if cell.field.ends_with(b"\\") {
            return Err(
                "line protocol has no notation for a field that ends in a backslash; import into a directory with --data",
            );
        }
        escape(text, cell.field, b",= ");
        text.push(b'=');
        write_value(text, cell.value)?;
    }
    writeln!(text, " {}", row.time).expect("a write to a Vec does not fail");
    Ok(())
}

fn write_value(text: &mut Vec<u8>, value: Value<'_>) -> Result<(), &'static str> {
    match value {
        Value::F64(value) if !value.is_finite() => {
            return Err("line protocol has no notation for NaN and infinities; import into a directory with --data");
        }
        Value::F64(value) => write!(text, "{value:?}"),
        Value::F32(_) => {
            return Err("line protocol has no notation for 32-bit floats; import into a directory with --data");
        }
        Value::I64(value) => write!(text, "{value}i"),
        Value::U64(value) => write!(text, "{value}u"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Str(value) => {
            text.push(b'"');
            escape(text, value.as_bytes(), b"\"\\");
            text.push(b'"');
            Ok(())
        }
    }
    .expect("a write to a Vec does not fail");
    Ok(())
}

/// Appends bytes with a backslash before each byte of `escapable`.
pub fn escape(into: &mut Vec<u8>, bytes: &[u8], escapable: &[u8]) {
    for byte in bytes {
        if escapable.contains(byte) {
            into.push(b'\\');
        }
        into.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_wire::line::{Arena, LineParser};

    #[test]
    fn written_lines_are_parsed_as_the_original_values() {
        let values = [
            Value::F64(6.869999900000001),
            Value::F64(-0.0),
            Value::F64(5e-324),
            Value::F64(1e300),
            Value::I64(i64::MIN),
            Value::U64(u64::MAX),
            Value::Bool(false),
            Value::Str("a \"b\" \\ c\nd"),
        ];
        for value in values {
            let mut batch = Batch::new();
            batch.push(
                b"m,t=a\\ b",
                -7,
                [Cell {
                    field: b"f ,=",
                    value,
                }],
            );
            let mut text = Vec::new();
            write_line(&mut text, &batch.rows[0], &batch.cells).unwrap();
            let (arena, mut read, mut errors) = (Arena::new(), Batch::new(), Vec::new());
            LineParser::new(Precision::Ns).parse(
                &text,
                true,
                0,
                10,
                &arena,
                &mut read,
                &mut errors,
            );
            assert_eq!(errors, [], "{}", String::from_utf8_lossy(&text));
            assert_eq!(
                (read.rows[0].name, read.rows[0].time),
                (&b"m,t=a\\ b"[..], -7)
            );
            assert_eq!(
                (read.cells[0].field, read.cells[0].value),
                (&b"f ,="[..], value)
            );
        }
    }

    #[test]
    fn a_value_without_a_line_notation_is_rejected_and_writes_nothing() {
        let mut text = b"before\n".to_vec();
        let mut batch = Batch::new();
        batch.push(
            b"m",
            0,
            [Cell {
                field: b"f",
                value: Value::F32(1.5),
            }],
        );
        assert!(write_line(&mut text, &batch.rows[0], &batch.cells).is_err());
        assert_eq!(text, b"before\n");
    }
}
