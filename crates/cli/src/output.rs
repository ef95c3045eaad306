//! Output of comparisons: a table, JSON or CSV, and optionally charts.

use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;

// Not a doc comment: the help of a command that flattens these flags would show it.
#[derive(Args)]
pub struct Output {
    /// Print JSON with all measurements.
    #[arg(long)]
    json: bool,
    /// Print CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write the curves into this file, a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Format of the printed results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A table for people.
    Table,
    /// JSON with all measurements.
    Json,
    /// CSV with one line per result.
    Csv,
}

impl Output {
    /// Returns the format to print.
    pub fn form(&self) -> Form {
        match (self.json, self.csv) {
            (true, _) => Form::Json,
            (_, true) => Form::Csv,
            _ => Form::Table,
        }
    }

    /// Writes the page with the charts, if a file for it was given.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, page: impl FnOnce() -> String) -> Result<()> {
        let Some(file) = &self.picture else {
            return Ok(());
        };
        std::fs::write(file, page()).with_context(|| format!("writing {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    /// Command of the test.
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        output: Output,
    }

    fn output(line: &[&str]) -> Output {
        let line = [&["command"], line].concat();
        Command::try_parse_from(line).unwrap().output
    }

    #[test]
    fn one_output_format_applies_and_a_picture_is_optional() {
        assert_eq!(output(&[]).form(), Form::Table);
        assert_eq!(output(&["--json"]).form(), Form::Json);
        assert_eq!(output(&["--csv"]).form(), Form::Csv);
        assert!(Command::try_parse_from(["command", "--csv", "--json"]).is_err());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        let drawn = output(&["--csv", "--picture", file.to_str().unwrap()]);
        drawn.draw(|| "curves".to_string()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "curves");
        output(&[])
            .draw(|| panic!("the drawing was not requested"))
            .unwrap();
        let inside = file.join("page.html");
        let error = output(&["--picture", inside.to_str().unwrap()]).draw(String::new);
        assert!(error.unwrap_err().to_string().contains("page.html"));
    }

    #[test]
    fn a_command_keeps_its_own_description() {
        let about = Command::command().get_about().unwrap().to_string();
        assert_eq!(about, "Command of the test");
    }
}
