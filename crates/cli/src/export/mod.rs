//! `seiner export`: writes rows into files of Parquet or Arrow, one file per measurement and day.

mod day;
mod file;
mod folder;
mod layout;
mod origin;
#[cfg(test)]
mod tests;

use crate::failure::Failure;
use crate::progress;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use crate::target::read_directory;
use anyhow::Context;
use clap::Args;
use day::{Day, days_with_rows};
use file::{DayFile, Format, Written};
use folder::{Chosen, Folder, is_over};
pub use origin::{Origin, Selection};
use seiner_model::{Interval, Selector, parse_duration, parse_moment};
use seiner_server::ingest::now;
use std::path::PathBuf;
use std::time::Duration;

/// Number of attempts to read from a server, which may be too busy, or get a new field in between.
const ATTEMPTS: usize = 3;

/// Export rows into files of Parquet or Arrow, one file per measurement and day.
///
/// The folder gets the files measurement=NAME/day=2026-11-27/rows.parquet, which DuckDB, pandas,
/// polars and others read as one data set. Days are those of UTC. A file has the column `time`, a
/// column for each tag and a column for each field, with the rows as they were written. Run the
/// command again to continue an export, or to add new days: files of days that were over are not
/// written again. `seiner import parquet` reads the files.
///
/// Examples:
///
///   seiner export ./files --select 'cpu{host=~"web.*"}' --from 2026-11-01
///
///   seiner export ./files --data ./seiner-data --format arrow
#[derive(Args)]
pub struct Export {
    /// Folder of the files. It is created if it is missing.
    directory: PathBuf,
    /// Selector of the sources, as in `seiner query`.
    #[arg(long, value_name = "SELECTOR", default_value = "{}")]
    select: String,
    /// Only these fields, separated by commas.
    #[arg(long, value_name = "NAMES")]
    fields: Option<String>,
    /// Time on the first day, as in `seiner query`. Days are exported as a whole [default: the first sample]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Time on the last day [default: the last sample]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Format of the files.
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
    /// Time by which samples may arrive late. The file of a day is written again by the next run if
    /// it was written before the day had ended this long ago.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    late: String,
    /// Write the files of all selected days again.
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    access: ServerAccess,
    /// Export the store in this directory instead of a server. Nothing in the directory changes. A
    /// server may have the directory open: samples that are only in its memory are missing then.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
}

/// Arguments after parsing.
struct Plan {
    selector: Selector,
    days: (Day, Day),
    late_ns: i64,
}

/// Counts of an export.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    files: u64,
    rows: u64,
    /// Files that were finished before.
    kept: u64,
    /// Days that failed.
    failed: u64,
    /// Files of days that may still change.
    changing: u64,
    /// Files with rows of roll-ups.
    with_levels: u64,
}

impl Export {
    /// Runs the export.
    pub fn run(self) -> Result<(), Failure> {
        let plan = self.plan().map_err(Failure::Usage)?;
        let origin = match &self.data {
            Some(directory) => Origin::Directory(read_directory(directory)?),
            None => Origin::Server(Remote::of(&self.access)?),
        };
        let counts = self.export(&plan, &origin)?;
        self.report(&counts);
        match counts.failed {
            0 => Ok(()),
            _ => Err(Failure::Rejected),
        }
    }

    fn export(&self, plan: &Plan, origin: &Origin) -> Result<Counts, Failure> {
        // Before the folder is created, so that a wrong address leaves nothing.
        let measurements = origin.measurements(&plan.selector)?;
        let chosen = Chosen {
            select: match plan.selector.to_string() {
                all if all.is_empty() => "{}".to_string(),
                text => text,
            },
            fields: self.fields.clone(),
            format: self.format.name().to_string(),
        };
        let folder = Folder::open(&self.directory, &chosen, self.format)?;
        let mut counts = Counts::default();
        let days = self.days(plan, origin, &folder, measurements, &mut counts)?;
        self.write(plan, origin, &folder, &days, &mut counts);
        Ok(counts)
    }

