//! `seiner import rrd`: imports round-robin databases of rrdtool.

use super::fault::Fault;
use super::flags::pair;
use super::outcome::{conclude, each_file};
use super::rejects::{Rejects, RejectsFlag, Reporter};
use super::run::stem;
use super::series::{constant, described};
use super::table::sink::TableSink;
use crate::failure::Failure;
use crate::progress;
use crate::target::{Archive, Target};
use anyhow::{Context, Result, bail, ensure};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, TimestampNanosecondArray};
use arrow_schema::{DataType, Schema, TimeUnit};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use seiner_wire::rrd::{RrdFile, decode};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Maximum bytes of a database, and of a dump.
const DATABASE_BYTES: u64 = 64 << 20;
const DUMP_BYTES: u64 = 512 << 20;

/// Begin of a database.
const MAGIC: &[u8] = b"RRD\0";

/// Maximum number of rows that are written together.
const BATCH_ROWS: usize = 1 << 16;

const NS_PER_S: i64 = 1_000_000_000;

/// Import round-robin databases of rrdtool: dumps in XML, or .rrd files.
///
/// The file's name up to the first dot is the measurement, and each data source is a field. A .rrd
/// file needs the program rrdtool, of the same architecture. Of several archives, the finest that
/// has a time is taken. Unknown values are left out. A file that cannot be read is reported; the
/// others are imported.
///
/// Examples:
///
///   rrdtool dump hall.rrd > hall.xml
///
///   seiner import rrd --data ./seiner-data hall.xml
#[derive(Args)]
pub struct Rrd {
    #[command(flatten)]
    target: Target,
    /// Measurement of all rows [default: the file's name up to the first dot]
    #[arg(long, value_name = "NAME")]
    measurement: Option<String>,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    /// Consolidation function of the archives to read.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Consolidation::Average)]
    consolidation: Consolidation,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    archive: Archive,
    /// Files to import: dumps, or .rrd files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Consolidation function: the meaning of a row that stands for several samples.
#[derive(Clone, Copy, ValueEnum)]
enum Consolidation {
    Average,
    Min,
    Max,
    Last,
}

/// Counts of values.
#[derive(Default)]
struct Counts {
    coarse: u64,
    unknown: u64,
}

impl Rrd {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        let mut rejects = self.rejects.create()?;
        let mut sink = TableSink::new(self.target.open_archive(self.archive.block_bytes)?);
        let mut counts = Counts::default();
        let bar = progress::over(self.files.len() as u64, "{bar:30} {pos}/{len} files");
        let failed = each_file(
            &self.files,
            PathBuf::as_path,
            &mut rejects,
            |path, rejects| {
                bar.inc(1);
                self.import(path, &mut sink, rejects, &bar, &mut counts)
            },
        );
        bar.finish_and_clear();
        let rows = sink.finish()?;
        let summary = format!(
            "{} rows imported, {} rejected; {failed} of {} files failed; {} values are of coarser archives; \
             {} unknown values left out",
            rows.taken,
            rows.rejected,
            self.files.len(),
            counts.coarse,
            counts.unknown
        );
        conclude(&summary, &rows, failed, rejects)
    }

    fn import(
        &self,
        path: &Path,
        sink: &mut TableSink,
        rejects: &mut Rejects,
        bar: &ProgressBar,
        counts: &mut Counts,
    ) -> Result<()> {
        let consolidation = match self.consolidation {
            Consolidation::Average => "AVERAGE",
            Consolidation::Min => "MIN",
            Consolidation::Max => "MAX",
            Consolidation::Last => "LAST",
        };
        let file = decode(&dump(path)?, consolidation)?;
        counts.coarse += file.coarse;
        counts.unknown += file.unknown;
        let measurement = self.measurement.clone().unwrap_or_else(|| stem(path));
        let name = path.display().to_string();
        let mut reporter = Reporter {
            rejects,
            bar,
            name: &name,
            noun: " row ",
        };
        let mut report = |row: u64, reason: &str| {
            let time = usize::try_from(row)
                .ok()
                .and_then(|row| file.rows.get(row.saturating_sub(1)));
            reporter.report(&Fault {
                line: row,
                reason: reason.to_string(),
                text: time
                    .map(|(time, values)| format!("{time} {values:?}"))
                    .unwrap_or_default(),
                ..Fault::default()
            });
        };
        for start in (0..file.rows.len()).step_by(BATCH_ROWS) {
            let batch = self.batch(&file, start, &measurement)?;
            let mut report = |row: u64, reason: &str| report(start as u64 + row, reason);
            let mut rows = sink.begin(&batch.schema())?;
            rows.take(&batch, &mut report)?;
            rows.flush(&mut report)?;
        }
        Ok(())
    }

    /// Builds the record batch of the rows from `start`, with a column for each data source.
    fn batch(&self, file: &RrdFile, start: usize, measurement: &str) -> Result<RecordBatch> {
        let rows = &file.rows[start..(start + BATCH_ROWS).min(file.rows.len())];
        let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
        let tags = self
            .tag
            .iter()
            .map(|(tag, value)| ("tag", tag.as_str(), value.as_str()));
        for (kind, name, text) in [("measurement", "measurement", measurement)]
            .into_iter()
            .chain(tags)
        {
            let array = constant(text, rows.len())?;
            fields.push(described(kind, name, array.data_type().clone()));
            arrays.push(array);
        }
        let times: Vec<i64> = rows.iter().map(|(time, _)| time * NS_PER_S).collect();
        let time_type = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        fields.push(described("time", "time", time_type));
        arrays.push(Arc::new(
            TimestampNanosecondArray::from(times).with_timezone("UTC"),
        ));
        for (column, name) in file.names.iter().enumerate() {
            let values: Float64Array = rows.iter().map(|(_, values)| values[column]).collect();
            fields.push(described("field", name, DataType::Float64));
            arrays.push(Arc::new(values));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

/// Returns the dump of a file: the file itself, or what rrdtool prints.
fn dump(path: &Path) -> Result<String> {
    let bytes = fs::metadata(path).context("the file cannot be read")?.len();
    ensure!(
        bytes <= DUMP_BYTES,
        "the file has {bytes} bytes, and at most {DUMP_BYTES} are read"
    );
    let content = fs::read(path).context("the file cannot be read")?;
    if !content.starts_with(MAGIC) {
        let text = String::from_utf8(content).unwrap_or_default();
        ensure!(
            text.contains("<rrd>"),
            "the file is neither a .rrd file nor a dump of rrdtool"
        );
        return Ok(text);
    }
    ensure!(
        bytes <= DATABASE_BYTES,
        "the .rrd file has {bytes} bytes, and at most {DATABASE_BYTES} are read"
    );
    // A path that begins with / is no flag.
    let path = fs::canonicalize(path).context("the file cannot be read")?;
    let output = Command::new("rrdtool").arg("dump").arg(&path).output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "a .rrd file needs the program rrdtool, which is not installed: install the package rrdtool, or import the \
             XML of `rrdtool dump` from the machine that has the file"
        ),
        output => output.context("rrdtool cannot be started")?,
    };
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "rrdtool dump failed: {}",
        message.trim()
    );
    String::from_utf8(output.stdout).context("rrdtool printed no dump")
}
