//! InfluxQL on a store of samples.
//!
//! [`parse`] reads the statements of a request, [`run`] answers one of them. The rules are those of InfluxDB 1, with
//! these properties of the store:
//!
//! - There is one database with one retention policy. Names of databases and policies in a statement have no effect.
//! - Nothing is written or deleted: statements that do so are rejected by name.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
mod budget;
mod cell;
mod context;
mod error;
mod evaluate;
mod run;
mod schema;
mod select;
mod show;
mod text;

pub use answer::{Answer, Table};
pub use budget::Limits;
pub use cell::Cell;
pub use error::Error;
pub use run::run;
pub use seiner_store::{Stop, Stopper};
pub use text::parse::parse;
pub use text::statement::Statement;
