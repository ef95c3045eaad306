//! Results of a run: settings, machine and all cells with their samples, as JSON and CSV.

use crate::blocks::Statistics;
use crate::job::Job;
use crate::machine::Machine;
use crate::place::Place;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Version of the format of `results.json`. Other versions are refused.
pub const VERSION: u32 = 1;

/// Settings of a cell, by name.
pub type Settings = BTreeMap<String, serde_json::Value>;

/// Method of measurement of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// This kernel, on a directory, a loop device or a device.
    #[default]
    Native,
    /// Another kernel in an emulated machine.
    Guest,
    /// Requests counted on an emulated disk; seconds are computed.
    Model,
}

impl Backend {
    /// Returns true for [`Backend::Native`].
    pub fn is_native(&self) -> bool {
        *self == Backend::Native
    }

    /// Returns the factor by which a run takes longer than a native one, for estimates. A guest's
    /// instructions are emulated one by one: copying files took 8 times as long, and 12 times as
    /// long beside other work.
    pub fn pace(self) -> f64 {
        match self {
            Backend::Guest => 10.0,
            Backend::Native | Backend::Model => 1.0,
        }
    }

    /// Returns the reason why a file system is not available with this backend; `None` if it is.
    pub fn obstacle(self, kind: &str) -> Option<String> {
        match self {
            Backend::Guest => crate::guest::obstacle(kind),
            _ => crate::native::obstacle(kind),
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Backend::Native => "native",
            Backend::Guest => "guest",
            Backend::Model => "model",
        })
    }
}

/// Results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// Description of the run.
    pub job: Job,
    /// Method of measurement.
    pub backend: Backend,
    /// Name and version of the program that measured.
    pub program: String,
    /// Machine that measured.
    pub machine: Machine,
    /// Disk under test, if there is one.
    pub place: Option<Place>,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// Measured cells, in the order of measurement.
    pub cells: Vec<Cell>,
    /// Cells that were not measured, in the order of the settings.
    pub missing: Vec<Missing>,
}

/// A cell that could not be measured on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the cell.
    pub name: String,
    /// Reason, with a remedy if there is one.
    pub why: String,
}

/// One measurement of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Name, unique in the run.
    pub name: String,
    /// Settings of the measurement.
    pub settings: Settings,
    /// Measured figures by name; the name contains the unit.
    pub figures: BTreeMap<String, f64>,
    /// Figures over time.
    pub lines: Vec<Line>,
    /// Block operations during the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Statistics>,
    /// Notes that a reader needs to interpret the figures.
    pub notes: Vec<String>,
    /// Start of the measurement, RFC 3339.
    pub started: String,
    /// Duration with preparation, s.
    pub took_s: f64,
    /// Load average of the machine in the minute before.
    pub load: f64,
}

/// A figure over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name with the unit.
    pub name: String,
    /// Pairs of x and value. x is seconds since the load began, except for two lines: percent of
    /// the segments in `live share by segment`, and the rate in `passed at MB/s`.
    pub points: Vec<(f64, f64)>,
}

impl Cell {
    /// Returns a figure by name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// Returns a setting by name, as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.settings.get(name)?.as_f64()
    }

    /// Returns a setting by name, as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name)?.as_str()
    }

    /// Stores a figure. Values that are not finite are left out.
    pub fn tell(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_string(), value);
        }
    }
}

impl Results {
    /// Returns the name of the experiment.
    pub fn experiment(&self) -> &'static str {
        self.job.work.name()
    }

    /// Reads the results of a run from its directory or from its `results.json`.
    ///
    /// # Errors
    /// The file is missing, is not a result of the lab, or has another [`VERSION`].
    pub fn read(path: &Path) -> anyhow::Result<Results> {
        let file = if path.is_dir() {
            path.join("results.json")
        } else {
            path.to_owned()
        };
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "{} was not read; name the directory of a run",
                file.display()
            )
        })?;
        let results: Results = serde_json::from_str(&text)
            .with_context(|| format!("{} is no run of the lab", file.display()))?;
        if results.version != VERSION {
            anyhow::bail!(
                "{} has version {}, this program reads version {VERSION}",
                file.display(),
                results.version
            );
        }
        Ok(results)
    }

    /// Writes `results.json`, `results.csv`, `lines.csv` and `report.html` into a directory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let put = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("{} was not written", path.display()))
        };
        put("results.json", serde_json::to_string_pretty(self)? + "\n")?;
        put("results.csv", self.figures_csv())?;
        put("lines.csv", self.lines_csv())?;
        put("report.html", crate::report::page(self))
    }

    /// Returns CSV with one line per cell: name, settings, figures.
    fn figures_csv(&self) -> String {
        let names = |of: fn(&Cell) -> Vec<String>| -> Vec<String> {
            let mut names: Vec<String> = self.cells.iter().flat_map(of).collect();
            names.sort();
            names.dedup();
            names
        };
        let settings = names(|cell| cell.settings.keys().cloned().collect());
        let figures = names(|cell| cell.figures.keys().cloned().collect());
        let head = [
            "cell".to_string(),
            "started".to_string(),
            "load".to_string(),
        ];
        let mut text = row(head
            .into_iter()
            .chain(settings.clone())
            .chain(figures.clone()));
        for cell in &self.cells {
            let start = [
                cell.name.clone(),
                cell.started.clone(),
                cell.load.to_string(),
            ];
            let set = settings.iter().map(|name| match cell.settings.get(name) {
                Some(serde_json::Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            });
            let told = figures.iter().map(|name| {
                cell.figure(name)
                    .map(|value| value.to_string())
                    .unwrap_or_default()
            });
            text += &row(start.into_iter().chain(set).chain(told));
        }
        text
    }

    /// Returns CSV with one line per sample.
    fn lines_csv(&self) -> String {
        let mut text = row(["cell", "line", "second", "value"].map(String::from));
        for cell in &self.cells {
            for line in &cell.lines {
                for (second, value) in &line.points {
                    let fields = [
                        cell.name.clone(),
                        line.name.clone(),
                        second.to_string(),
                        value.to_string(),
                    ];
                    text += &row(fields);
                }
            }
        }
        text
    }
}

/// Returns a line of CSV. Fields with commas, quotes or line breaks are quoted.
fn row(fields: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<String> = fields
        .into_iter()
        .map(|field| {
            if field.contains([',', '"', '\n']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field
            }
        })
        .collect();
    quoted.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        let fields = ["a", "b,c", "say \"x\""].map(String::from);
        assert_eq!(row(fields), "a,\"b,c\",\"say \"\"x\"\"\"\n");
    }

    #[test]
    fn what_is_no_number_is_not_told() {
        let mut cell = Cell::default();
        cell.tell("MB/s", f64::NAN);
        cell.tell("operations", 3.0);
        assert_eq!(cell.figures.len(), 1);
        assert_eq!(cell.figure("operations"), Some(3.0));
    }

    #[test]
    fn figures_are_read_as_they_were_written() {
        let mut cell = Cell::default();
        for figure in [1_753.625_479_175_235_3, 1_732.068_617_590_250_1] {
            cell.tell("MB/s", figure);
            let kept = serde_json::to_string(&cell).unwrap();
            let read: Cell = serde_json::from_str(&kept).unwrap();
            assert_eq!(read.figure("MB/s"), Some(figure));
        }
    }
}
