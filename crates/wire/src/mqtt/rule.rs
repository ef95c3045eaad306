//! Rules: from texts as users write them to checked values.

use super::pattern::{Captures, MAX_BYTES, Pattern, PatternError};
use super::time::TimeForm;
use crate::line::Precision;

/// Field of a payload without names of its own, unless another one is given.
const VALUE: &str = "value";

/// Form of payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadKind {
    /// The form that a payload has: JSON if it begins like an object, an array or a text, otherwise a number if it is
    /// one, otherwise line protocol.
    #[default]
    Auto,
    /// A decimal number, `true` or `false`.
    Number,
    /// JSON.
    Json,
    /// Line protocol, with measurement and tags of its own.
    Line,
}

impl std::str::FromStr for PayloadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<PayloadKind, String> {
        match text {
            "auto" => Ok(PayloadKind::Auto),
            "number" => Ok(PayloadKind::Number),
            "json" => Ok(PayloadKind::Json),
            "line" => Ok(PayloadKind::Line),
            _ => Err(format!("{text:?} is neither auto, number, json nor line")),
        }
    }
}

/// Parts of a rule that are not checked together yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDraft {
    /// Pattern of topics.
    pub topic: String,
    /// Topic filter of the subscription; empty for the filter that follows from the pattern.
    pub filter: String,
    /// Measurement; empty if the pattern names it.
    pub measurement: String,
    /// Tags of all rows.
    pub tags: Vec<(String, String)>,
    /// Field; empty if the pattern names it, or for `value`.
    pub field: String,
    /// Form of payloads.
    pub payload: PayloadKind,
    /// Path of the time in JSON: names with dots between them; empty for the time of reception.
    pub time: String,
    /// Unit of times; `None` for the unit that places a time between 1990 and 2100, and ns in line protocol.
    pub unit: Option<Precision>,
}

/// Error of a rule, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

impl From<PatternError> for RuleError {
    fn from(error: PatternError) -> RuleError {
        RuleError(error.to_string())
    }
}

/// Checked rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: Pattern,
    filter: String,
    pub(super) measurement: String,
    pub(super) tags: Vec<(String, String)>,
    field: String,
    pub(super) payload: PayloadKind,
    /// Name that the time would have as a field; `None` for the time of reception.
    pub(super) time: Option<String>,
    unit: Option<Precision>,
}

impl Rule {
    /// Checks the parts of a rule.
    ///
    /// # Errors
    /// If parts are missing, wrong, or contradict each other.
    pub fn new(draft: RuleDraft) -> Result<Rule, RuleError> {
        let fail = |text: String| Err(RuleError(text));
        let pattern = Pattern::parse(&draft.topic)?;
        // Lines have measurements of their own.
        let needs_measurement = draft.payload != PayloadKind::Line;
        match (draft.measurement.is_empty(), pattern.names_measurement()) {
            (true, false) if needs_measurement => {
                return fail(format!(
                    "{:?} names no measurement; give measurement, or write {{measurement}} into the topic",
                    draft.topic
                ));
            }
            (false, true) => {
                return fail(
                    "measurement is given, and the topic has {measurement}; leave out one of them"
                        .into(),
                );
            }
            _ => {}
        }
        if !draft.field.is_empty() && pattern.names_field() {
            return fail("field is given, and the topic has {field}; leave out one of them".into());
        }
        let mut names: Vec<&str> = pattern.tags().collect();
        names.extend(draft.tags.iter().map(|(name, _)| name.as_str()));
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return fail(format!(
                "the tag {:?} is given twice; leave it out once",
                pair[0]
            ));
        }
        let texts = draft.tags.iter().flat_map(|(name, value)| [name, value]);
        if let Some(text) = texts
            .chain([&draft.measurement])
            .find(|text| text.ends_with('\\'))
        {
            return fail(format!(
                "{text:?} ends in a backslash, which no name may; leave it out"
            ));
        }
        let filter = match draft.filter.is_empty() {
            true => pattern.filter(),
            false => checked_filter(draft.filter)?,
        };
        let time = (!draft.time.is_empty()).then(|| draft.time.replace('.', "_"));
        Ok(Rule {
            pattern,
            filter,
            measurement: draft.measurement,
            tags: draft.tags,
            field: draft.field,
            payload: draft.payload,
            time,
            unit: draft.unit,
        })
    }

    /// Returns the parts of a topic at the placeholders, if the rule is for the topic.
    pub(super) fn captures<'p, 't>(&'p self, topic: &'t str) -> Option<Captures<'p, 't>> {
        self.pattern.captures(topic)
    }

    /// Returns the topic filter of the subscription.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Returns the field of a payload without names of its own. `captured` is the field that the topic names.
    pub(super) fn field<'f>(&'f self, captured: Option<&'f str>) -> &'f str {
        match (captured, self.field.as_str()) {
            (Some(field), _) => field,
            (None, "") => VALUE,
            (None, field) => field,
        }
    }

    /// Returns the begin of the names of fields of JSON.
    pub(super) fn prefix<'f>(&'f self, captured: Option<&'f str>) -> &'f str {
        captured.unwrap_or(&self.field)
    }

    pub(super) fn time_form(&self, refuse_1970: bool) -> TimeForm {
        TimeForm {
            unit: self.unit,
            refuse_1970,
        }
    }

    pub(super) fn precision(&self) -> Precision {
        self.unit.unwrap_or_default()
    }
}

/// Checks a topic filter: `+` is a whole level, and `#` the last one.
fn checked_filter(filter: String) -> Result<String, RuleError> {
    let count = filter.split('/').count();
    let is_level = |(index, level): (usize, &str)| match level {
        "+" => true,
        "#" => index + 1 == count,
        level => !level.contains(['+', '#', '\0']),
    };
    match filter.len() <= MAX_BYTES && filter.split('/').enumerate().all(is_level) {
        true => Ok(filter),
        false => Err(RuleError(format!(
            "{filter:?} is not a topic filter; + is a level of its own, and so is #, the last one"
        ))),
    }
}
