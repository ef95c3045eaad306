//! `seiner import csv`: imports comma-separated values.
//!
//! The command reads each file at least twice: first to find the types and the rows that would be lost
//! ([`Scan`]), then to store the rows. If the import would lose rows without permission on the command line,
//! nothing is stored. Values are exact: each number is the nearest one to its text.

use super::columns::{Columns, Roles};
use super::dialect::{Decimal, Dialect, separator};
use super::scan::{File, Scan, ScanResult};
use super::sink::{BATCH_ROWS, Sink, escape};
use super::types;
use crate::failure::Failure;
use crate::source;
use crate::target::{Archive, Target};
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use csv::{Reader, ReaderBuilder, StringRecord};
use seiner_model::{Batch, Cell, FieldType};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Import comma-separated values, with a first line that names the columns.
///
/// Each column is the time, a tag, or a field. A row becomes the values of one source at one time.
/// The command checks all rows before it stores any row. --dry-run shows the result without
/// storing.
///
/// Examples:
///
///   seiner import csv --data ./seiner-data --tag-columns series --time-unit ms live_collectd.csv.gz
///
///   seiner import csv --data ./seiner-data --missing -9999.9 surfrad_weather.csv.gz
#[derive(Args)]
pub struct Csv {
    #[command(flatten)]
    target: Target,
    /// Show the columns with their types, the first ten rows, and the rows that would be lost.
    /// Stores nothing, and needs neither a server nor a directory.
    #[arg(long)]
    dry_run: bool,
    /// Measurement of all rows [default: the file's name up to the first dot]
    #[arg(long, value_name = "NAME")]
    measurement: Option<String>,
    /// Column with the time of a row: numbers, or dates such as 2026-11-21 08:00:00 (UTC, or with a
    /// zone) [default: the first that exists of ts, timestamp, time, datetime, date_time, _time and
    /// date]
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// Unit of times that are numbers. Fractions are allowed.
    #[arg(long, value_enum, default_value_t = TimeUnit::S)]
    time_unit: TimeUnit,
    /// Columns that are tags, separated by commas. Each combination of their values is a source, so
    /// a forgotten tag merges sources.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    tag_columns: Vec<String>,
    /// Columns that are fields, separated by commas [default: all that are neither time nor tag]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    field_columns: Option<Vec<String>>,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    /// Texts that denote a missing value, separated by commas, such as -9999.9. Empty cells are
    /// always missing values.
    #[arg(
        long,
        value_name = "TEXTS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    missing: Vec<String>,
    /// Types of fields, separated by commas: f64, f32, i64, u64, bool or string, as in ax=f32. By
    /// default, a field gets the narrowest of bool, i64, u64, f64 and string that represents all of
    /// its values. If fewer than one cell in a hundred of a column of numbers is not a number,
    /// these cells are rejected. With --data, a column in which all numbers are 32-bit floats gets
    /// f32 if this takes less space.
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',', value_parser = typed)]
    types: Vec<(String, FieldType)>,
    /// Separator of cells: one character, or `tab` [default: , ; tab or |, most frequent in the
    /// first line]
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    separator: Option<u8>,
    /// Decimal mark of numbers [default: a comma where cells contain one and another character
    /// separates cells, else a point]
    #[arg(long, value_enum)]
    decimal: Option<Decimal>,
    /// Let rows replace earlier rows of the same source and time. The earlier values are lost.
    /// Without this flag, a file with such rows is not imported.
    #[arg(long)]
    replace: bool,
    /// Skip rows without a value. Without this flag, a file with such rows is not imported.
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    archive: Archive,
    /// Files to import, plain or compressed by gzip.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Unit of times that are numbers.
#[derive(Clone, Copy, ValueEnum)]
pub enum TimeUnit {
    S,
    Ms,
    Us,
    Ns,
}

impl TimeUnit {
    /// Returns the name and the length in ns.
    pub fn unit(self) -> (&'static str, i64) {
        match self {
            TimeUnit::S => ("s", 1_000_000_000),
            TimeUnit::Ms => ("ms", 1_000_000),
            TimeUnit::Us => ("us", 1_000),
            TimeUnit::Ns => ("ns", 1),
        }
    }
}

/// Parses a text such as `name=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .ok_or_else(|| format!("{text:?} is not of the form name=value"))
}

fn typed(text: &str) -> Result<(String, FieldType), String> {
    let (column, name) = pair(text)?;
    let found = FieldType::ALL
        .into_iter()
        .find(|field_type| field_type.name() == name);
    Ok((
        column,
        found.ok_or_else(|| format!("{name:?} is none of f64, f32, i64, u64, bool, string"))?,
    ))
}

