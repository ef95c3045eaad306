//! Report of a benchmark: figures, tables and checks, as JSON and as Markdown.
//!
//! Every benchmark writes `NAME.json`. The page of results is made only from these files, so it
//! contains no figure that was not measured.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of the benchmarks, in the order in which the page lists them.
pub const BENCHMARKS: [&str; 30] = [
    "peers",
    "protocols",
    "queries",
    "embedded",
    "core",
    "core-lock",
    "bundles",
    "sensors",
    "churn",
    "crowd",
    "restart",
    "amplification",
    "merge-sim",
    "merge-writes",
    "merge-rate",
    "merge-latency",
    "soak",
    "soak-peers",
    "merge-figures",
    "simulate",
    "raid-matrix",
    "raid-heldout",
    "raid-phases",
    "raid-real",
    "raid-faults",
    "cluster-faults",
    "cluster-cost",
    "cluster-scale",
    "cluster-balance",
    "cluster-compaction",
];

/// Report of one benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the benchmark.
    pub name: String,
    /// Purpose of the benchmark, in one or two sentences.
    pub purpose: String,
    /// Command that was run.
    pub command: String,
    /// End of the run, UTC.
    pub taken_at: String,
    /// Machine of the run.
    pub machine: Machine,
    /// Versions of the programs, by name.
    pub versions: BTreeMap<String, String>,
    /// Notes that a reader needs to interpret the figures.
    pub notes: Vec<String>,
    /// Figures as tables.
    pub tables: Vec<Table>,
    /// Comparison of figures with their bounds.
    pub checks: Vec<Check>,
    /// All measurements.
    pub measured: Value,
}

/// Machine of a benchmark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Number of processors on which the kernel schedules.
    pub cores: usize,
    /// Version of the kernel.
    pub kernel: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Load average over the minute before the benchmark; 0 on an idle machine.
    pub load_before: f64,
}

/// Table of texts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each with one text per column.
    pub rows: Vec<Vec<String>>,
}

/// Relation to the bound that a good value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// At least the bound.
    #[serde(rename = ">=")]
    AtLeast,
    /// At most the bound.
    #[serde(rename = "<=")]
    AtMost,
    /// Less than the bound.
    #[serde(rename = "<")]
    Below,
}

/// Comparison of a figure with its bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    /// Name of the figure.
    pub name: String,
    /// Measured value; `None` if it was not measured.
    pub value: Option<f64>,
    /// Bound; `None` if the bound is another measurement that was not taken.
    pub bound: Option<f64>,
    /// True if the value meets the bound. Always false without a measurement.
    pub holds: bool,
    /// Relation of the value to the bound.
    pub relation: Relation,
    /// Unit of value and bound.
    pub unit: String,
}

impl Table {
    /// Creates an empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.iter().map(|column| column.to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// Returns the table as Markdown.
    pub fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule: Vec<String> = (0..self.columns.len())
            .map(|column| if column == 0 { "---" } else { "--:" }.to_string())
            .collect();
        let mut text = format!("**{}**\n\n{}{}", self.title, row(&self.columns), row(&rule));
        self.rows
            .iter()
            .for_each(|cells| text.push_str(&row(cells)));
        text
    }
}

impl Check {
    /// Compares a value with its bound.
    pub fn new(
        name: impl Into<String>,
        value: Option<f64>,
        relation: Relation,
        bound: Option<f64>,
        unit: &str,
    ) -> Check {
        let holds = match (value, bound) {
            (Some(value), Some(bound)) => match relation {
                Relation::AtLeast => value >= bound,
                Relation::AtMost => value <= bound,
                Relation::Below => value < bound,
            },
            _ => false,
        };
        Check {
            name: name.into(),
            value,
            bound,
            holds,
            relation,
            unit: unit.to_string(),
        }
    }
}

