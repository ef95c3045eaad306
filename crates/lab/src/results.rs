//! What a run answers: settings, machine, every cell with every sample; as JSON and as CSV.

use crate::blocks::Statistics;
use crate::job::Job;
use crate::machine::Machine;
use crate::place::Place;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The version of the layout of `results.json`; another one is refused.
pub const VERSION: u32 = 1;

/// Settings of a cell, by name.
pub type Settings = BTreeMap<String, serde_json::Value>;

/// By what means a run came to its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// This kernel, on a directory, a loop device or a device.
    #[default]
    Native,
    /// Another kernel in an emulated machine.
    Guest,
    /// Counts from an emulated disk; seconds are computed.
    Model,
}

impl Backend {
    /// Whether it is the usual one.
    pub fn is_native(&self) -> bool {
        *self == Backend::Native
    }

    /// How many times as long as this computer a run by these means takes. A guest's instructions are
    /// emulated one by one: copying files took it 8 times as long, beside other work 12 times.
    pub fn pace(self) -> f64 {
        match self {
            Backend::Guest => 10.0,
            Backend::Native | Backend::Model => 1.0,
        }
    }

    /// Why a file system cannot be had by these means; nothing if it can.
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

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`VERSION`].
    pub version: u32,
    /// What was to be done.
    pub job: Job,
    /// By what means.
    pub backend: Backend,
    /// By what.
    pub program: String,
    /// Where.
    pub machine: Machine,
    /// On what disk, where one was measured.
    pub place: Option<Place>,
    /// When it began, RFC 3339.
    pub started: String,
    /// What was measured, in the order of measuring.
    pub cells: Vec<Cell>,
    /// What could not be measured, and why; in the order of asking.
    pub missing: Vec<Missing>,
}

/// A cell that this machine could not measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// Why not, and what would help.
    pub why: String,
}

/// One measurement of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Its name, which no other cell of the run has.
    pub name: String,
    /// What was set.
    pub settings: Settings,
    /// What came out; the unit stands in the name.
    pub figures: BTreeMap<String, f64>,
    /// What came out over time.
    pub lines: Vec<Line>,
    /// The block operations meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Statistics>,
    /// What a reader must know to read the figures right.
    pub notes: Vec<String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// How long it took with everything around it, s.
    pub took_s: f64,
    /// Processes that wanted to run in the minute before.
    pub load: f64,
}

/// A figure over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What it is, with its unit.
    pub name: String,
    /// Seconds since the beginning of the cell, and the figure.
    pub points: Vec<(f64, f64)>,
}

impl Cell {
    /// A figure by name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// A setting as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.settings.get(name)?.as_f64()
    }

    /// A setting as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name)?.as_str()
    }

    /// Notes a figure; one that is no number is left out.
    pub fn tell(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_string(), value);
        }
    }
}

impl Results {
    /// The name of the experiment.
    pub fn experiment(&self) -> &'static str {
        self.job.work.name()
    }

    /// Reads a run: its directory, or its `results.json`.
    ///
    /// # Errors
    /// When there is none, or one that this program cannot read.
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
    /// When the directory cannot be written.
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

    /// One line a cell: name, settings, figures.
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

    /// One line a sample.
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

/// A line of CSV; what needs quotes gets them.
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
