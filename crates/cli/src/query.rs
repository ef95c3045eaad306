//! `seiner query`: reads samples from a server or a directory.

use crate::failure::Failure;
use crate::figures::instant;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use crate::target::read_directory;
use anyhow::Context;
use clap::{Args, ValueEnum};
use seiner_model::{duration_text, rfc3339};
use seiner_server::query::{
    HINTS, LEVELS, Outcome, Parameters, QueryPlan, TRUNCATED, levels, write_answer,
};
use seiner_wire::answer::{AnswerLevel, read_levels};
use std::io::{self, BufWriter, IsTerminal, Read, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

/// Query samples from a server or a directory.
///
/// Examples:
///
///   seiner query 'host_cpu{core="all"}' --from -5m --fields usage
///
///   seiner query 'cpu{host=~"web.*"}' --from -1d --step 10m --aggregate mean,max --format csv
///
///   seiner query 'room{}' --latest
///
/// If old samples were replaced by roll-ups of the retention class (`seiner help serve`,
/// `--class`), the answer contains one row per step: the mean, at the start of the step. Notes on
/// standard error state the intervals of roll-ups, the series that --limit left out, names that do
/// not exist, and the times for which samples exist if the interval has none.
#[derive(Args)]
pub struct Query {
    /// Selector of the sources: a measurement, and conditions on tags. The operators are =, !=, =~
    /// and !~ (regular expressions over whole values) and ^= (begins with). `{}` selects all sources.
    selector: String,
    /// Only these fields, separated by commas.
    #[arg(long, value_name = "NAMES")]
    fields: Option<String>,
    /// Earliest time: first (the first sample), a date (2026-11-21, 2026-11-21 08:00:00, 2026-11-21T08:00:00+01:00), now, an
    /// offset such as -1h, or a number since 1970. The unit of a number is s, ms, us or ns: the one
    /// that gives a time from 1990 to 2100, otherwise ns. A year alone is an error. Without this
    /// option, -1h; with --latest, samples of any age are found.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Latest time, included. Same notation as --from.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "now",
        allow_hyphen_values = true
    )]
    to: String,
    /// Return only the latest sample of each series. It is found without a scan of the samples.
    #[arg(long, conflicts_with_all = ["step", "points", "aggregate", "shape"])]
    latest: bool,
    /// Length of the buckets to aggregate over, such as 10s. Without it, the answer contains
    /// samples.
    #[arg(long, value_name = "DURATION")]
    step: Option<String>,
    /// Maximum number of buckets. Chooses the shortest round length for --step that does not exceed
    /// this number.
    #[arg(long, value_name = "COUNT", conflicts_with = "step")]
    points: Option<String>,
    /// Aggregates of a bucket: count, sum, min, max, first, last, mean, separated by commas.
    #[arg(long, value_name = "LIST")]
    aggregate: Option<String>,
    /// Maximum number of series.
    #[arg(long, value_name = "COUNT")]
    limit: Option<String>,
    /// Format of the answer. Arrow is an IPC stream, for other programs.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Shape of the answer: long has one value per row, with the name of its field; wide has the rows as they were
    /// written, with one column per tag and per field.
    #[arg(long, value_name = "SHAPE", value_parser = ["long", "wide"])]
    shape: Option<String>,
    #[command(flatten)]
    access: ServerAccess,
    /// Query the store in this directory instead of a server. Nothing in the directory changes. A
    /// server may have the directory open: the answer then contains the samples that the server
    /// wrote to the disk so far.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned columns for people.
    Table,
    Json,
    Csv,
    Arrow,
}

