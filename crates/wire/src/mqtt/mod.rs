//! MQTT messages: a topic and a payload become rows.
//!
//! A [`Mapping`] is a list of rules. The first [`Rule`] whose pattern matches a topic defines the measurement, the tags
//! and the field, and how the payload is read: as a number, as JSON or as line protocol. Names of rows are in
//! [`LineNotation`](crate::line::LineNotation). The packets of MQTT are not read here.

mod json;
mod mapping;
mod number;
mod pattern;
mod rule;
#[cfg(test)]
mod tests;
mod time;

pub use mapping::{Mapping, Message, Part, Rejection};
pub use pattern::{Pattern, PatternError};
pub use rule::{PayloadKind, Rule, RuleDraft, RuleError};
