//! Alerts: rules in the YAML of Prometheus, the states of their alerts, and messages in the form of Alertmanager.
//!
//! The crate neither evaluates expressions nor sends messages. Its caller evaluates the expression of each rule, passes
//! the result to [`RuleState::update`], and sends what [`RuleState::due`] returns.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod message;
mod rules;
mod state;
mod template;

pub use message::{labels, message};
pub use rules::{Group, Rule, RuleError, read};
pub use state::{Alert, Phase, RuleState};
