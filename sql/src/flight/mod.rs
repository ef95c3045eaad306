//! Arrow Flight SQL. There are no passwords: the listener belongs on loopback.
//!
//! The program keeps nothing between two requests. A ticket contains its query, and the handle of a prepared statement
//! contains the query and the values of its parameters.

mod metadata;
mod service;
mod statement;
#[cfg(test)]
mod tests;

pub use service::serve;
