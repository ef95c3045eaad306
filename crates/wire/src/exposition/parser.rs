//! Parser of a text, line by line.

use super::cursor::{Cursor, unescaped};
use crate::line::shown;
use crate::remote_write::METRIC_TYPES;
use std::borrow::Cow;

/// Maximum number of labels of a sample.
const MAX_LABELS: usize = 256;
const NS_PER_MS: i64 = 1_000_000;
/// Quiet NaN without a payload. A target cannot send a stale marker.
const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0001);

/// Form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Format 0.0.4 of Prometheus: times in ms.
    Prometheus,
    /// OpenMetrics 1.0: times in seconds, and `# EOF` at the end.
    OpenMetrics,
}

/// Text that is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadText {
    /// Number of the line, from 1.
    pub line: u64,
    /// Reason of the error.
    pub reason: String,
}

/// Name and value of a label.
pub type Label<'t> = (Cow<'t, str>, Cow<'t, str>);

/// Sample of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'t> {
    /// Name of the metric.
    pub metric: Cow<'t, str>,
    /// Labels, in the order of the line. Values may be empty.
    pub labels: Vec<Label<'t>>,
    /// Value. Every NaN is the same one.
    pub value: f64,
    /// Time in ns since 1970, if the line has one.
    pub time: Option<i64>,
    /// True if the line has an exemplar, which is ignored.
    pub has_exemplar: bool,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'t> {
    /// A sample.
    Sample(Sample<'t>),
    /// Type of a family of metrics: one of [`METRIC_TYPES`].
    Type(&'t str, &'static str),
    /// Description of a family for people.
    Help(&'t str, Cow<'t, str>),
    /// Unit of a family.
    Unit(&'t str, &'t str),
}

/// Text of a target: an iterator of the contents of its lines. It ends after an error.
#[derive(Debug)]
pub struct Exposition<'t> {
    rest: &'t str,
    form: Form,
    line: u64,
    is_ended: bool,
}

