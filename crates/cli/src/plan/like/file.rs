//! Samples of a CSV file.

use crate::failure::Failure;
use crate::import::comma::Csv;
use crate::source;
use anyhow::Context;
use clap::{Args, Parser};
use seiner_plan::{Recording, scratch_store};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// Maximum number of bytes of text that are read of a file.
const MOST_BYTES: u64 = 64 << 20;

// Flags. Not a doc comment: it would replace the description of the command in its help.
#[derive(Args)]
#[command(next_help_heading = "Columns of a CSV file of --like, as in `seiner import csv`")]
pub struct CsvColumns {
    /// Columns that are tags, separated by commas [default: the columns of texts]
    #[arg(long, value_name = "COLUMNS", requires = "like")]
    tag_columns: Option<String>,
    /// Column with the time of a row.
    #[arg(long, value_name = "COLUMN", requires = "like")]
    time_column: Option<String>,
    /// Unit of times that are numbers: s, ms, us or ns.
    #[arg(long, value_name = "UNIT", requires = "like")]
    time_unit: Option<String>,
    /// Texts that denote a missing value, separated by commas.
    #[arg(
        long,
        value_name = "TEXTS",
        requires = "like",
        allow_hyphen_values = true
    )]
    missing: Option<String>,
}

/// Command line of an import.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct ImportLine {
    #[command(flatten)]
    csv: Csv,
}

/// Reads samples of the first 64 MiB of a file.
///
/// # Errors
/// If the file cannot be read, or a column has no meaning.
pub fn read(path: &Path, columns: &CsvColumns) -> Result<Recording, Failure> {
    let directory = tempfile::tempdir().context("no temporary directory was made")?;
    let name = path.file_name().unwrap_or_default();
    let beginning = directory.path().join(name).with_extension("");
    copy_beginning(path, &beginning)?;
    let tags = match &columns.tag_columns {
        Some(tags) => tags.clone(),
        None => texts(&beginning, columns)?,
    };
    let store = scratch_store()?;
    import(&beginning, columns, &tags)?.fill(store.clone())?;
    Ok(Recording::read(&name.to_string_lossy(), &*store, None)?)
}

/// Returns the columns of texts, separated by commas.
fn texts(path: &Path, columns: &CsvColumns) -> Result<String, Failure> {
    let tags = import(path, columns, "")?.text_columns()?.join(",");
    if !tags.is_empty() {
        eprintln!("note: tags are the columns {tags}; choose others by --tag-columns");
    }
    Ok(tags)
}

/// Returns an import of a file.
fn import(path: &Path, columns: &CsvColumns, tags: &str) -> Result<Csv, Failure> {
    let mut line: Vec<OsString> = vec!["--replace".into(), "--allow-empty".into()];
    let given = [
        ("--tag-columns", Some(tags).filter(|tags| !tags.is_empty())),
        ("--time-column", columns.time_column.as_deref()),
        ("--time-unit", columns.time_unit.as_deref()),
        ("--missing", columns.missing.as_deref()),
    ];
    for (flag, text) in given {
        if let Some(text) = text {
            line.push(format!("{flag}={text}").into());
        }
    }
    line.push(path.into());
    let parsed = ImportLine::try_parse_from(line);
    Ok(parsed
        .map_err(|error| Failure::Usage(error.to_string()))?
        .csv)
}

/// Copies the beginning of a file, decompressed, up to the end of a line.
fn copy_beginning(path: &Path, to: &Path) -> anyhow::Result<()> {
    let source = source::open(path)?;
    let mut reader = BufReader::new(source.reader);
    let mut file = std::fs::File::create(to).context("no temporary file was made")?;
    let mut copied = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .read_until(b'\n', &mut line)
            .with_context(|| format!("{} cannot be read", source.name))?;
        copied += read as u64;
        if read == 0 || copied > MOST_BYTES {
            break;
        }
        file.write_all(&line)
            .context("the temporary file cannot be written")?;
    }
    source.bar.finish_and_clear();
    if copied > MOST_BYTES {
        eprintln!("note: only the first 64 MiB of {} are read", source.name);
    }
    Ok(())
}
