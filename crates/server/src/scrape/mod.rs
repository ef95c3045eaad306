//! Scraping: the server fetches the metrics of targets, as Prometheus does.
//!
//! A text is stored as a whole or not at all. A scrape that fails, and a series that a target has no more, become stale
//! markers. Memory is limited: bodies together, samples of a text, names of series together, and targets.

mod attempt;
mod discovery;
mod http;
mod login;
mod outside;
mod samples;
mod state;
mod supervisor;
mod target;

pub use state::{Report, ScrapeState};
pub use supervisor::serve;
pub use target::Target;

/// Name of the protocol in metrics.
pub const PROTOCOL: &str = "scrape";
