//! Server of a store: ports for line protocol, queries over HTTP, metrics, the page,
//! and the host's own sensors.
//!
//! Async code ends here: a port reads its socket in a task, and calls the store as plain
//! functions. Everything that waits here is limited: connections, requests, bodies, time.

pub mod array;
pub mod classes;
mod crowd;
mod delete;
mod device;
mod figures;
mod gate;
mod health;
mod history;
mod host;
pub mod hosts;
mod http;
mod inflow;
pub mod ingest;
mod layers;
mod line_tcp;
mod listen;
pub mod log;
mod meters;
mod metrics;
mod nearest;
mod outflow;
mod page;
mod parameters;
pub mod plan;
mod port;
mod predicate;
pub mod query;
mod refusal;
mod server;
pub mod settings;
mod shutdown;
mod size;
mod socket;
mod station;
mod status;
mod storage_target;
mod write;

pub use history::{Period, Written};
pub use layers::{DEFAULT_FILE, Effective, GivenClass, Layers, Origin, SettingsError};
pub use refusal::Refusal;
pub use server::{Server, run};
pub use settings::{ArrayIo, Settings};
pub use size::parse_size;
pub use station::Extensions;
pub use storage_target::StorageTarget;
