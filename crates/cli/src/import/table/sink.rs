//! Destination of record batches: a store directly, or a server through bodies of Arrow.

use crate::failure::Failure;
use crate::import::fault::Fault;
use crate::import::rejects::Reporter;
use crate::import::sink::Counts;
use crate::remote::Remote;
use crate::target::Open;
use anyhow::Result;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use seiner_store::{Error, Receipt, Store};
use seiner_wire::arrow_body::{BadRows, BatchDivider, BodyOptions, SourceRows};
use seiner_wire::line::LineNotation;

/// Bytes after which a body is sent.
const BODY_BYTES: usize = 4 << 20;

/// Function that reports a rejected row: its number in the file, from 1, and the reason.
pub type Report<'a> = dyn FnMut(u64, &str) + 'a;

/// Destination of the rows of all files.
pub struct TableSink {
    target: Open,
    outcome: Outcome,
}

/// Counts of rows.
#[derive(Default)]
struct Outcome {
    counts: Counts,
}

/// Rows of one file on their way to the destination.
pub struct FileSink<'a> {
    target: &'a Open,
    outcome: &'a mut Outcome,
    divider: BatchDivider,
    body: Option<Body>,
    /// Number of rows of the file in earlier bodies.
    sent: u64,
}

/// Body that is being written.
struct Body {
    stream: StreamWriter<Vec<u8>>,
    rows: u64,
}

impl TableSink {
    /// Creates a sink for a target.
    pub fn new(target: Open) -> TableSink {
        TableSink {
            target,
            outcome: Outcome::default(),
        }
    }

    /// Counts a rejected row and reports it.
    pub fn reject(&mut self, fault: &Fault, reporter: &mut Reporter<'_>) {
        self.reject_rows(1, fault, reporter);
    }

    /// Counts rejected rows and reports them by one fault.
    pub fn reject_rows(&mut self, rows: u64, fault: &Fault, reporter: &mut Reporter<'_>) {
        self.outcome.counts.rejected += rows;
        reporter.report(fault);
    }

    /// Begins a file with rows of a schema.
    ///
    /// # Errors
    /// If a column of the schema has no meaning.
    pub fn begin(&mut self, schema: &Schema) -> Result<FileSink<'_>> {
        Ok(FileSink {
            target: &self.target,
            outcome: &mut self.outcome,
            divider: BatchDivider::new(schema, &BodyOptions::default())?,
            body: None,
            sent: 0,
        })
    }

    /// Ends the import and returns the counts.
    ///
    /// # Errors
    /// If the store fails.
    pub fn finish(self) -> Result<Counts, Failure> {
        if let Open::Store(store) = &self.target {
            store.close()?;
        }
        Ok(self.outcome.counts)
    }
}

impl FileSink<'_> {
    /// Writes rows.
    ///
    /// # Errors
    /// If the destination fails, or rejects all rows.
    pub fn take(&mut self, batch: &RecordBatch, report: &mut Report<'_>) -> Result<()> {
        if let Open::Store(store) = self.target {
            let outcome = &mut *self.outcome;
            return self.divider.divide(batch, &mut |divided| {
                for rows in &divided.bad {
                    outcome.reject(rows, report);
                }
                let singles = &divided.singles;
                if !singles.numbers.is_empty() {
                    let receipt = store.append(&LineNotation, &singles.batch)?;
                    outcome.note(receipt, |row| singles.numbers[row], report);
                }
                for rows in &divided.sources {
                    append(&**store, rows, outcome, report)?;
                }
                Ok(())
            });
        }
        let rows = (BODY_BYTES / row_bytes(batch)?).max(1);
        for start in (0..batch.num_rows()).step_by(rows) {
            let part = batch.slice(start, rows.min(batch.num_rows() - start));
            self.write(&part, report)?;
        }
        Ok(())
    }

    /// Writes rows to the body, and sends a full body.
    fn write(&mut self, batch: &RecordBatch, report: &mut Report<'_>) -> Result<()> {
        let body = match &mut self.body {
            Some(body) => body,
            None => self.body.insert(Body {
                stream: StreamWriter::try_new(Vec::new(), &batch.schema())?,
                rows: 0,
            }),
        };
        body.stream.write(batch)?;
        body.rows += batch.num_rows() as u64;
        match body.stream.get_ref().len() {
            bytes if bytes < BODY_BYTES => Ok(()),
            _ => self.flush(report),
        }
    }

    /// Sends the rows that were not sent. Call this method at the end of the file.
    ///
    /// # Errors
    /// If the server fails, or rejects all rows.
    pub fn flush(&mut self, report: &mut Report<'_>) -> Result<()> {
        if let (Some(body), Open::Server(remote)) = (self.body.take(), self.target) {
            let rows = body.rows;
            send(remote, body, self.sent, self.outcome, report)?;
            self.sent += rows;
        }
        Ok(())
    }
}

