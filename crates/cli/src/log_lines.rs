//! Lines of the server's log on standard error: text for people, or JSON for programs that collect logs.
//!
//! An event is one line, whatever its texts contain: control characters are written as escapes, so that no client can
//! write a line of its own by a name or an address.

use seiner_server::settings::LogFormat;
use serde_json::{Number, Value};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{IsTerminal, Write as _, stderr};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Target of events that come from libraries with the older interface `log`. Their own target is a field.
const OLDER: &str = "log";
/// Keys of JSON that fields cannot have.
const RESERVED: [&str; 4] = ["time", "level", "target", "message"];

/// Begin of a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// Time and level.
    Time,
    /// Time and level in colour.
    Colour,
    /// Level only, after its number for the journal of systemd, which has times of its own.
    Journal,
}

/// Layer that writes a line per event.
pub struct LogLines<W> {
    format: LogFormat,
    lead: Lead,
    write: W,
}

impl LogLines<fn(&str)> {
    /// Creates a layer that writes to standard error.
    pub fn on_stderr(format: LogFormat) -> LogLines<fn(&str)> {
        let lead = match stderr().is_terminal() {
            true => Lead::Colour,
            false if is_journal() => Lead::Journal,
            false => Lead::Time,
        };
        LogLines {
            format,
            lead,
            // There is no other place for an error of standard error.
            write: |line| _ = stderr().lock().write_all(line.as_bytes()),
        }
    }
}

/// Returns whether standard error is the journal of systemd: `JOURNAL_STREAM` contains its device and inode.
fn is_journal() -> bool {
    let stated = std::env::var("JOURNAL_STREAM");
    let file = stderr().as_fd().try_clone_to_owned().map(File::from);
    let metadata = file.and_then(|file| file.metadata());
    match (stated, metadata) {
        (Ok(stated), Ok(is)) => stated == format!("{}:{}", is.dev(), is.ino()),
        _ => false,
    }
}

impl<S, W> Layer<S> for LogLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id)
            && !fields.named.is_empty()
        {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // From the inside out: the innermost span has the best known value.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                let added = outer.named.iter().filter(|(name, _)| !fields.has(name));
                let added: Vec<_> = added.cloned().collect();
                fields.named.extend(added);
            }
        }
        let metadata = event.metadata();
        let target = match (metadata.target(), fields.target.take()) {
            (OLDER, Some(target)) => target,
            (target, _) => target.to_string(),
        };
        let mut line = String::with_capacity(256);
        let written = match self.format {
            LogFormat::Text => put_text(&mut line, self.lead, *metadata.level(), &target, &fields),
            LogFormat::Json => put_json(&mut line, *metadata.level(), &target, &fields),
        };
        written.expect("a write to a String does not fail");
        (self.write)(&line);
    }
}

/// Fields of an event or a span.
#[derive(Default)]
struct Fields {
    message: String,
    /// Target of an event of the older interface.
    target: Option<String>,
    named: Vec<(&'static str, Value)>,
}

impl Fields {
    fn has(&self, name: &str) -> bool {
        self.named.iter().any(|(own, _)| *own == name)
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("log.target", Value::String(text)) => self.target = Some(text),
            (name, _) if name.starts_with("log.") => {}
            (name, value) => self.named.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let number = Number::from_f64(value).map(Value::Number);
        let text = || Value::from(value.to_string());
        self.put(field, number.unwrap_or_else(text));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, Value::from(value.to_string()));
    }
}

/// Appends a line of text: `TIME LEVEL target: message name=value`.
fn put_text(
    line: &mut String,
    lead: Lead,
    level: Level,
    target: &str,
    fields: &Fields,
) -> fmt::Result {
    let time = crate::time::timestamp();
    let (number, colour) = match level {
        Level::ERROR => (3, 31),
        Level::WARN => (4, 33),
        Level::INFO => (6, 32),
        Level::DEBUG => (7, 34),
        Level::TRACE => (7, 35),
    };
    match lead {
        Lead::Time => write!(line, "{time:.6} {level:>5} ")?,
        Lead::Colour => write!(
            line,
            "\x1b[2m{time:.6}\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m "
        )?,
        Lead::Journal => write!(line, "<{number}>{level:>5} ")?,
    }
    put_escaped(line, target, &[])?;
    line.push(':');
    if !fields.message.is_empty() {
        line.push(' ');
        put_escaped(line, &fields.message, &[])?;
    }
    for (name, value) in &fields.named {
        write!(line, " {name}=")?;
        match value {
            Value::String(text) if is_bare(text) => put_escaped(line, text, &[])?,
            Value::String(text) => {
                line.push('"');
                put_escaped(line, text, &['"', '\\'])?;
                line.push('"');
            }
            other => write!(line, "{other}")?,
        }
    }
    line.push('\n');
    Ok(())
}

/// Returns whether a value needs no quotes.
fn is_bare(text: &str) -> bool {
    let separates = |c: char| c.is_whitespace() || matches!(c, '"' | '=' | '\\');
    !text.is_empty() && !text.contains(separates)
}

