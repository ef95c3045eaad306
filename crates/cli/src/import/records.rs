//! Records of a file: rows of CSV, or objects of JSON lines. Both are lists of texts, one for each column.

use super::dialect::Dialect;
use super::fault::Fault;
use super::json_lines::{JsonLine, JsonLines};
use crate::failure::Failure;
use crate::source;
use anyhow::{Context, Result};
use csv::{ByteRecord, Position, Reader, ReaderBuilder, StringRecord};
use indicatif::ProgressBar;
use std::io::Read;
use std::path::Path;

/// Next item of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A record.
    Record,
    /// A row that cannot be read.
    Rejected(Fault),
    /// The end of the file.
    End,
}

/// Form of a file.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Comma-separated values.
    Csv {
        dialect: Dialect,
        /// Names of the columns of a file without a header line.
        names: Vec<String>,
    },
    /// One JSON object per line. The names of all columns are known.
    Json { header: StringRecord },
}

impl Layout {
    /// Returns the dialect of numbers.
    pub fn dialect(&self) -> Dialect {
        match self {
            Layout::Csv { dialect, .. } => *dialect,
            Layout::Json { .. } => Dialect::JSON,
        }
    }
}

/// A file that is being read.
pub struct Input {
    source: Source,
    /// Name of the file, for messages.
    pub name: String,
    pub bar: ProgressBar,
    /// Names of the columns.
    pub header: StringRecord,
    /// True if the file contains the names of the columns.
    pub has_names: bool,
    pub record: StringRecord,
    /// Cells of the record that cannot be read. They are missing in the record.
    pub faults: Vec<Fault>,
}

enum Source {
    Csv {
        reader: Reader<Box<dyn Read>>,
        separator: u8,
        bytes: ByteRecord,
    },
    Json(JsonLines),
}

impl Input {
    /// Opens a file.
    pub fn open(path: &Path, layout: &Layout) -> Result<Input, Failure> {
        let opened = source::open(path)?;
        let (source, header) = match layout {
            Layout::Csv { dialect, names } => open_csv(opened.reader, *dialect, names)
                .with_context(|| format!("{} cannot be read", opened.name))?,
            Layout::Json { header } => {
                let lines = JsonLines::new(opened.reader, header);
                (Source::Json(lines), header.clone())
            }
        };
        Ok(Input {
            source,
            name: opened.name,
            bar: opened.bar,
            header,
            has_names: match layout {
                Layout::Csv { dialect, .. } => dialect.has_header,
                Layout::Json { .. } => true,
            },
            record: StringRecord::new(),
            faults: Vec::new(),
        })
    }

    /// Reads the next record. Skips rows without any text.
    pub fn next(&mut self) -> Result<Next> {
        loop {
            let next = self
                .read()
                .with_context(|| format!("{} cannot be read", self.name))?;
            let is_blank = next == Next::Record
                && self.faults.is_empty()
                && self.record.iter().all(|cell| cell.trim().is_empty());
            if !is_blank {
                return Ok(next);
            }
        }
    }

    /// Reads the next record, past rows that cannot be read. Returns false at the end of the file.
    pub fn next_record(&mut self) -> Result<bool> {
        loop {
            match self.next()? {
                Next::Record => return Ok(true),
                Next::Rejected(_) => {}
                Next::End => return Ok(false),
            }
        }
    }

    /// Returns the original text of the record.
    pub fn text(&self) -> String {
        match &self.source {
            Source::Csv { separator, .. } => row_text(&self.record, *separator),
            Source::Json(lines) => lines.text(),
        }
    }

    fn read(&mut self) -> Result<Next> {
        self.faults.clear();
        match &mut self.source {
            Source::Csv {
                reader,
                separator,
                bytes,
            } => {
                *bytes = std::mem::take(&mut self.record).into_byte_record();
                if !reader.read_byte_record(bytes)? {
                    return Ok(Next::End);
                }
                let columns = self.header.len();
                if let Some(reason) = wrong_length(bytes, columns) {
                    return Ok(Next::Rejected(fault(bytes, reason, *separator)));
                }
                let mut read = std::mem::take(bytes);
                read.truncate(columns);
                match StringRecord::from_byte_record(read) {
                    Ok(record) => self.record = record,
                    Err(error) => {
                        let reason = "the row is not valid UTF-8".to_string();
                        let record = error.into_byte_record();
                        return Ok(Next::Rejected(fault(&record, reason, *separator)));
                    }
                }
                Ok(Next::Record)
            }
            Source::Json(lines) => Ok(match lines.next(&mut self.record, &mut self.faults)? {
                JsonLine::Record => Next::Record,
                JsonLine::Rejected(fault) => Next::Rejected(fault),
                JsonLine::End => Next::End,
            }),
        }
    }
}

fn open_csv(
    reader: Box<dyn Read>,
    dialect: Dialect,
    names: &[String],
) -> Result<(Source, StringRecord)> {
    let mut reader = ReaderBuilder::new()
        .delimiter(dialect.separator)
        .has_headers(dialect.has_header)
        .flexible(true)
        .from_reader(reader);
    let header = match dialect.has_header {
        true => reader.headers()?.clone(),
        false => StringRecord::from(names),
    };
    let source = Source::Csv {
        reader,
        separator: dialect.separator,
        bytes: ByteRecord::new(),
    };
    Ok((source, header))
}

/// Returns the reason why a row of CSV has the wrong number of cells. Empty cells at its end do not count.
fn wrong_length(record: &ByteRecord, columns: usize) -> Option<String> {
    let cells = record.len();
    let has_more = || {
        let mut more = record.iter().skip(columns);
        more.any(|cell| !cell.trim_ascii().is_empty())
    };
    let is_wrong = cells < columns || cells > columns && has_more();
    is_wrong
        .then(|| format!("the row has {cells} cells instead of {columns}; is a cell not quoted?"))
}

fn fault(record: &ByteRecord, reason: String, separator: u8) -> Fault {
    let text = StringRecord::from_byte_record_lossy(record.clone());
    Fault {
        line: record.position().map_or(0, Position::line),
        column: String::new(),
        reason,
        text: row_text(&text, separator),
    }
}

/// Returns the text of a row of CSV.
fn row_text(record: &StringRecord, separator: u8) -> String {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(separator)
        .from_writer(Vec::new());
    let written = writer.write_record(record).ok();
    let bytes = written.and_then(|()| writer.into_inner().ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or_default().trim_end_matches('\n').to_string()
}
