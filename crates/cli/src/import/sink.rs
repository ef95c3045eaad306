//! Destination of imported rows: a store directly, or a server through line protocol.

use super::fault::Fault;
use super::rejects::Reporter;
use crate::failure::Failure;
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

/// Origin of a row.
pub struct Origin {
    /// Line number in the file.
    pub line: u64,
    /// Original text, if a file of rejected rows is wanted.
    pub text: String,
}

impl Origin {
    fn fault(&self, reason: &str) -> Fault {
        Fault {
            line: self.line,
            column: String::new(),
            reason: reason.to_string(),
            text: self.text.clone(),
        }
    }
}

/// Writes rows to a target and counts them.
pub struct Sink {
    target: Open,
    /// Line protocol that is not sent yet.
    text: Vec<u8>,
    /// Start of each line in the text, and its origin.
    lines: Vec<(usize, Origin)>,
    counts: Counts,
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
    /// Rejected rows that the target did not list.
    pub unlisted: u64,
}

impl Sink {
    /// Creates a sink for a target.
    pub fn new(target: Open) -> Sink {
        Sink {
            target,
            text: Vec::new(),
            lines: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Counts a rejected row and reports it.
    pub fn reject_row(&mut self, fault: &Fault, reporter: &mut Reporter<'_>) {
        self.counts.rejected += 1;
        reporter.report(fault);
    }

    /// Counts a rejected cell and reports it.
    pub fn reject_cell(&mut self, fault: &Fault, reporter: &mut Reporter<'_>) {
        self.counts.rejected_cells += 1;
        reporter.report(fault);
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

    /// Writes rows. `origins` contains the origin of each row.
    pub fn take(
        &mut self,
        batch: &Batch<'_>,
        origins: Vec<Origin>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        if let Open::Store(store) = &self.target {
            let receipt = store.append(&LineNotation, batch)?;
            self.counts.taken += receipt.rows as u64;
            let unlisted = (receipt.rejected_total - receipt.rejected.len()) as u64;
            for (row, reason) in receipt.rejected {
                self.reject_row(&origins[row].fault(&reason.to_string()), reporter);
            }
            self.counts.rejected += unlisted;
            self.counts.unlisted += unlisted;
            return Ok(());
        }
        for (row, origin) in batch.rows.iter().zip(origins) {
            let start = self.text.len();
            match write_line(&mut self.text, row, batch.cells_of(row)) {
                Ok(()) => self.lines.push((start, origin)),
                Err(reason) => self.reject_row(&origin.fault(reason), reporter),
            }
        }
        match self.text.len() {
            bytes if bytes >= REQUEST_BYTES => self.flush(reporter),
            _ => Ok(()),
        }
    }

    /// Sends the rows that were not sent. Call this method at the end of a file, so that rejected rows are reported
    /// under the file's name.
    pub fn flush(&mut self, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let text = std::mem::take(&mut self.text);
        let lines = std::mem::take(&mut self.lines);
        let Open::Server(remote) = &self.target else {
            return Ok(());
        };
        let (mut first, mut rejected, mut listed) = (0, None, 0);
        while first < lines.len() {
            let written = remote.write(&text[lines[first].0..], Precision::Ns, true)?;
            rejected.get_or_insert(written.rejected);
            let listed_before = listed;
            let mut last = None;
            for line in &written.listed {
                let at = first + usize::try_from(line.line).unwrap_or(0).saturating_sub(1);
                if let Some((_, origin)) = lines.get(at) {
                    last = last.max(Some(at));
                    listed += line.count;
                    reporter.report(&origin.fault(&line.reason));
                }
            }
            // A server lists only the first rejected lines of a request. A row that is sent again counts once.
            let is_complete = listed - listed_before >= written.rejected;
            first = match last {
                Some(last) if !is_complete && reporter.rejects.has_file() => last + 1,
                _ => break,
            };
        }
        let rejected = rejected.unwrap_or(0);
        self.counts.taken += (lines.len() as u64).saturating_sub(rejected);
        self.counts.rejected += rejected;
        self.counts.unlisted += rejected.saturating_sub(listed);
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
