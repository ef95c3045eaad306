//! Selectors: conditions that choose the sources of a query.
//!
//! Notation: `measurement{tag="value",tag!="value",tag=~"regex",tag!~"regex",tag^="prefix"}`. A selector
//! without a measurement matches every measurement. Regular expressions match whole values.

use crate::{Pattern, SourceKey};
use std::fmt::{self, Write as _};

/// Error of parsing a selector: the reason, and the place as a character number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector, character {at}: {reason}")]
pub struct SelectorError {
    at: usize,
    reason: String,
}

/// Condition on the value of a tag. A source without the tag counts as having an empty value.
#[derive(Clone, Debug)]
pub enum Condition {
    /// The value is equal to this text.
    Is(String),
    /// The value is not equal to this text.
    IsNot(String),
    /// The regular expression matches the whole value.
    Matches(Pattern),
    /// The regular expression does not match the whole value.
    MatchesNot(Pattern),
    /// The value begins with this text.
    StartsWith(String),
}

impl Condition {
    /// Returns whether a value meets the condition.
    pub fn holds(&self, value: &str) -> bool {
        match self {
            Condition::Is(wanted) => value == wanted,
            Condition::IsNot(unwanted) => value != unwanted,
            Condition::Matches(pattern) => pattern.is_match(value),
            Condition::MatchesNot(pattern) => !pattern.is_match(value),
            Condition::StartsWith(prefix) => value.starts_with(prefix.as_str()),
        }
    }

    /// Creates a condition that the regular expression `pattern` matches the whole value.
    ///
    /// # Errors
    /// If `pattern` is not a regular expression, or its compiled form exceeds 1 MiB.
    pub fn matches(pattern: &str) -> Result<Condition, SelectorError> {
        anchored(pattern, 0).map(Condition::Matches)
    }
}

fn anchored(pattern: &str, at: usize) -> Result<Pattern, SelectorError> {
    Pattern::new(pattern).map_err(|error| SelectorError {
        at,
        reason: error.to_string(),
    })
}

/// A condition on one tag.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// Name of the tag.
    pub tag: String,
    /// Condition that the tag's value must meet.
    pub condition: Condition,
}

/// A measurement and conditions on tags. A source must meet all of them.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// Measurement of the sources; `None` matches any.
    pub measurement: Option<String>,
    /// Conditions on tags.
    pub matchers: Vec<Matcher>,
}

impl Selector {
    /// Returns the selector of every source.
    pub fn all() -> Selector {
        Selector::default()
    }

    /// Returns whether a source meets all conditions.
    pub fn holds(&self, key: &SourceKey) -> bool {
        self.measurement
            .as_deref()
            .is_none_or(|measurement| measurement == key.measurement())
            && self
                .matchers
                .iter()
                .all(|matcher| matcher.condition.holds(key.tag(&matcher.tag)))
    }

    /// Parses a selector such as
    /// `measurement{tag="value",tag!="value",tag=~"regex",tag!~"regex",tag^="prefix"}`.
    ///
    /// A selector without a measurement matches every measurement. Regular expressions match whole values. A
    /// name needs quotes if it contains one of `{}=!~^,"` or white space.
    ///
    /// # Errors
    /// If the text is not a selector. The error contains the place.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        Parser { text, at: 0 }.selector()
    }
}

impl fmt::Display for Selector {
    /// Writes the notation that [`Selector::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(measurement) = &self.measurement {
            write_name(f, measurement)?;
        }
        for (nth, Matcher { tag, condition }) in self.matchers.iter().enumerate() {
            f.write_char(if nth == 0 { '{' } else { ',' })?;
            write_name(f, tag)?;
            let (sign, value) = match condition {
                Condition::Is(value) => ("=", value.as_str()),
                Condition::IsNot(value) => ("!=", value.as_str()),
                Condition::Matches(pattern) => ("=~", pattern.as_str()),
                Condition::MatchesNot(pattern) => ("!~", pattern.as_str()),
                Condition::StartsWith(value) => ("^=", value.as_str()),
            };
            f.write_str(sign)?;
            write_quoted(f, value)?;
        }
        match self.matchers.is_empty() {
            true => Ok(()),
            false => f.write_char('}'),
        }
    }
}

