//! `seiner import`: imports data from files of other formats.

mod columns;
mod comma;
mod dialect;
mod preview;
mod repeats;
mod scan;
mod singles;
mod sink;
mod statistics;
#[cfg(feature = "parquet")]
pub mod table;
mod types;
mod value;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Import data from files of other formats.
#[derive(Args)]
pub struct Import {
    #[command(subcommand)]
    kind: Kind,
}

// The help of each subcommand is the doc comment of its flags. A comment here would replace it.
#[derive(Subcommand)]
enum Kind {
    Csv(comma::Csv),
    #[cfg(feature = "parquet")]
    Parquet(table::Parquet),
    #[cfg(feature = "parquet")]
    Arrow(table::Arrow),
}

impl Import {
    /// Runs the import.
    pub fn run(self) -> Result<(), Failure> {
        match self.kind {
            Kind::Csv(csv) => csv.run(),
            #[cfg(feature = "parquet")]
            Kind::Parquet(parquet) => parquet.run(),
            #[cfg(feature = "parquet")]
            Kind::Arrow(arrow) => arrow.run(),
        }
    }
}
