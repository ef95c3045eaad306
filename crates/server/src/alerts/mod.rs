//! Alerts: the server evaluates rules, and sends what fires and what was resolved.
//!
//! A failed evaluation leaves the states of a rule as they are. A message that no receiver took is sent again at the next
//! evaluation. States are not stored: after a restart, an alert is pending anew.

mod command;
mod evaluation;
mod json;
mod manager;
mod state;

pub use evaluation::serve;
pub use json::{alerts, rules};
pub use state::AlertState;