/// Returns whether a character ends an unquoted name.
fn ends_name(c: char) -> bool {
    "{}=!~^,\"".contains(c) || c.is_whitespace()
}

/// Writes a measurement or the name of a tag, in quotes if the notation of selectors requires them.
pub(crate) fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    match name.is_empty() || name.contains(|c: char| ends_name(c) || is_unprintable(c)) {
        true => write_quoted(f, name),
        false => f.write_str(name),
    }
}

/// Writes a text in quotes. Escapes quotes, backslashes and characters that cannot be printed.
pub(crate) fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            c if is_unprintable(c) => write!(f, "{}", c.escape_unicode())?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Returns whether a character is written as `\u{…}`: control characters, invisible characters, and characters
/// that combine with their neighbours.
fn is_unprintable(c: char) -> bool {
    c.is_control() || !c.is_ascii() && c.escape_debug().len() > 1
}

/// Parses `{1b}` after `\u`. Returns the character and the length of the braces with their contents. Returns
/// `None` for printable ASCII, which is left to regular expressions: there, `\u{2e}` is a literal dot, and a
/// bare dot is not.
fn unicode(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix('{')?.split_once('}')?.0;
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    (c.is_control() || !c.is_ascii()).then_some((c, digits.len() + 2))
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn selector(mut self) -> Result<Selector, SelectorError> {
        self.skip_space();
        let mut selector = Selector::all();
        if !self.rest().is_empty() && !self.rest().starts_with('{') {
            selector.measurement = Some(self.name("a measurement")?);
            self.skip_space();
        }
        if self.take("{") {
            loop {
                self.skip_space();
                if self.take("}") {
                    break;
                }
                selector.matchers.push(self.matcher()?);
                self.skip_space();
                if !self.take(",") && !self.rest().starts_with('}') {
                    return Err(self.error("expected , or }"));
                }
            }
        }
        self.skip_space();
        if self.rest().is_empty() {
            Ok(selector)
        } else {
            Err(self.error("expected the end"))
        }
    }

    fn matcher(&mut self) -> Result<Matcher, SelectorError> {
        let tag = self.name("a tag")?;
        self.skip_space();
        let operator = ["=~", "!~", "!=", "^=", "="]
            .into_iter()
            .find(|operator| self.take(operator))
            .ok_or_else(|| self.error("expected =, !=, =~, !~ or ^="))?;
        self.skip_space();
        let at = self.character();
        let value = if self.rest().starts_with('"') {
            self.quoted()?
        } else {
            self.bare()
        };
        let condition = match operator {
            "=" => Condition::Is(value),
            "!=" => Condition::IsNot(value),
            "=~" => Condition::Matches(anchored(&value, at)?),
            "!~" => Condition::MatchesNot(anchored(&value, at)?),
            _ => Condition::StartsWith(value),
        };
        Ok(Matcher { tag, condition })
    }

    fn name(&mut self, what: &str) -> Result<String, SelectorError> {
        let name = if self.rest().starts_with('"') {
            self.quoted()?
        } else {
            self.bare()
        };
        if name.is_empty() {
            Err(self.error(&format!("expected {what}")))
        } else {
            Ok(name)
        }
    }

    fn bare(&mut self) -> String {
        let end = self.rest().find(ends_name).unwrap_or(self.rest().len());
        let name = self.rest()[..end].to_string();
        self.at += end;
        name
    }

    /// Parses a quoted text. Escapes are `\"`, `\\`, `\n`, `\t`, and `\u{…}` of characters that cannot be
    /// printed. Any other backslash is kept, so the backslashes of regular expressions need not be doubled.
    fn quoted(&mut self) -> Result<String, SelectorError> {
        let start = self.at;
        let mut text = String::new();
        let rest = self.text[self.at + 1..].to_string();
        let mut chars = rest.char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += 1 + index + 1;
                    return Ok(text);
                }
                '\\' => match chars.peek().map(|(_, next)| *next) {
                    Some(escaped @ ('"' | '\\')) => {
                        text.push(escaped);
                        chars.next();
                    }
                    Some('n') => {
                        text.push('\n');
                        chars.next();
                    }
                    Some('t') => {
                        text.push('\t');
                        chars.next();
                    }
                    Some('u') => match unicode(&rest[index + 2..]) {
                        Some((c, len)) => {
                            text.push(c);
                            // Skips the `u` and the braces with their contents, all of them ASCII.
                            chars.nth(len);
                        }
                        None => text.push('\\'),
                    },
                    _ => text.push('\\'),
                },
                c => text.push(c),
            }
        }
        self.at = start;
        Err(self.error("the quoted text has no end"))
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Returns the number of the next character, from 1.
    fn character(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn error(&self, reason: &str) -> SelectorError {
        SelectorError {
            at: self.character(),
            reason: reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SourceKey {
        SourceKey::new("cpu", [("host", "web-1"), ("core", "0")]).unwrap()
    }

    #[test]
    fn conditions_select_the_matching_keys() {
        for (text, holds) in [
            ("cpu", true),
            ("mem", false),
            ("", true),
            ("{}", true),
            (r#"cpu{host="web-1"}"#, true),
            ("cpu{host=web-1, core=0,}", true),
            (r#"{host!="web-1"}"#, false),
            (r#"{rack=""}"#, true),
            (r#"{rack!=""}"#, false),
            (r#"{host=~"web-\d"}"#, true),
            (r#"{host=~"web"}"#, false),
            (r#"{host!~"db.*"}"#, true),
            (r#"{host^="web"}"#, true),
            (r#"{host^="db"}"#, false),
        ] {
            assert_eq!(
                Selector::parse(text).unwrap().holds(&key()),
                holds,
                "{text}"
            );
        }
    }

    #[test]
    fn errors_state_the_position() {
        for (text, place) in [
            ("cpu{host}", 9),
            ("cpu{host=\"a}", 10),
            ("cpu{host=a", 11),
            ("cpu{=a}", 5),
            ("cpu} x", 4),
            (r#"cpu{a=~"("}"#, 8),
            (r#"µ{a!~"("}"#, 6),
        ] {
            let error = Selector::parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("selector, character {place}:")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_key_written_out_selects_itself() {
        for text in [
            "plain",
            "a b",
            "x\"y",
            "q\\\"z",
            r"\\server\share",
            r"C:\",
            "a{b}=c,d",
            "~!^",
            "µé",
            "line\nbreak\ttab\rreturn",
            "\u{1b}[31m",
            "\u{202e}x",
            "\u{301}",
            "'",
            r"\u{1b}",
            r"\u{zz}",
            r"\u",
        ] {
            let key = SourceKey::new(text, [(text, text)]).unwrap();
            let written = key.to_string();
            assert!(!written.contains(char::is_control), "{written:?}");
            let selector = Selector::parse(&written).unwrap();
            assert!(selector.holds(&key), "{written}");
            assert_eq!(selector.measurement.as_deref(), Some(text), "{written}");
            assert_eq!(selector.matchers[0].tag, text, "{written}");
        }
        // An escape of a printable character keeps its meaning in a regular expression.
        let dot = SourceKey::new("m", [("a", ".")]).unwrap();
        let other = SourceKey::new("m", [("a", "x")]).unwrap();
        let selector = Selector::parse(r#"{a=~"\u{2e}"}"#).unwrap();
        assert!(selector.holds(&dot) && !selector.holds(&other));
    }

    #[test]
    fn a_written_selector_is_read_back() {
        for text in [
            "",
            "cpu",
            r#"cpu{host="a"}"#,
            r#"{host!="a",core=~"1|2"}"#,
            r#""two words"{"a b"="c\"d",e!~"x.*\\d",f^="p"}"#,
        ] {
            let once = Selector::parse(text).unwrap().to_string();
            assert_eq!(Selector::parse(&once).unwrap().to_string(), once);
            assert_eq!(once, text);
        }
    }
}
