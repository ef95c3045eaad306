//! Flags of the imports of records: CSV and JSON lines.

use super::columns::Roles;
use super::rejects::RejectsFlag;
use super::times::pattern;
use crate::target::{Archive, Target};
use clap::{Args, ValueEnum};
use seiner_model::FieldType;
use std::path::PathBuf;

// Not a doc comment: it would remove the descriptions of the commands from their help.
#[derive(Args)]
pub struct Flags {
    #[command(flatten)]
    pub target: Target,
    /// Show the columns with their types, the first ten rows, and the rows that would be lost.
    /// Stores nothing, and needs neither a server nor a directory.
    #[arg(long)]
    pub dry_run: bool,
    /// Measurement of all rows [default: the file's name up to the first dot]
    #[arg(long, value_name = "NAME")]
    pub measurement: Option<String>,
    /// Column with the time of a row: numbers, or dates such as 2026-11-21 08:00:00 (UTC, or with a
    /// zone) [default: the first that exists of ts, timestamp, time, datetime, date_time, _time and
    /// date, or else the only column that contains times]
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// Column with the date, if --time-column contains only the time of day.
    #[arg(long, value_name = "COLUMN")]
    date_column: Option<String>,
    /// Form of the times, as in strptime: %d/%m/%Y %H:%M:%S. A date and a time of day from two
    /// columns are joined by a space [default: the form that all times of the file have]
    #[arg(long, value_name = "FORM", value_parser = pattern, conflicts_with = "time_unit")]
    time_format: Option<String>,
    /// Unit of times that are numbers. Fractions are allowed [default: the unit in which all times
    /// are between 1990 and 2100, or else s]
    #[arg(long, value_enum)]
    time_unit: Option<TimeUnit>,
    /// Columns that are tags, separated by commas. Each combination of their values is a source, so
    /// a forgotten tag merges sources.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    tag_columns: Vec<String>,
    /// Columns that are fields, separated by commas [default: all that are neither time nor tag]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    field_columns: Option<Vec<String>>,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    pub tag: Vec<(String, String)>,
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
    /// Let rows replace earlier rows of the same source and time. The earlier values are lost.
    /// Without this flag, a file with such rows is not imported.
    #[arg(long)]
    pub replace: bool,
    /// Skip rows without a value. Without this flag, a file with such rows is not imported.
    #[arg(long)]
    pub allow_empty: bool,
    #[command(flatten)]
    pub rejects: RejectsFlag,
    #[command(flatten)]
    pub archive: Archive,
    /// Files to import, plain or compressed by gzip.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

impl Flags {
    /// Returns the roles of the columns.
    pub fn roles(&self) -> Roles {
        Roles {
            time: self.time_column.clone(),
            date: self.date_column.clone(),
            format: self.time_format.clone(),
            unit: self.time_unit.map(TimeUnit::unit),
            tags: self.tag_columns.clone(),
            fields: self.field_columns.clone(),
            types: self.types.iter().cloned().collect(),
            singles: self.target.is_directory(),
            missing: self.missing.clone(),
        }
    }
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
