//! `seiner import csv`: comma-separated values.
//!
//! A file is read twice: once to infer the types of its columns from all of its values, and once
//! to store them. What is stored is exact: numbers are the nearest ones to the texts.

use super::columns::{Columns, Roles};
use super::sink::{Sink, escape};
use crate::failure::Failure;
use crate::source;
use crate::target::Target;
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use csv::{Reader, StringRecord};
use seiner_model::{Batch, Cell, FieldType};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Records that go to the store at once.
pub const BATCH_ROWS: usize = 1024;

/// Comma-separated values, with a first line that names the columns.
///
/// Columns are the time, tags, or fields; a row becomes the values of one source at one time.
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
    /// The measurement that the rows are of [default: the file's name up to the first dot]
    #[arg(long, value_name = "NAME")]
    measurement: Option<String>,
    /// The column that holds the time: integers, or RFC 3339.
    #[arg(long, value_name = "COLUMN", default_value = "ts")]
    time_column: String,
    /// The unit of integer times.
    #[arg(long, value_enum, default_value_t = TimeUnit::S)]
    time_unit: TimeUnit,
    /// The columns that are tags, separated by commas. Each combination of their values is a source.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    tag_columns: Vec<String>,
    /// The columns that are fields, separated by commas [default: all that are neither time nor tag]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    field_columns: Option<Vec<String>>,
    /// A tag that all rows get. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    /// Texts that stand for a missing value, separated by commas, such as -9999.9. Empty cells
    /// always do.
    #[arg(
        long,
        value_name = "TEXTS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    missing: Vec<String>,
    /// Types of fields, separated by commas: f64, f32, i64, u64, bool or string, as in ax=f32.
    /// Otherwise the narrowest of bool, i64, u64, f64 and string that holds all values of a column.
    /// f32 takes half the space for readings that were 32-bit floats, but only goes into a directory.
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',', value_parser = typed)]
    types: Vec<(String, FieldType)>,
    /// The files, packed by gzip or not.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TimeUnit {
    S,
    Ms,
    Us,
    Ns,
}

impl TimeUnit {
    fn ns(self) -> i64 {
        match self {
            TimeUnit::S => 1_000_000_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::Us => 1_000,
            TimeUnit::Ns => 1,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
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
        let roles = Roles {
            time: self.time_column.clone(),
            unit_ns: self.time_unit.ns(),
            tags: self.tag_columns.clone(),
            fields: self.field_columns.clone(),
            types: self.types.iter().cloned().collect(),
            missing: self.missing.clone(),
        };
        let mut sink = Sink::new(self.target.open()?);
        for path in &self.files {
            let columns = self.inspect(path, &roles)?;
            self.import(path, &columns, &mut sink)?;
        }
        let (rows, refused) = sink.finish()?;
        eprintln!("{rows} rows imported, {refused} refused");
        if refused > 0 {
            Err(Failure::Refused)
        } else {
            Ok(())
        }
    }

    /// Finds the columns and infers their types from all values.
    fn inspect(&self, path: &Path, roles: &Roles) -> Result<Columns, Failure> {
        let (mut reader, name, bar) = open(path)?;
        bar.set_message(format!("{name}: reading types"));
        let header = reader
            .headers()
            .with_context(|| format!("{name} cannot be read"))?
            .clone();
        let mut columns = Columns::find(roles, &header)
            .map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
        let mut record = StringRecord::new();
        while reader
            .read_record(&mut record)
            .with_context(|| format!("{name} cannot be read"))?
        {
            columns.infer(&record);
        }
        bar.finish_and_clear();
        Ok(columns)
    }

    fn import(&self, path: &Path, columns: &Columns, sink: &mut Sink) -> Result<(), Failure> {
        let (mut reader, name, bar) = open(path)?;
        let measurement = self.measurement.clone().unwrap_or_else(|| stem(path));
        let mut records: Vec<StringRecord> = Vec::new();
        loop {
            let more = read_records(&mut reader, &mut records)
                .with_context(|| format!("{name} cannot be read"))?;
            let mut report =
                |line: u64, reason: &str| bar.suspend(|| eprintln!("{name}:{line}: {reason}"));
            self.store(&measurement, columns, &records, sink, &mut report)?;
            if !more {
                bar.finish_and_clear();
                return Ok(());
            }
        }
    }

    fn store(
        &self,
        measurement: &str,
        columns: &Columns,
        records: &[StringRecord],
        sink: &mut Sink,
        report: &mut dyn FnMut(u64, &str),
    ) -> Result<(), Failure> {
        let names: Vec<Vec<u8>> = records
            .iter()
            .map(|record| self.name(measurement, columns, record))
            .collect();
        let (mut batch, mut lines) = (Batch::new(), Vec::new());
        for (record, name) in records.iter().zip(&names) {
            let line = record.position().map_or(0, |position| position.line());
            match row(columns, record) {
                Ok((time, cells)) if !cells.is_empty() => {
                    batch.push(name, time, cells);
                    lines.push(line);
                }
                // A row of nothing but missing values says nothing.
                Ok(_) => {}
                Err(reason) => sink.refuse(line, &reason, report),
            }
        }
        sink.take(&batch, &lines, report)
    }

    /// The source of a record, as line protocol writes it.
    fn name(&self, measurement: &str, columns: &Columns, record: &StringRecord) -> Vec<u8> {
        let mut name = Vec::new();
        escape(&mut name, measurement.as_bytes(), b", \\");
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
            escape(&mut name, tag.as_bytes(), b",= \\");
            name.push(b'=');
            escape(&mut name, value.as_bytes(), b",= \\");
        }
        name
    }
}

/// A record's time and values.
fn row<'r>(columns: &'r Columns, record: &'r StringRecord) -> Result<(i64, Vec<Cell<'r>>), String> {
    let time = columns.time(record)?;
    let mut cells = Vec::with_capacity(columns.fields.len());
    for field in &columns.fields {
        if let Some(value) = columns.value(field, record)? {
            cells.push(Cell {
                field: field.name.as_bytes(),
                value,
            });
        }
    }
    Ok((time, cells))
}

type Open = (Reader<Box<dyn Read>>, String, indicatif::ProgressBar);

fn open(path: &Path) -> Result<Open, Failure> {
    if path == Path::new("-") {
        return Err(anyhow!(
            "a CSV file is read twice, and standard input can be read only once; name a file"
        )
        .into());
    }
    let source = source::open(path)?;
    Ok((Reader::from_reader(source.reader), source.name, source.bar))
}

/// Reads the next records into the list; answers whether there may be more.
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
    fn names_come_back_as_they_were() {
        for text in ["plain", "a b", "x,y=z", "back\\slash", "end\\", "\\,"] {
            let mut name = Vec::new();
            escape(&mut name, text.as_bytes(), b", \\");
            name.extend_from_slice(b",tag=");
            escape(&mut name, text.as_bytes(), b",= \\");
            let key = LineNotation.source_key(&name).unwrap();
            assert_eq!((key.measurement(), key.tag("tag")), (text, text));
        }
    }

    #[test]
    fn measurements_are_named_after_files() {
        assert_eq!(stem(Path::new("/x/wind_scada.csv.gz")), "wind_scada");
    }
}