impl Relation {
    fn sign(self) -> &'static str {
        match self {
            Relation::AtLeast => "≥",
            Relation::AtMost => "≤",
            Relation::Below => "<",
        }
    }
}

impl Machine {
    /// Returns the properties of this machine.
    pub fn here() -> Machine {
        use procfs::Current;
        let cpu = procfs::CpuInfo::current().ok();
        let memory = procfs::Meminfo::current().ok();
        let load = procfs::LoadAverage::current().ok();
        Machine {
            cpu: cpu
                .and_then(|cpu| cpu.model_name(0).map(String::from))
                .unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            memory_bytes: memory.map_or(0, |memory| memory.mem_total),
            load_before: load.map_or(0.0, |load| f64::from(load.one)),
        }
    }

    fn describe(&self) -> String {
        format!(
            "{}, {} cores, {:.1} GB of memory, Linux {}, load average before: {:.2}",
            self.cpu,
            self.cores,
            self.memory_bytes as f64 / 1e9,
            self.kernel,
            self.load_before
        )
    }
}

impl Report {
    /// Creates an empty report for this machine and command.
    pub fn new(name: &str, purpose: &str) -> Report {
        Report {
            name: name.to_string(),
            purpose: purpose.to_string(),
            command: std::iter::once("seiner-bench".to_string())
                .chain(std::env::args().skip(1))
                .collect::<Vec<_>>()
                .join(" "),
            taken_at: String::new(),
            machine: Machine::here(),
            versions: BTreeMap::new(),
            notes: Vec::new(),
            tables: Vec::new(),
            checks: Vec::new(),
            measured: Value::Null,
        }
    }

    /// Returns the report as a section of the page.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.name, self.purpose);
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|(program, version)| format!("{program} {version}"))
            .collect();
        let _ = write!(
            text,
            "- Run: `{}`, {}\n- On: {}\n",
            self.command,
            self.taken_at,
            self.machine.describe()
        );
        if !versions.is_empty() {
            let _ = writeln!(text, "- Against: {}", versions.join(", "));
        }
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "- {note}");
        });
        for table in self.tables.iter().chain([&self.checks_table()]) {
            let _ = write!(text, "\n{}", table.markdown());
        }
        text
    }

    fn checks_table(&self) -> Table {
        let mut table = Table::new(
            "Figures demanded",
            &["figure", "measured", "demanded", "holds"],
        );
        for check in &self.checks {
            table.rows.push(vec![
                check.name.clone(),
                check.value.map_or("not measured".into(), |value| {
                    format!("{} {}", short(value), check.unit)
                }),
                check.bound.map_or("not measured".into(), |bound| {
                    format!("{} {} {}", check.relation.sign(), short(bound), check.unit)
                }),
                if check.holds { "yes" } else { "**no**" }.to_string(),
            ]);
        }
        table
    }

    /// Writes the JSON file, prints the section, and updates the page.
    pub fn finish(mut self, places: &OutputPaths) -> Result<()> {
        self.taken_at = jiff::Timestamp::now()
            .strftime("%Y-%m-%d %H:%M UTC")
            .to_string();
        fs::create_dir_all(&places.output)?;
        let path = places.output.join(format!("{}.json", self.name));
        fs::write(&path, serde_json::to_string_pretty(&self)? + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
        println!("{}", self.markdown());
        println!("Everything measured: {}", path.display());
        summarise(places)
    }
}

/// Destinations of results.
#[derive(Clone, Debug)]
pub struct OutputPaths {
    /// Directory of JSON files and generated data.
    pub output: PathBuf,
    /// Path of the page.
    pub page: PathBuf,
}

