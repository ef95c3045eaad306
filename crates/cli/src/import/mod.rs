//! `seiner import`: imports data from files of other formats.

mod columns;
pub mod comma;
mod detect;
mod dialect;
mod fault;
mod flags;
mod json;
mod json_lines;
mod line;
mod outcome;
mod patterns;
mod preview;
#[cfg(feature = "parquet")]
mod prometheus;
mod records;
mod rejects;
mod repeats;
mod rows;
#[cfg(feature = "parquet")]
mod rrd;
mod run;
mod scan;
#[cfg(feature = "parquet")]
mod series;
mod singles;
mod sink;
mod statistics;
#[cfg(feature = "parquet")]
pub mod table;
mod times;
mod types;
mod value;
#[cfg(feature = "parquet")]
mod victoria;
#[cfg(feature = "parquet")]
mod whisper;

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
    Json(json::Json),
    Line(line::Line),
    #[cfg(feature = "parquet")]
    Parquet(table::Parquet),
    #[cfg(feature = "parquet")]
    Arrow(table::Arrow),
    #[cfg(feature = "parquet")]
    Prometheus(prometheus::Prometheus),
    #[cfg(feature = "parquet")]
    Victoria(victoria::Victoria),
    #[cfg(feature = "parquet")]
    Whisper(whisper::Whisper),
    #[cfg(feature = "parquet")]
    Rrd(rrd::Rrd),
}

impl Import {
    /// Runs the import.
    pub fn run(self) -> Result<(), Failure> {
        match self.kind {
            Kind::Csv(csv) => csv.run(),
            Kind::Json(json) => json.run(),
            Kind::Line(line) => line.run(),
            #[cfg(feature = "parquet")]
            Kind::Parquet(parquet) => parquet.run(),
            #[cfg(feature = "parquet")]
            Kind::Arrow(arrow) => arrow.run(),
            #[cfg(feature = "parquet")]
            Kind::Prometheus(prometheus) => prometheus.run(),
            #[cfg(feature = "parquet")]
            Kind::Victoria(victoria) => victoria.run(),
            #[cfg(feature = "parquet")]
            Kind::Whisper(whisper) => whisper.run(),
            #[cfg(feature = "parquet")]
            Kind::Rrd(rrd) => rrd.run(),
        }
    }
}