impl<'t> Exposition<'t> {
    /// Creates the parser of a text.
    ///
    /// # Errors
    /// If the text is not UTF-8.
    pub fn new(text: &'t [u8], form: Form) -> Result<Exposition<'t>, BadText> {
        let rest = std::str::from_utf8(text).map_err(|error| {
            let before = &text[..error.valid_up_to()];
            BadText {
                line: 1 + memchr::memchr_iter(b'\n', before).count() as u64,
                reason: "the line is not UTF-8".to_string(),
            }
        })?;
        Ok(Exposition {
            rest,
            form,
            line: 0,
            is_ended: false,
        })
    }

    /// Returns the number of the present line, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next content.
    fn item(&mut self) -> Result<Option<Item<'t>>, String> {
        while !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            self.line += 1;
            if self.is_ended {
                return Err("a line follows # EOF".to_string());
            }
            let line = line.trim_matches([' ', '\t', '\r']);
            let found = match line.strip_prefix('#') {
                Some(comment) => self.comment(comment)?,
                None if line.is_empty() => None,
                None => Some(Item::Sample(self.sample(line)?)),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        match self.form == Form::OpenMetrics && !self.is_ended {
            true => Err("the text ends without # EOF, so that a part may be missing".to_string()),
            false => Ok(None),
        }
    }

    /// Parses a comment. Returns `None` if it has no content.
    fn comment(&mut self, comment: &'t str) -> Result<Option<Item<'t>>, String> {
        let mut cursor = Cursor(comment);
        cursor.skip_blanks();
        let word = cursor.word();
        if self.form == Form::OpenMetrics && word == "EOF" {
            self.is_ended = true;
        }
        if !matches!(word, "TYPE" | "HELP" | "UNIT") {
            return Ok(None);
        }
        cursor.skip_blanks();
        let family = match cursor.quoted()? {
            // No metadata are kept for a name that contains an escape.
            Some(Cow::Owned(_)) => return Ok(None),
            Some(Cow::Borrowed(family)) => family,
            None => cursor.name(true)?,
        };
        cursor.skip_blanks();
        Ok(Some(match word {
            "TYPE" => Item::Type(family, kind(cursor.word())?),
            "HELP" => Item::Help(family, unescaped(cursor.0)),
            _ => Item::Unit(family, cursor.word()),
        }))
    }

    fn sample(&self, line: &'t str) -> Result<Sample<'t>, String> {
        let mut cursor = Cursor(line);
        let mut metric = match line.starts_with('{') {
            true => Cow::Borrowed(""),
            false => Cow::Borrowed(cursor.name(true)?),
        };
        cursor.skip_blanks();
        let mut labels = Vec::new();
        if cursor.take('{') {
            self::labels(&mut cursor, &mut metric, &mut labels)?;
        }
        if metric.is_empty() {
            return Err("the line has no name of a metric".to_string());
        }
        cursor.skip_blanks();
        let value = number("value", cursor.word())?;
        let value = if value.is_nan() { NAN } else { value };
        cursor.skip_blanks();
        let is_exemplar = |rest: &str| self.form == Form::OpenMetrics && rest.starts_with('#');
        let time = match cursor.0.is_empty() || is_exemplar(cursor.0) {
            true => None,
            false => Some(self.time(cursor.word())?),
        };
        cursor.skip_blanks();
        let has_exemplar = is_exemplar(cursor.0);
        match cursor.0.is_empty() || has_exemplar {
            true => Ok(Sample {
                metric,
                labels,
                value,
                time,
                has_exemplar,
            }),
            false => Err(format!("{:?} follows the time", shown(cursor.0.as_bytes()))),
        }
    }

    /// Parses a time. Returns ns.
    fn time(&self, word: &str) -> Result<i64, String> {
        let ms = match self.form {
            Form::Prometheus => word.parse::<i64>().map_err(|_| {
                let word = shown(word.as_bytes());
                format!("time {word:?} is not a whole number of ms since 1970")
            })? as f64,
            Form::OpenMetrics => (number("time", word)? * 1e3).round(),
        };
        // The product of a larger number does not fit; NaN is outside as well.
        match ms.abs() < 9_223_372_036_854.0 {
            true => Ok(ms as i64 * NS_PER_MS),
            false => Err(format!("time {word} is outside of the years 1677 to 2262")),
        }
    }
}

impl<'t> Iterator for Exposition<'t> {
    type Item = Result<Item<'t>, BadText>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.item().map_err(|reason| BadText {
            line: self.line.max(1),
            reason,
        });
        if found.is_err() {
            (self.rest, self.is_ended) = ("", true);
        }
        found.transpose()
    }
}

/// Parses labels after their opening brace. A text in quotes without a value is the name of the metric.
fn labels<'t>(
    cursor: &mut Cursor<'t>,
    metric: &mut Cow<'t, str>,
    labels: &mut Vec<Label<'t>>,
) -> Result<(), String> {
    loop {
        cursor.skip_blanks();
        if cursor.take('}') {
            return Ok(());
        }
        let quoted = cursor.quoted()?;
        let is_quoted = quoted.is_some();
        let name = match quoted {
            Some(name) => name,
            None => Cow::Borrowed(cursor.name(false)?),
        };
        cursor.skip_blanks();
        if cursor.take('=') {
            cursor.skip_blanks();
            let value = cursor.quoted()?;
            let value = value.ok_or_else(|| format!("the value of label {name} has no quotes"))?;
            if labels.len() >= MAX_LABELS {
                return Err(format!("the sample has more than {MAX_LABELS} labels"));
            }
            labels.push((name, value));
        } else if is_quoted && metric.is_empty() {
            *metric = name;
        } else {
            return Err(format!("label {name} has no value"));
        }
        cursor.skip_blanks();
        if !cursor.take(',') && !cursor.0.starts_with('}') {
            return Err("the labels have no closing brace".to_string());
        }
    }
}

fn number(part: &str, word: &str) -> Result<f64, String> {
    word.parse()
        .map_err(|_| format!("{part} {:?} is not a number", shown(word.as_bytes())))
}

/// Returns a type as metadata name it.
fn kind(word: &str) -> Result<&'static str, String> {
    let word = if word == "untyped" { "unknown" } else { word };
    let known = METRIC_TYPES.into_iter().find(|known| *known == word);
    known.ok_or_else(|| format!("{:?} is not a type of a metric", shown(word.as_bytes())))
}