    fn plan(&self) -> Result<Plan, String> {
        let time = |flag: &str, text: &Option<String>, none: i64| match text {
            Some(text) => parse_moment(text, now())
                .map(|moment| moment.ns)
                .map_err(|error| format!("{flag}: {error}")),
            None => Ok(none),
        };
        let from = time("--from", &self.from, i64::MIN)?;
        let to = time("--to", &self.to, i64::MAX)?;
        if from > to {
            return Err("--from is after --to; exchange them".to_string());
        }
        Ok(Plan {
            selector: Selector::parse(&self.select).map_err(|error| error.to_string())?,
            days: (Day::of(from), Day::of(to)),
            late_ns: parse_duration(&self.late).map_err(|error| format!("--late: {error}"))?,
        })
    }

    /// Returns the measurements with the days to write, ascending. Counts the days whose files are finished.
    fn days(
        &self,
        plan: &Plan,
        origin: &Origin,
        folder: &Folder,
        measurements: Vec<String>,
        counts: &mut Counts,
    ) -> Result<Vec<(String, Day)>, Failure> {
        let mut all = Vec::new();
        for measurement in measurements {
            let (first, last) = plan.days;
            let days = days_with_rows(first, last, |interval| {
                let selection = self.selection(plan, &measurement, interval);
                with_attempts(origin, || origin.has_rows(&selection))
            });
            for day in
                days.with_context(|| format!("the days of {measurement:?} were not found"))?
            {
                match !self.again && folder.is_final(&measurement, day, plan.late_ns) {
                    true => counts.kept += 1,
                    false => all.push((measurement.clone(), day)),
                }
            }
        }
        Ok(all)
    }

    fn selection<'a>(
        &'a self,
        plan: &'a Plan,
        measurement: &'a str,
        interval: Interval,
    ) -> Selection<'a> {
        Selection {
            selector: &plan.selector,
            fields: self.fields.as_deref(),
            measurement,
            interval,
        }
    }

    /// Writes the files. A day that fails is reported, and the others are written, unless the source no longer answers.
    fn write(
        &self,
        plan: &Plan,
        origin: &Origin,
        folder: &Folder,
        days: &[(String, Day)],
        counts: &mut Counts,
    ) {
        let template = "{msg} {bar:30} {pos}/{len} files {eta} left";
        let bar = progress::over(days.len() as u64, template);
        for (measurement, day) in days {
            bar.set_message(format!("{measurement} {}", day.name()));
            let selection = self.selection(plan, measurement, day.interval());
            let begun = now();
            match self.write_day(origin, folder, &selection, *day) {
                Ok(written) => {
                    counts.files += u64::from(written.rows > 0);
                    counts.rows += written.rows;
                    counts.with_levels += u64::from(written.has_levels);
                    let changing = written.rows > 0 && !is_over(*day, begun, plan.late_ns);
                    counts.changing += u64::from(changing);
                }
                Err(error) => {
                    counts.failed += 1;
                    let place = format!("{measurement} {}", day.name());
                    bar.suspend(|| eprintln!("{place}: {error:#}"));
                    if !origin.is_alive() {
                        break;
                    }
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
    }

    fn write_day(
        &self,
        origin: &Origin,
        folder: &Folder,
        selection: &Selection<'_>,
        day: Day,
    ) -> anyhow::Result<Written> {
        let path = folder.of_day(selection.measurement, day)?;
        with_attempts(origin, || {
            let mut file = DayFile::new(self.format, &path, selection.measurement, now());
            origin.rows(selection, &mut |batch| file.write(&batch))?;
            file.finish()
        })
    }

    fn report(&self, counts: &Counts) {
        eprintln!(
            "{} rows in {} files written to {}, {} files finished before",
            counts.rows,
            counts.files,
            self.directory.display(),
            counts.kept
        );
        if counts.changing > 0 {
            eprintln!(
                "note: {} of the files are of days that may still change; the next run writes them again",
                counts.changing
            );
        }
        if counts.with_levels > 0 {
            eprintln!(
                "note: {} of the files have rows of roll-ups in place of expired samples",
                counts.with_levels
            );
        }
        if counts.failed > 0 {
            eprintln!(
                "{} days were not exported; run the command again to continue",
                counts.failed
            );
        }
    }
}

/// Calls a function that reads from a source. Calls the function again if a server fails.
fn with_attempts<T>(
    origin: &Origin,
    mut read: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let attempts = match origin {
        Origin::Directory(_) => 1,
        Origin::Server(_) => ATTEMPTS,
    };
    for _ in 1..attempts {
        match read() {
            Ok(found) => return Ok(found),
            Err(_) => crate::time::sleep(Duration::from_secs(1)),
        }
    }
    read()
}
