//! Rules: the server evaluates them, stores what they record, and sends the alerts that fire or were resolved.
//!
//! A failed evaluation leaves the states of a rule as they are. A message that no receiver took is sent again at the next
//! evaluation. States are stored as series, as Prometheus does, so that alerts go on after a restart.

mod command;
mod evaluation;
mod json;
mod manager;
mod state;
mod storage;

pub use evaluation::serve;
pub use json::{alerts, rules};
pub use state::AlertState;