impl Outcome {
    /// Adds the receipt for rows whose numbers `number` returns.
    fn note(&mut self, receipt: Receipt, number: impl Fn(usize) -> u64, report: &mut Report<'_>) {
        self.counts.taken += receipt.rows as u64;
        let unlisted = receipt.rejected_total - receipt.rejected.len();
        for (row, reason) in receipt.rejected {
            let bad = BadRows {
                first: number(row),
                count: 1,
                reason: reason.to_string(),
            };
            self.reject(&bad, report);
        }
        self.counts.rejected += unlisted as u64;
        self.counts.unlisted += unlisted as u64;
    }

    /// Counts rejected rows and reports the first of them.
    fn reject(&mut self, rows: &BadRows, report: &mut Report<'_>) {
        self.counts.rejected += rows.count;
        let reason = match rows.count {
            1 => rows.reason.clone(),
            count => format!("{}; the same for {} more rows", rows.reason, count - 1),
        };
        report(rows.first, &reason);
    }
}

/// Appends rows of one source to a store.
fn append(
    store: &dyn Store,
    rows: &SourceRows,
    outcome: &mut Outcome,
    report: &mut Report<'_>,
) -> Result<()> {
    let source = match store.register(&rows.key) {
        Ok(source) => source,
        Err(Error::Rejected(reason)) => {
            let bad = BadRows {
                first: rows.number(0),
                count: rows.len() as u64,
                reason: reason.to_string(),
            };
            outcome.reject(&bad, report);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let fields: Vec<&str> = rows.fields.iter().map(String::as_str).collect();
    let receipt = store.append_columns(source, &fields, &rows.columns)?;
    outcome.note(receipt, |row| rows.number(row), report);
    Ok(())
}

/// Sends a body to a server. `before` is the number of rows of the file in earlier bodies.
fn send(
    remote: &Remote,
    body: Body,
    before: u64,
    outcome: &mut Outcome,
    report: &mut Report<'_>,
) -> Result<()> {
    let bytes = body.stream.into_inner()?;
    let written = remote.write_arrow(&bytes, body.rows as usize)?;
    outcome.counts.taken += body.rows.saturating_sub(written.rejected);
    let listed: u64 = written.listed.iter().map(|rejected| rejected.count).sum();
    let unlisted = written.rejected.saturating_sub(listed);
    outcome.counts.rejected += unlisted;
    outcome.counts.unlisted += unlisted;
    for rejected in written.listed {
        let bad = BadRows {
            first: before + rejected.line,
            count: rejected.count,
            reason: rejected.reason,
        };
        outcome.reject(&bad, report);
    }
    Ok(())
}

/// Returns the mean number of bytes of a row, at least 1.
fn row_bytes(batch: &RecordBatch) -> Result<usize> {
    let mut bytes = 0;
    for column in batch.columns() {
        bytes += column.to_data().get_slice_memory_size()?;
    }
    Ok((bytes / batch.num_rows().max(1)).max(1))
}