impl Csv {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        let mut result = self.scan()?;
        if self.dry_run {
            self.preview(&result)?;
            result.files.iter().for_each(File::report_singles);
        }
        result.report();
        let stops = result.stops(self.replace, self.allow_empty);
        for stop in &stops {
            eprintln!("seiner: {stop}");
        }
        if !stops.is_empty() {
            eprintln!("nothing was imported");
            return Err(Failure::Rejected);
        }
        if self.dry_run {
            return Ok(());
        }
        let target = self.target.open_archive(self.archive.block_bytes)?;
        let mut sink = Sink::new(target);
        for file in &mut result.files {
            let stored = sink.stored_types(&file.measurement)?;
            for reason in types::follow(&mut file.columns, &stored) {
                eprintln!("note: {}: {reason}", file.name);
            }
            file.report_singles();
        }
        for file in &result.files {
            if let Some(span) = file.span
                && sink.has_samples(&file.measurement, span)
            {
                eprintln!(
                    "note: there are samples of {} in this time already; rows of the same source and time replace \
                     them, and equal ones change nothing",
                    file.measurement
                );
            }
            self.import(file, &mut sink)?;
        }
        let counts = sink.finish()?;
        eprintln!("{}", result.summary(&counts));
        match counts.rejected + counts.rejected_cells {
            0 => Ok(()),
            _ => Err(Failure::Rejected),
        }
    }

    /// Reads all files, to find types and rows that would be lost.
    fn scan(&self) -> Result<ScanResult, Failure> {
        let roles = Roles {
            time: self.time_column.clone(),
            unit: self.time_unit.unit(),
            tags: self.tag_columns.clone(),
            fields: self.field_columns.clone(),
            types: self.types.iter().cloned().collect(),
            singles: self.target.is_directory(),
            missing: self.missing.clone(),
        };
        let mut scan = Scan::default();
        for path in &self.files {
            let dialect = match path == Path::new("-") {
                true => return Err(standard_input()),
                false => Dialect::detect(path, self.separator, self.decimal)?,
            };
            let mut input = Input::open(path, dialect)?;
            input.bar.set_message(format!("{}: checking", input.name));
            let columns = Columns::find(&roles, &input.header, dialect)
                .map_err(|error| Failure::Usage(format!("{}: {error}", input.name)))?;
            let measurement = self.measurement.clone().unwrap_or_else(|| stem(path));
            scan.begin(&input.name, path, measurement, dialect, columns);
            while input.next()? {
                scan.take(&input.record);
            }
            input.bar.finish_and_clear();
        }
        // If the rows of a source are unordered, the rows are compared in several parts.
        let mut scan = scan.end();
        while scan.next_part() {
            for number in 0..scan.result.files.len() {
                let (path, dialect) = scan.file(number);
                let mut input = Input::open(&path, dialect)?;
                input
                    .bar
                    .set_message(format!("{}: comparing rows", input.name));
                while input.next()? {
                    scan.compare(number, &input.record);
                }
                input.bar.finish_and_clear();
            }
        }
        Ok(scan.result())
    }

    fn preview(&self, result: &ScanResult) -> Result<(), Failure> {
        for file in &result.files {
            let mut input = Input::open(&file.path, file.dialect)?;
            let mut first = Vec::new();
            while first.len() < super::preview::ROWS && input.next()? {
                let row = row(&file.columns, &input.record, &mut |_| ());
                let name = self.name(&file.measurement, &file.columns, &input.record);
                let row = name.as_ref().map_err(String::clone).and(row);
                first.push(super::preview::row(
                    name.as_deref().unwrap_or_default(),
                    row,
                ));
            }
            super::preview::show(file, &first)?;
        }
        Ok(())
    }

    fn import(&self, file: &File, sink: &mut Sink) -> Result<(), Failure> {
        let mut input = Input::open(&file.path, file.dialect)?;
        let mut records: Vec<StringRecord> = Vec::new();
        loop {
            let more = read_records(&mut input.reader, &mut records)
                .with_context(|| format!("{} cannot be read", input.name))?;
            let (bar, name) = (&input.bar, &input.name);
            let mut report =
                |line: u64, reason: &str| bar.suspend(|| eprintln!("{name}:{line}: {reason}"));
            self.store(file, &records, sink, &mut report)?;
            if !more {
                input.bar.finish_and_clear();
                return Ok(());
            }
        }
    }

    fn store(
        &self,
        file: &File,
        records: &[StringRecord],
        sink: &mut Sink,
        report: &mut dyn FnMut(u64, &str),
    ) -> Result<(), Failure> {
        let columns = &file.columns;
        let names: Vec<Result<Vec<u8>, String>> = records
            .iter()
            .map(|record| self.name(&file.measurement, columns, record))
            .collect();
        let (mut batch, mut lines) = (Batch::new(), Vec::new());
        for (record, name) in records.iter().zip(&names) {
            let line = record.position().map_or(0, csv::Position::line);
            let mut reject_cell = |reason: String| sink.reject_cell(line, &reason, report);
            let read = name
                .as_ref()
                .map_err(String::clone)
                .and_then(|name| Ok((name, row(columns, record, &mut reject_cell)?)));
            match read {
                Ok((name, (time, cells))) if !cells.is_empty() => {
                    batch.push(name, time, cells);
                    lines.push(line);
                }
                // A row without any value stores nothing. The scan has counted it.
                Ok(_) => {}
                Err(reason) => sink.reject(line, &reason, report),
            }
        }
        sink.take(&batch, &lines, report)
    }

    /// Returns the source of a record, in the notation of line protocol.
    fn name(
        &self,
        measurement: &str,
        columns: &Columns,
        record: &StringRecord,
    ) -> Result<Vec<u8>, String> {
        let mut name = Vec::new();
        put_name(&mut name, measurement, b", ")?;
        let constant = self
            .tag
            .iter()
            .map(|(tag, value)| (tag.as_str(), value.as_str()));
        let from_columns = columns
            .tags
            .iter()
            .map(|(tag, place)| (tag.as_str(), record.get(*place).unwrap_or_default().trim()));
        for (tag, value) in constant
            .chain(from_columns)
            .filter(|(_, value)| !value.is_empty())
        {
            name.push(b',');
            put_name(&mut name, tag, b",= ")?;
            name.push(b'=');
            put_name(&mut name, value, b",= ")?;
        }
        Ok(name)
    }
}

