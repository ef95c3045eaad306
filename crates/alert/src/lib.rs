//! Alerts: rules in the YAML of Prometheus, the states of their alerts, and messages in the form of Alertmanager.
//!
//! The crate neither evaluates expressions nor sends messages nor stores series. Its caller evaluates the expression of
//! each rule, passes the result of an alert to [`RuleState::update`], sends what [`RuleState::due`] returns, and stores
//! what [`RuleState::series`] and [`RecordingRule::series`] return.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod message;
mod numbers;
mod recording;
mod rules;
mod state;
mod template;

pub use message::{labels, message};
pub use rules::{AlertRule, Group, RecordingRule, Rule, RuleError, read};
pub use state::{ALERT_NAME, ALERTS, Alert, OUTAGE_NS, Phase, RuleState, SINCE, Stored};
