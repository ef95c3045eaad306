//! Reports of rejected rows and cells: the first on standard error, and all in a file if one is given.

use super::fault::Fault;
use crate::failure::Failure;
use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Maximum number of rejected rows and cells that are printed.
pub const MAX_REPORTED: u64 = 100;

// Not a doc comment: it would remove the descriptions of the commands from their help.
#[derive(Args)]
pub struct RejectsFlag {
    /// File for rejected rows and cells, as CSV: file, line, column, reason and original text. The
    /// file must not exist. Without this flag, the first 100 are printed.
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
}

impl RejectsFlag {
    /// Checks that the file can be created.
    ///
    /// # Errors
    /// If it exists.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.rejects {
            Some(path) if path.exists() => Err(Failure::Usage(format!(
                "{} exists; give another file for --rejects, or remove this one",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Creates the file.
    ///
    /// # Errors
    /// If it exists, or cannot be created.
    pub fn create(&self) -> Result<Rejects, Failure> {
        self.check()?;
        let file = match &self.rejects {
            Some(path) => Some(RejectsFile::create(path)?),
            None => None,
        };
        Ok(Rejects { file, reported: 0 })
    }
}

/// Reports of all files of an import.
#[derive(Default)]
pub struct Rejects {
    file: Option<RejectsFile>,
    /// Number of rows and cells that were printed.
    reported: u64,
}

struct RejectsFile {
    path: PathBuf,
    writer: csv::Writer<File>,
    /// First error. The import goes on without the file.
    error: Option<anyhow::Error>,
}

impl RejectsFile {
    fn create(path: &Path) -> Result<RejectsFile> {
        let file = File::create_new(path)
            .with_context(|| format!("{} cannot be created", path.display()))?;
        let mut writer = csv::Writer::from_writer(file);
        let written = writer.write_record(["file", "line", "column", "reason", "text"]);
        written.with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(RejectsFile {
            path: path.to_path_buf(),
            writer,
            error: None,
        })
    }

    fn write(&mut self, name: &str, fault: &Fault) {
        if self.error.is_some() {
            return;
        }
        let line = fault.line.to_string();
        let cells = [name, &line, &fault.column, &fault.reason, &fault.text];
        if let Err(error) = self.writer.write_record(cells) {
            self.error = Some(error.into());
        }
    }
}

impl Rejects {
    /// Returns true if all rejected rows are wanted, with their texts.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reports a file that cannot be read.
    pub fn report_file(&mut self, path: &Path, error: &anyhow::Error) {
        let (name, reason) = (path.display().to_string(), format!("{error:#}"));
        self.reported += 1;
        if self.reported <= MAX_REPORTED {
            eprintln!("{name}: {reason}");
        }
        if let Some(file) = &mut self.file {
            let fault = Fault {
                reason,
                ..Fault::default()
            };
            file.write(&name, &fault);
        }
    }

    /// Completes the file. `unlisted` is the number of rejected rows that the target did not list. Returns the sentence
    /// for the summary, if there is a file.
    ///
    /// # Errors
    /// If the file could not be written. All rows were imported nevertheless.
    pub fn finish(self, unlisted: u64) -> Result<Option<String>> {
        let Some(mut file) = self.file else {
            return Ok(None);
        };
        let path = file.path.display();
        let context = || format!("{path} cannot be written, and does not list all rejected rows");
        if let Some(error) = file.error {
            return Err(error).with_context(context);
        }
        file.writer.flush().with_context(context)?;
        Ok(Some(match unlisted {
            0 => format!("{path} lists all rejected rows and cells"),
            some => format!(
                "{path} lists rejected rows and cells, but not {some} that the target did not name"
            ),
        }))
    }
}

/// Reporter of the rejected rows and cells of one file.
pub struct Reporter<'a> {
    pub rejects: &'a mut Rejects,
    pub bar: &'a ProgressBar,
    /// Name of the file.
    pub name: &'a str,
    /// Text before the number of a line or row.
    pub noun: &'static str,
}

impl Reporter<'_> {
    /// Reports a rejected row or cell.
    pub fn report(&mut self, fault: &Fault) {
        self.rejects.reported += 1;
        if self.rejects.reported <= MAX_REPORTED {
            let (name, noun, Fault { line, reason, .. }) = (self.name, self.noun, fault);
            self.bar
                .suspend(|| eprintln!("{name}:{noun}{line}: {reason}"));
        }
        if let Some(file) = &mut self.rejects.file {
            file.write(self.name, fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lists_everything_and_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rejects.csv");
        let flag = RejectsFlag {
            rejects: Some(path.clone()),
        };
        let mut rejects = flag.create().unwrap();
        let bar = ProgressBar::hidden();
        let mut reporter = Reporter {
            rejects: &mut rejects,
            bar: &bar,
            name: "a.csv",
            noun: "",
        };
        for line in 1..=MAX_REPORTED + 1 {
            reporter.report(&Fault {
                line,
                column: "x, y".into(),
                reason: "bad".into(),
                text: "\"quoted\"\n".into(),
            });
        }
        let sentence = rejects.finish(0).unwrap().unwrap();
        assert!(
            sentence.ends_with("lists all rejected rows and cells"),
            "{sentence}"
        );
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len() as u64, MAX_REPORTED + 1);
        assert_eq!(
            rows[100],
            ["a.csv", "101", "x, y", "bad", "\"quoted\"\n"][..]
        );
        assert!(matches!(flag.create(), Err(Failure::Usage(_))));
    }
}
