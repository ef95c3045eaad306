//! Mapping of messages to rows.

use super::json::{self, Target};
use super::number::scalar;
use super::pattern::Captures;
use super::rule::{PayloadKind, Rule};
use crate::line::{Arena, LineParser, escape_measurement, escape_tag, shown};
use seiner_model::{Batch, Cell};

/// Message with the time of its reception.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// Topic.
    pub topic: &'m str,
    /// Payload.
    pub payload: &'m [u8],
    /// Time of reception in ns since 1970, for payloads without a time.
    pub received: i64,
}

/// Part of a message that was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The topic.
    Topic,
    /// The payload.
    Payload,
}

/// Rejection of a message, or of some lines of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Part with the fault.
    pub part: Part,
    /// Number of rejected rows.
    pub rows: u64,
    /// First reason, with the remedy.
    pub reason: String,
}

impl Rejection {
    fn of(part: Part, reason: impl Into<String>) -> Rejection {
        Rejection {
            part,
            rows: 1,
            reason: reason.into(),
        }
    }
}

/// Rules, in the order in which their patterns are tried.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    rules: Vec<Rule>,
    refuse_1970: bool,
}

impl Mapping {
    /// Creates a mapping. `refuse_1970` rejects times that a missing or wrong unit moves to 1970.
    pub fn new(rules: Vec<Rule>, refuse_1970: bool) -> Mapping {
        Mapping { rules, refuse_1970 }
    }

    /// Returns the topic filters of all rules.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(Rule::filter)
    }

    /// Appends the rows of a message to a batch.
    ///
    /// # Errors
    /// If the message or some of its lines are rejected. The valid lines are in the batch.
    pub fn decode<'b>(
        &self,
        message: Message<'b>,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<(), Rejection> {
        let topic = message.topic;
        if topic.contains(['+', '#', '\0']) {
            let reason = "the topic of a message may not contain +, # or NUL";
            return Err(Rejection::of(Part::Topic, reason));
        }
        let matching = |rule| Some((rule, Rule::captures(rule, topic)?));
        let Some((rule, captures)) = self.rules.iter().find_map(matching) else {
            let reason = "no mqtt_topic has a pattern for this topic; add one";
            return Err(Rejection::of(Part::Topic, reason));
        };
        let (rows, cells) = (batch.rows.len(), batch.cells.len());
        let read = match rule.payload {
            PayloadKind::Line => return self.lines(rule, message, arena, batch),
            PayloadKind::Number => number(rule, &captures, message, arena, batch),
            PayloadKind::Json => self.json(rule, &captures, message, arena, batch),
            PayloadKind::Auto => match message.payload.trim_ascii_start().first() {
                Some(b'{' | b'[' | b'"') => self.json(rule, &captures, message, arena, batch),
                _ if scalar(message.payload).is_ok() => {
                    number(rule, &captures, message, arena, batch)
                }
                _ => return self.lines(rule, message, arena, batch).map_err(no_form),
            },
        };
        if read.is_err() {
            batch.rows.truncate(rows);
            batch.cells.truncate(cells);
        }
        read
    }

    fn json<'b>(
        &self,
        rule: &Rule,
        captures: &Captures<'_, 'b>,
        message: Message<'b>,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<(), Rejection> {
        let target = Target {
            rule,
            name: name(rule, captures, arena)?,
            field: captures.field,
            received: message.received,
            form: rule.time_form(self.refuse_1970),
        };
        json::read(message.payload, target, arena, batch)
            .map_err(|error| Rejection::of(Part::Payload, format!("JSON: {error}")))
    }

    fn lines<'b>(
        &self,
        rule: &Rule,
        message: Message<'b>,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<(), Rejection> {
        let mut errors = Vec::new();
        let mut parser = LineParser::new(rule.precision()).refuse_1970(self.refuse_1970);
        let (text, rows) = (message.payload, batch.rows.len());
        let (now, most) = (message.received, usize::MAX);
        parser.parse(text, true, now, most, arena, batch, &mut errors);
        let Some(first) = errors.first() else {
            return match batch.rows.len() > rows {
                true => Ok(()),
                false => Err(Rejection::of(Part::Payload, "the payload has no line")),
            };
        };
        Err(Rejection {
            part: Part::Payload,
            rows: errors.len() as u64,
            reason: first.to_string(),
        })
    }
}

/// Adds to the reason of a line that the payload has another form neither.
fn no_form(rejection: Rejection) -> Rejection {
    Rejection {
        reason: format!(
            "the payload is not a number, and as line protocol: {}",
            rejection.reason
        ),
        ..rejection
    }
}

fn number<'b>(
    rule: &Rule,
    captures: &Captures<'_, 'b>,
    message: Message<'b>,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
) -> Result<(), Rejection> {
    let value = scalar(message.payload).map_err(|reason| {
        let text = shown(message.payload);
        Rejection::of(Part::Payload, format!("payload {text:?}: {reason}"))
    })?;
    let field = arena.keep(rule.field(captures.field).as_bytes());
    let name = name(rule, captures, arena)?;
    batch.push(name, message.received, [Cell { field, value }]);
    Ok(())
}

/// Returns the name of the source of a topic, in the notation of lines.
fn name<'b>(
    rule: &Rule,
    captures: &Captures<'_, '_>,
    arena: &'b Arena,
) -> Result<&'b [u8], Rejection> {
    let measurement = captures.measurement.unwrap_or(&rule.measurement);
    let values = captures.tags.iter().map(|(_, value)| *value);
    if let Some(text) = values
        .chain([measurement])
        .find(|text| text.ends_with('\\'))
    {
        let reason = format!("level {text:?} ends in a backslash, which no name may");
        return Err(Rejection::of(Part::Topic, reason));
    }
    let mut name = String::new();
    escape_measurement(measurement, &mut name);
    let fixed = rule.tags.iter().map(|(tag, value)| (&**tag, &**value));
    for (tag, value) in fixed.chain(captures.tags.iter().copied()) {
        name.push(',');
        escape_tag(tag, value, &mut name);
    }
    Ok(arena.keep(name.as_bytes()))
}
