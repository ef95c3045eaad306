//! Rows of a distributed store on Apache Cassandra 5 or ScyllaDB.
//!
//! [`CassandraRows`] implements [`seiner_cluster::Rows`]. A table has the columns `partition`, `key` and `value`; the
//! rows of a partition are sorted by key. The driver is asynchronous and runs on two threads of its own, so that the
//! blocking methods can be called from any thread that may block.
//!
//! `local` runs a small cluster of Cassandra on one Linux machine, for tests and trials.
//!
//! ```no_run
//! use seiner_cassandra::{CassandraRows, ClusterUrl};
//! use seiner_cluster::{Level, Rows};
//!
//! let url: ClusterUrl = "cassandra://db1,db2,db3/sensors?rf=3".parse()?;
//! let rows = CassandraRows::connect(url.contact, url.replication)?;
//! println!("{:?}", rows.read("blocks", b"partition", b"key", Level::Quorum)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod client;
mod connect;
mod contact;
mod creation;
#[cfg(target_os = "linux")]
pub mod local;
mod operations;
mod reads;
mod retry;
mod rows;
mod schema;
mod statements;
mod statistics;
mod tls;
mod writes;

pub use connect::ConnectError;
pub use contact::{
    ClusterUrl, Compaction, Contact, DEFAULT_PORT, Host, Login, Replication, Timeouts, Tls,
    UrlError,
};
pub use rows::{CassandraRows, Node};
pub use statistics::Statistics;