/// Makes the page from the existing JSON files. If a file is missing, as in a fresh clone, the page
/// keeps the section of that benchmark. Sections that are no benchmark's were written by hand and follow at the end.
pub fn summarise(places: &OutputPaths) -> Result<()> {
    let before = fs::read_to_string(&places.page).unwrap_or_default();
    let mut text = String::from(
        "# Results\n\nGenerated by the benchmarks (`make bench-NAME`); edits by hand are lost, except in the \
         sections after those of the benchmarks. Figures that miss their bounds are listed, too.\n",
    );
    for name in BENCHMARKS {
        match read(&places.output.join(format!("{name}.json")))? {
            Some(report) => {
                let _ = write!(text, "\n{}", report.markdown());
            }
            None => match section(&before, name) {
                Some(section) => {
                    let _ = write!(text, "\n{section}");
                }
                None => {
                    let _ = write!(text, "\n## {name}\n\nNot run yet: `make bench-{name}`.\n");
                }
            },
        }
    }
    let names = before.lines().filter_map(|line| line.strip_prefix("## "));
    for name in names.filter(|name| !BENCHMARKS.contains(name)) {
        let section = section(&before, name).unwrap_or_default();
        let _ = write!(text, "\n{section}");
    }
    fs::write(&places.page, text).with_context(|| format!("writing {}", places.page.display()))?;
    println!("The page: {}", places.page.display());
    Ok(())
}

/// Returns a section of the page, up to the next section.
fn section<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let begin = page.find(&format!("\n## {name}\n"))? + 1;
    let section = &page[begin..];
    let end = section.find("\n\n## ").map_or(section.len(), |end| end + 1);
    Some(&section[..end])
}

fn read(path: &Path) -> Result<Option<Report>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| {
            format!(
                "{} was written by another version; run its benchmark again",
                path.display()
            )
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Formats a number with three significant digits. Digits before the point are never cut.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Formats a cell of a table: a number, or a dash.
pub fn cell(value: Option<f64>) -> String {
    value.map_or("–".to_string(), short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_beyond_its_bound_or_without_a_value() {
        for (value, bound, holds) in [
            (Some(5.0), Some(5.0), true),
            (Some(4.9), Some(5.0), false),
            (None, Some(0.0), false),
            (Some(9.0), None, false),
        ] {
            assert_eq!(
                Check::new("x", value, Relation::AtLeast, bound, "").holds,
                holds
            );
        }
        assert!(!Check::new("x", Some(0.5), Relation::Below, Some(0.5), "s").holds);
        assert!(Check::new("x", Some(0.5), Relation::AtMost, Some(0.5), "s").holds);
    }

    #[test]
    fn the_page_lists_results_and_benchmarks_not_run() {
        let directory = tempfile::tempdir().unwrap();
        let places = OutputPaths {
            output: directory.path().join("out"),
            page: directory.path().join("RESULTS.md"),
        };
        let mut report = Report::new("restart", "How soon it answers.");
        report.checks.push(Check::new(
            "cold start",
            Some(0.75),
            Relation::Below,
            Some(0.5),
            "s",
        ));
        report.tables.push(Table {
            rows: vec![vec!["seiner".into(), "0.75".into()]],
            ..Table::new("Times", &["who", "s"])
        });
        report.finish(&places).unwrap();
        let page = fs::read_to_string(&places.page).unwrap();
        assert!(
            page.contains("| cold start | 0.75 s | < 0.50 s | **no** |"),
            "{page}"
        );
        assert!(page.contains("| seiner | 0.75 |"), "{page}");
        assert!(page.contains("Not run yet: `make bench-peers`"), "{page}");
        let page = format!("{page}\n## by hand\n\nA figure.\n");
        fs::write(&places.page, &page).unwrap();
        // A fresh clone contains only the page.
        let clone = OutputPaths {
            output: directory.path().join("clone"),
            page: places.page.clone(),
        };
        summarise(&clone).unwrap();
        assert_eq!(fs::read_to_string(&places.page).unwrap(), page);
        let json: Value =
            serde_json::from_slice(&fs::read(places.output.join("restart.json")).unwrap()).unwrap();
        assert_eq!(json["checks"][0]["holds"], false);
        assert_eq!(json["checks"][0]["bound"], 0.5);
    }
}