impl Query {
    /// Prints the answer.
    pub fn run(self) -> Result<(), Failure> {
        if self.format == Format::Arrow && stdout().is_terminal() {
            return Err(Failure::Usage(
                "an Arrow stream is not text; send it to a file or a program".to_string(),
            ));
        }
        let mut out = BufWriter::with_capacity(64 << 10, stdout().lock());
        match (&self.data, self.format) {
            (Some(_), Format::Table) => {
                let mut csv = Vec::new();
                self.ask_directory(&mut csv)?;
                table(csv.as_slice(), &mut out)?;
            }
            (Some(_), _) => self.ask_directory(&mut out)?,
            (None, format) => {
                let path = match self.latest {
                    true => "/api/v1/latest",
                    false => "/api/v1/query",
                };
                let headers = [LEVELS, TRUNCATED, HINTS];
                let ([levels, truncated, hints], mut answer) = Remote::of(&self.access)?.get_with(
                    path,
                    &self.parameters().pairs(),
                    headers,
                )?;
                self.report_levels(&read_levels(&levels.unwrap_or_default()));
                self.tell_outcome(&Outcome {
                    truncated: truncated.is_some(),
                    hints: serde_json::from_str(&hints.unwrap_or_default()).unwrap_or_default(),
                });
                match format {
                    Format::Table => table(answer, &mut out)?,
                    _ => {
                        io::copy(&mut answer, &mut out)?;
                    }
                }
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Prints notes about intervals with roll-ups instead of samples. JSON and Arrow contain this information
    /// in the answer.
    fn report_levels(&self, levels: &[AnswerLevel]) {
        if matches!(self.format, Format::Json | Format::Arrow) {
            return;
        }
        for level in levels {
            let to = instant(level.to);
            let step = duration_text(level.step_ns);
            let from = match level.from {
                i64::MIN => String::new(),
                from => format!("from {} ", instant(from)),
            };
            eprintln!("note: {from}to {to} rows of {step} replace expired samples");
        }
    }

    fn tell_outcome(&self, outcome: &Outcome) {
        if outcome.truncated {
            let limit = self.limit.as_deref().unwrap_or_default();
            eprintln!("note: only {limit} series are shown, there are more; raise --limit");
        }
        for hint in &outcome.hints {
            eprintln!("note: {hint}");
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters {
            select: Some(self.selector.clone()),
            fields: self.fields.clone(),
            from: self.from.clone(),
            to: Some(self.to.clone()),
            step: self.step.clone(),
            points: self.points.clone(),
            aggregate: self.aggregate.clone(),
            limit: self.limit.clone(),
            format: Some(self.notation().to_string()),
            times: None,
            // The printed note replaces the marker line.
            marker: Some("false".to_string()),
            shape: self.shape.clone(),
        }
    }

    /// Returns the format to request. A table is made from CSV.
    fn notation(&self) -> &'static str {
        match self.format {
            Format::Json => "json",
            Format::Csv | Format::Table => "csv",
            Format::Arrow => "arrow",
        }
    }

    fn ask_directory(&self, out: &mut impl Write) -> Result<(), Failure> {
        let read = match self.latest {
            true => QueryPlan::read_latest,
            false => QueryPlan::read,
        };
        let plan = read(&self.parameters(), seiner_server::ingest::now())
            .map_err(|rejection| Failure::Usage(rejection.to_string()))?;
        let store = read_directory(
            self.data
                .as_deref()
                .expect("this function is called only with a directory"),
        )?;
        self.report_levels(&levels(&*store, &plan));
        let outcome = write_answer(&*store, &plan, out, Arc::new(|| false))?;
        self.tell_outcome(&outcome);
        Ok(())
    }
}

/// Prints CSV as aligned columns, with times as RFC 3339. The first rows determine the widths, so a long answer
/// is not held in memory.
fn table(csv: impl Read, out: &mut impl Write) -> anyhow::Result<()> {
    const ROWS_FOR_WIDTHS: usize = 1000;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(csv);
    let records = reader.records();
    let mut time = None;
    let mut records = records.map(|record| {
        let record = record?;
        let Some(time) = time else {
            time = record.iter().position(|column| column == "time");
            return Ok(record);
        };
        let cells = record.iter().enumerate();
        Ok(cells.map(|(at, text)| cell(text, at == time)).collect())
    });
    let first: Vec<csv::StringRecord> = records
        .by_ref()
        .take(ROWS_FOR_WIDTHS)
        .collect::<Result<_, csv::Error>>()
        .context("the answer is incomplete")?;
    let columns = first.iter().map(csv::StringRecord::len).max().unwrap_or(0);
    let width = |column| {
        first
            .iter()
            .filter_map(|record| record.get(column))
            .map(|text| text.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    for record in first.into_iter().map(Ok).chain(records) {
        let record = record.context("the answer is incomplete")?;
        let cells: Vec<String> = record
            .iter()
            .zip(&widths)
            .map(|(text, width)| format!("{text:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn cell(text: &str, is_time: bool) -> String {
    match text.parse() {
        Ok(ns) if is_time => rfc3339(ns),
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn times_in_tables_are_dates_in_utc() {
        let mut out = Vec::new();
        let csv = "measurement,field,time,value\nm,time,1795408380500000000,1795408380\n";
        table(csv.as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.ends_with("\nm            time   2026-11-23T04:33:00.5Z  1795408380\n"),
            "{text}"
        );
    }

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        table(
            "measurement,value\ncpu,1\n\"a, b\",22\n".as_bytes(),
            &mut out,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "measurement  value\ncpu          1\na, b         22\n"
        );
    }
}
