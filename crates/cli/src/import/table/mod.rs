//! `seiner import parquet` and `seiner import arrow`: imports files of columns.
//!
//! All files are opened and their columns are checked before any row is stored.

mod convert;
mod files;
mod mapping;
mod messages;
mod reader;
pub mod sink;
#[cfg(test)]
pub mod tests;

use super::fault::Fault;
use super::flags::{TimeUnit, pair};
use super::outcome::{conclude, each_file, summary};
use super::rejects::{Rejects, RejectsFlag, Reporter};
use crate::failure::Failure;
use crate::progress;
use crate::target::{Archive, Target};
use anyhow::Context;
use clap::Args;
use mapping::{Mapping, Wanted};
use reader::Format;
pub use sink::TableSink;
use std::io::{self, Write, stdout};
use std::path::PathBuf;

/// Import files of Parquet, such as those of `seiner export`.
///
/// Each column is the time, a tag, or a field. Files of `seiner export` need no flags. In other
/// files, dictionaries of texts are tags, and columns that are neither time nor tag are fields.
/// A missing value is no sample. The command checks the columns of all files before it stores any
/// row.
///
/// Examples:
///
///   seiner import parquet ./files
///
///   seiner import parquet --data ./seiner-data --measurement wind --tag-columns turbine scada.parquet
#[derive(Args)]
pub struct Parquet {
    #[command(flatten)]
    flags: Flags,
}

/// Import files or streams of Arrow, such as those of `seiner export --format arrow`.
///
/// The columns and flags are those of `seiner import parquet`. Files may be compressed by LZ4 or
/// Zstandard, such as those of pandas (`to_feather`).
#[derive(Args)]
pub struct Arrow {
    #[command(flatten)]
    flags: Flags,
}

impl Parquet {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        self.flags.run(Format::Parquet)
    }
}

impl Arrow {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        self.flags.run(Format::Arrow)
    }
}

// Not a doc comment: it would remove the descriptions of the commands from their help.
#[derive(Args)]
struct Flags {
    #[command(flatten)]
    target: Target,
    /// Show the columns with their roles and types. Stores nothing, and needs neither a server nor
    /// a directory.
    #[arg(long)]
    dry_run: bool,
    /// Measurement of all rows [default: the one that the file, its column `measurement` or its
    /// folder measurement=NAME states, or else the file's name up to the first dot]
    #[arg(long, value_name = "NAME")]
    measurement: Option<String>,
    /// Column with the time of a row: timestamps, or integers with --time-unit [default: the first
    /// that exists of ts, timestamp, time, datetime, date_time, _time and date, or the only column
    /// of timestamps]
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// Unit of times that are integers.
    #[arg(long, value_enum)]
    time_unit: Option<TimeUnit>,
    /// Columns that are tags, separated by commas: texts, integers or booleans. NAME of a folder
    /// NAME=VALUE is possible as well [default: dictionaries of texts]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    tag_columns: Option<Vec<String>>,
    /// Columns that are fields, separated by commas [default: all that are neither time nor tag]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    field_columns: Option<Vec<String>>,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    archive: Archive,
    /// Files to import, or folders with files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// File with the meaning of its columns.
struct File {
    path: PathBuf,
    mapping: Mapping,
}

impl Flags {
    fn run(self, format: Format) -> Result<(), Failure> {
        let files = self.files(format)?;
        if self.dry_run {
            return Ok(show(&files)?);
        }
        for note in files.iter().flat_map(|file| &file.mapping.notes).take(10) {
            eprintln!("note: {note}");
        }
        let mut rejects = self.rejects.create()?;
        let mut sink = TableSink::new(self.target.open_archive(self.archive.block_bytes)?);
        let failed = each_file(
            &files,
            |file| &file.path,
            &mut rejects,
            |file, rejects| import(file, format, &mut sink, rejects),
        );
        let counts = sink.finish()?;
        let summary = summary(&counts, failed, files.len());
        conclude(&summary, &counts, failed, rejects)
    }

    /// Opens all files and finds the meaning of their columns.
    fn files(&self, format: Format) -> Result<Vec<File>, Failure> {
        let wanted = Wanted {
            time: self.time_column.clone(),
            unit_ns: self.time_unit.map(|unit| unit.unit().1),
            tags: self.tag_columns.clone(),
            fields: self.field_columns.clone(),
            measurement: self.measurement.clone(),
            constants: self.tag.clone(),
        };
        let mut files = Vec::new();
        for path in files::list(&self.files, format)? {
            let name = path.display();
            let schema = format.schema(&path).with_context(|| name.to_string())?;
            let mapping = Mapping::find(&schema, &wanted, &files::path_names(&path))
                .map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
            files.push(File { path, mapping });
        }
        Ok(files)
    }
}

fn import(
    file: &File,
    format: Format,
    sink: &mut TableSink,
    rejects: &mut Rejects,
) -> anyhow::Result<()> {
    let name = file.path.display().to_string();
    let length = file.path.metadata()?.len();
    let bar = progress::bytes(Some(length), &name);
    let mut reporter = Reporter {
        rejects,
        bar: &bar,
        name: &name,
        noun: " row ",
    };
    let mut report = |row: u64, reason: &str| {
        reporter.report(&Fault {
            line: row,
            reason: reason.to_string(),
            ..Fault::default()
        });
    };
    let mapping = &file.mapping;
    let mut rows = sink.begin(&mapping.schema)?;
    let read = format.read(&file.path, &mapping.indices(), &bar, &mut |batch| {
        rows.take(&mapping.apply(&batch)?, &mut report)
    });
    let sent = rows.flush(&mut report);
    bar.finish_and_clear();
    read.and(sent)
}

/// Prints the columns of all files.
fn show(files: &[File]) -> io::Result<()> {
    let mut out = stdout().lock();
    for File { path, mapping } in files {
        writeln!(out, "{}:", path.display())?;
        for (kind, name, text) in &mapping.constants {
            match *kind {
                "measurement" => writeln!(out, "  measurement  {text}")?,
                kind => writeln!(out, "  {kind:11}  {name} = {text}")?,
            }
        }
        for (column, field) in mapping.columns.iter().zip(mapping.schema.fields()) {
            writeln!(
                out,
                "  {:11}  {}  {}",
                column.kind,
                column.name,
                field.data_type()
            )?;
        }
        for note in &mapping.notes {
            writeln!(out, "  note: {note}")?;
        }
    }
    Ok(())
}