/// Appends a text on one line. Characters that would end the line, or that a terminal obeys, are escapes; and so are the
/// quoted ones.
fn put_escaped(line: &mut String, text: &str, quoted: &[char]) -> fmt::Result {
    for c in text.chars() {
        match c {
            _ if quoted.contains(&c) => write!(line, "\\{c}")?,
            _ if is_unsafe(c) => write!(line, "{}", c.escape_default())?,
            _ => line.push(c),
        }
    }
    Ok(())
}

/// Returns whether a character ends a line, changes the order of the following ones, or commands a terminal.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends an object of JSON with all fields on one level.
fn put_json(line: &mut String, level: Level, target: &str, fields: &Fields) -> fmt::Result {
    let level = level.as_str().to_ascii_lowercase();
    let time = crate::time::timestamp();
    write!(line, "{{\"time\":\"{time:.6}\",\"level\":\"{level}\"")?;
    put_member(line, "target", &Value::from(target))?;
    put_member(line, "message", &Value::from(&*fields.message))?;
    for (name, value) in &fields.named {
        match RESERVED.contains(name) {
            true => put_member(line, &format!("field_{name}"), value)?,
            false => put_member(line, name, value)?,
        }
    }
    line.push_str("}\n");
    Ok(())
}

/// Appends a member of an object that has members already.
fn put_member(line: &mut String, name: &str, value: &Value) -> fmt::Result {
    line.push(',');
    // JSON escapes fewer characters than a line of a log needs.
    for c in format!("{}:{value}", Value::from(name)).chars() {
        match is_unsafe(c) {
            true => write!(line, "\\u{:04x}", u32::from(c))?,
            false => line.push(c),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    /// Text of a client that would like to write lines of its own.
    const HOSTILE: &str =
        "a\nWARN b: c\r\t\x1b[31m\u{7f}\u{85}\u{9b}\u{2028}\u{202e}\u{2066}\"q\\ \u{e4}";

    /// Returns what a layer writes during some work.
    fn written(format: LogFormat, lead: Lead, work: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(String::new()));
        let to = lines.clone();
        let layer = LogLines {
            format,
            lead,
            write: move |line: &str| to.lock().unwrap().push_str(line),
        };
        tracing::subscriber::with_default(registry().with(layer), work);
        let written = lines.lock().unwrap();
        written.clone()
    }

    fn event() {
        let outer = tracing::error_span!("connection", connection_id = 7, request_id = "outer");
        let _outer = outer.enter();
        let span = tracing::error_span!("request", request_id = "r-1");
        let _in = span.enter();
        tracing::warn!(target: "part", path = "/a b", ms = 1.5, left_out = None::<u64>, ok = true, "12 {}", "lines");
    }

    #[test]
    fn text_is_time_level_part_message_and_fields() {
        let text = written(LogFormat::Text, Lead::Time, event);
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.len() == 27 && time.ends_with('Z'), "{time}");
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        assert_eq!(
            rest,
            " WARN part: 12 lines path=\"/a b\" ms=1.5 ok=true request_id=r-1 connection_id=7\n"
        );
        // The journal has times of its own, and reads the number of the level.
        let text = written(LogFormat::Text, Lead::Journal, event);
        assert!(text.starts_with("<4> WARN part: 12 lines "), "{text}");
    }

    #[test]
    fn json_has_all_fields_on_one_level() {
        let text = written(LogFormat::Json, Lead::Time, event);
        let line: Value = serde_json::from_str(&text).unwrap();
        let time = line["time"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        let mut line = line.as_object().unwrap().clone();
        line.remove("time");
        assert_eq!(
            Value::from(line),
            serde_json::json!({
                "level": "warn", "target": "part", "message": "12 lines", "path": "/a b", "ms": 1.5, "ok": true,
                "request_id": "r-1", "connection_id": 7,
            })
        );
    }

    #[test]
    fn hostile_texts_stay_on_one_line() {
        let work =
            || tracing::error!(path = HOSTILE, shown = %HOSTILE, shape = ?HOSTILE, "{HOSTILE}");
        let text = written(LogFormat::Text, Lead::Time, work);
        let (line, rest) = text.split_at(text.len() - 1);
        assert_eq!(rest, "\n");
        assert!(!line.contains(is_unsafe), "{line:?}");
        assert!(
            line.contains(": a\\nWARN b: c\\r\\t\\u{1b}[31m\\u{7f}"),
            "{line}"
        );
        assert!(line.contains(" path=\"a\\nWARN b: c"), "{line}");
        assert!(line.contains("\\\"q\\\\ \u{e4}\" shown="), "{line}");
        let text = written(LogFormat::Json, Lead::Time, work);
        let (line, rest) = text.split_at(text.len() - 1);
        assert_eq!(rest, "\n");
        assert!(!line.contains(is_unsafe), "{line:?}");
        // Nothing is lost in JSON.
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["message"], &line["path"]),
            (&HOSTILE.into(), &HOSTILE.into())
        );
    }

    #[test]
    fn fields_cannot_replace_the_keys_of_json() {
        let text = written(LogFormat::Json, Lead::Time, || {
            tracing::info!(time = "never", level = 9, target_ = "x", "a");
        });
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["level"], &line["field_time"]),
            (&"info".into(), &"never".into())
        );
        assert_eq!(text.matches("\"time\":").count(), 1, "{text}");
    }
}
