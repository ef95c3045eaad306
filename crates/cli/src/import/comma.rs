//! `seiner import csv`: imports comma-separated values.

use super::dialect::{Dialect, DialectFlags, separator};
use super::flags::Flags;
use super::records::Layout;
use super::run;
use super::value::Decimal;
use crate::failure::Failure;
use clap::Args;
#[cfg(feature = "plan")]
use seiner_store::Store;
use std::path::Path;
#[cfg(feature = "plan")]
use std::sync::Arc;

/// Import comma-separated values.
///
/// Each column is the time, a tag, or a field. A row becomes the values of one source at one time.
/// The command checks all rows before it stores any row, and states what it assumed. --dry-run
/// shows the result without storing.
///
/// Examples:
///
///   seiner import csv --data ./seiner-data --tag-columns series live_collectd.csv.gz
///
///   seiner import csv --data ./seiner-data --missing -9999.9 surfrad_weather.csv.gz
#[derive(Args)]
pub struct Csv {
    #[command(flatten)]
    flags: Flags,
    /// Separator of cells: one character, or `tab` [default: , ; tab or |, most frequent in the
    /// first line]
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    separator: Option<u8>,
    /// Decimal mark of numbers [default: a comma where cells contain one and another character
    /// separates cells, else a point]
    #[arg(long, value_enum)]
    decimal: Option<Decimal>,
    /// The first line contains values. The columns are col1, col2 and so on [default: if all cells
    /// of the first line are numbers or times]
    #[arg(long)]
    no_header: bool,
    /// Names of the columns of a file without a header line, separated by commas. The first line
    /// contains values.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
}

impl Csv {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        run::run(&self.flags, &|path| self.layout(path))
    }

    /// Imports all files into a store for trials, even if rows are lost.
    ///
    /// # Errors
    /// If a file cannot be read, or a column has no meaning.
    #[cfg(feature = "plan")]
    pub fn fill(&self, store: Arc<dyn Store>) -> Result<(), Failure> {
        run::fill(&self.flags, &|path| self.layout(path), store)
    }

    /// Returns the names of the columns whose values are texts.
    ///
    /// # Errors
    /// As for [`Csv::fill`].
    #[cfg(feature = "plan")]
    pub fn text_columns(&self) -> Result<Vec<String>, Failure> {
        run::text_columns(&self.flags, &|path| self.layout(path))
    }

    /// Returns the layout of a file, with notes about assumptions.
    fn layout(&self, path: &Path) -> Result<(Layout, Vec<String>), Failure> {
        let roles = self.flags.roles();
        let given = roles.time.iter().chain(&roles.date).chain(&roles.tags);
        let given = given
            .chain(roles.fields.iter().flatten())
            .chain(roles.types.keys());
        let has_values = self.no_header || self.columns.is_some();
        let flags = DialectFlags {
            separator: self.separator,
            decimal: self.decimal,
            has_header: has_values.then_some(false),
            names: given.cloned().collect(),
        };
        let (dialect, cells) = Dialect::detect(path, &flags)?;
        let mut notes = Vec::new();
        let names: Vec<String> = match &self.columns {
            Some(names) if names.len() != cells => {
                return Err(Failure::Usage(format!(
                    "{}: --columns gives {} names, and the first line has {cells} cells",
                    path.display(),
                    names.len()
                )));
            }
            Some(names) => names.clone(),
            None => (1..=cells).map(|number| format!("col{number}")).collect(),
        };
        if !dialect.has_header && !has_values {
            notes.push(format!(
                "the first line contains values, so the columns are called {}; --columns names them",
                names.join(", ")
            ));
        }
        Ok((Layout::Csv { dialect, names }, notes))
    }
}
