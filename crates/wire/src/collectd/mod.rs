//! collectd: packets of its network plugin become rows.
//!
//! The measurement of a row is the plugin. Fields have the names of the data sources of the type, as `types.db` defines
//! them. Names of rows are in [`LineNotation`](crate::line::LineNotation).

mod packet;
mod parts;
mod security;
#[cfg(test)]
mod tests;
mod types_db;

pub use packet::{Packets, Problems};
pub use security::{Level, Security};
pub use types_db::{BadTypes, Types};
