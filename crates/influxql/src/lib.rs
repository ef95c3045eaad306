//! InfluxQL on a store of samples.
//!
//! [`parse`] reads the statements of a request, [`run`] answers one of them. The rules are those of InfluxDB 1, with
//! these properties of the store:
//!
//! - There is one retention policy. Its name in a statement has no effect.
//! - A tag of the sources may contain the name of their database ([`Databases`]). Without this tag there is one database,
//!   and names of databases have no effect.
//! - Nothing is written or deleted: statements that do so are rejected by name.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
mod budget;
mod cell;
mod context;
mod database;
mod error;
mod evaluate;
mod run;
mod schema;
mod select;
mod show;
mod text;
mod zone;

pub use answer::{Answer, Table};
pub use budget::Limits;
pub use cell::Cell;
pub use database::Databases;
pub use error::Error;
pub use run::run;
pub use seiner_store::{Stop, Stopper};
pub use text::parse::parse;
pub use text::statement::Statement;
pub use zone::Zone;
