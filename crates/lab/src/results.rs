//! Results of a run: settings, machine and all cells with their samples, as JSON and CSV.

use crate::backend::Backend;
use crate::cell::{Cell, Missing};
use crate::experiment::Measurements;
use crate::job::Job;
use crate::location::StorageLocation;
use crate::machine::Machine;
use anyhow::Context;
use seiner_chart::Figure;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Version of the format of `results.json`. Other versions are rejected.
pub const VERSION: u32 = 1;

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
    #[serde(rename = "place")]
    pub location: Option<StorageLocation>,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// Measured cells, in the order of measurement.
    pub cells: Vec<Cell>,
    /// Cells that were not measured, in the order of the settings.
    pub missing: Vec<Missing>,
}

impl Results {
    /// Returns the name of the experiment.
    pub fn experiment(&self) -> &'static str {
        self.job.work.name()
    }

    /// Returns the measurements without the description of the run.
    fn measurements(&self) -> Measurements<'_> {
        Measurements {
            backend: self.backend,
            machine: &self.machine,
            location: self.location.as_ref(),
            cells: &self.cells,
            missing: &self.missing,
        }
    }

    /// Returns the figures of a report.
    pub fn figures(&self) -> Vec<Figure> {
        let experiment = self.job.work.experiment();
        experiment.figures(&self.measurements())
    }

    /// Returns sentences that summarize the results and state their limits.
    pub fn remarks(&self) -> Vec<String> {
        let experiment = self.job.work.experiment();
        experiment.remarks(&self.measurements())
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
            .with_context(|| format!("{} is not a run of the lab", file.display()))?;
        if results.version != VERSION {
            anyhow::bail!(
                "{} has version {}, this program reads version {VERSION}",
                file.display(),
                results.version
            );
        }
        Ok(results)
    }

    /// Writes `results.json`, `results.csv` and `lines.csv` into a directory.
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
        put("lines.csv", self.lines_csv())
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
            let values = figures.iter().map(|name| {
                cell.figure(name)
                    .map(|value| value.to_string())
                    .unwrap_or_default()
            });
            text += &row(start.into_iter().chain(set).chain(values));
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
    fn csv_fields_are_quoted_if_necessary() {
        let fields = ["a", "b,c", "say \"x\""].map(String::from);
        assert_eq!(row(fields), "a,\"b,c\",\"say \"\"x\"\"\"\n");
    }
}