/// Appends a measurement, or the name or value of a tag, in the notation of line protocol.
fn put_name(name: &mut Vec<u8>, text: &str, escapable: &[u8]) -> Result<(), String> {
    if text.ends_with('\\') {
        return Err(format!(
            "{text:?} ends in a backslash, for which line protocol has no notation; leave the backslash out"
        ));
    }
    escape(name, text.as_bytes(), escapable);
    Ok(())
}

/// Returns the time and the values of a record. Calls `reject` for each cell that is not valid, and omits the
/// cell.
fn row<'r>(
    columns: &'r Columns,
    record: &'r StringRecord,
    reject: &mut dyn FnMut(String),
) -> Result<(i64, Vec<Cell<'r>>), String> {
    let time = columns.time(record)?;
    let mut cells = Vec::with_capacity(columns.fields.len());
    for field in &columns.fields {
        match columns.value(field, record) {
            Ok(Some(value)) => cells.push(Cell {
                field: field.name.as_bytes(),
                value,
            }),
            Ok(None) => {}
            Err(reason) => reject(reason),
        }
    }
    Ok((time, cells))
}

/// A file that is being read.
struct Input {
    reader: Reader<Box<dyn Read>>,
    name: String,
    bar: indicatif::ProgressBar,
    header: StringRecord,
    record: StringRecord,
}

impl Input {
    fn open(path: &Path, dialect: Dialect) -> Result<Input, Failure> {
        let source = source::open(path)?;
        let mut reader = ReaderBuilder::new()
            .delimiter(dialect.separator)
            .from_reader(source.reader);
        let header = reader
            .headers()
            .with_context(|| format!("{} cannot be read", source.name))?
            .clone();
        Ok(Input {
            reader,
            name: source.name,
            bar: source.bar,
            header,
            record: StringRecord::new(),
        })
    }

    /// Reads the next record. Returns false at the end of the file.
    fn next(&mut self) -> anyhow::Result<bool> {
        self.reader
            .read_record(&mut self.record)
            .with_context(|| format!("{} cannot be read", self.name))
    }
}

fn standard_input() -> Failure {
    anyhow!("a CSV file is read twice, and standard input can be read only once; name a file")
        .into()
}

/// Reads up to [`BATCH_ROWS`] records into the list. Returns false at the end of the file.
fn read_records(
    reader: &mut Reader<Box<dyn Read>>,
    records: &mut Vec<StringRecord>,
) -> csv::Result<bool> {
    records.resize_with(BATCH_ROWS, StringRecord::new);
    for read in 0..BATCH_ROWS {
        if !reader.read_record(&mut records[read])? {
            records.truncate(read);
            return Ok(false);
        }
    }
    Ok(true)
}

fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.')
        .find(|part| !part.is_empty())
        .unwrap_or("csv")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::Notation;
    use seiner_wire::line::LineNotation;

    #[test]
    fn escaped_names_are_parsed_as_the_original_names() {
        for text in ["plain", "a b", "x,y=z", "back\\slash", "\\\\server", "\\,"] {
            let mut name = Vec::new();
            put_name(&mut name, text, b", ").unwrap();
            name.extend_from_slice(b",tag=");
            put_name(&mut name, text, b",= ").unwrap();
            let key = LineNotation.source_key(&name).unwrap();
            assert_eq!((key.measurement(), key.tag("tag")), (text, text));
        }
        let error = put_name(&mut Vec::new(), "C:\\", b", ").unwrap_err();
        assert!(error.ends_with("leave the backslash out"), "{error}");
    }

    #[test]
    fn measurements_are_named_after_files() {
        assert_eq!(stem(Path::new("/x/wind_scada.csv.gz")), "wind_scada");
    }
}
