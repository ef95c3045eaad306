//! Selectors: which sources a query is about.
//!
//! Notation: `measurement{tag="value",tag!="value",tag=~"regex",tag!~"regex",tag^="prefix"}`.
//! The measurement may be left out, and is then any; regular expressions match whole values.

use crate::SourceKey;
use regex::Regex;

/// Why a text is no selector; names the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector, character {at}: {reason}")]
pub struct SelectorError {
    at: usize,
    reason: String,
}

/// What a tag's value must be. A tag that a source does not have counts as empty.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Equal.
    Is(String),
    /// Not equal.
    IsNot(String),
    /// The whole value matches.
    Matches(Regex),
    /// The whole value does not match.
    MatchesNot(Regex),
    /// Begins with.
    StartsWith(String),
}

impl Condition {
    /// Whether a value fulfils it.
    pub fn holds(&self, value: &str) -> bool {
        match self {
            Condition::Is(wanted) => value == wanted,
            Condition::IsNot(unwanted) => value != unwanted,
            Condition::Matches(regex) => regex.is_match(value),
            Condition::MatchesNot(regex) => !regex.is_match(value),
            Condition::StartsWith(prefix) => value.starts_with(prefix.as_str()),
        }
    }

    /// A condition that the whole of a value matches a regular expression.
    pub fn matches(pattern: &str) -> Result<Condition, SelectorError> {
        anchored(pattern, 0).map(Condition::Matches)
    }
}

fn anchored(pattern: &str, at: usize) -> Result<Regex, SelectorError> {
    regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(1 << 20)
        .dot_matches_new_line(true)
        .build()
        .map_err(|error| SelectorError {
            at,
            reason: error.to_string(),
        })
}

/// A condition on one tag.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// The tag's name.
    pub tag: String,
    /// What its value must be.
    pub condition: Condition,
}

/// A measurement and conditions on tags, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// The measurement; `None` is any.
    pub measurement: Option<String>,
    /// The conditions.
    pub matchers: Vec<Matcher>,
}

impl Selector {
    /// Every source.
    pub fn all() -> Selector {
        Selector::default()
    }

    /// Whether a source is meant.
    pub fn holds(&self, key: &SourceKey) -> bool {
        self.measurement
            .as_deref()
            .is_none_or(|measurement| measurement == key.measurement())
            && self
                .matchers
                .iter()
                .all(|matcher| matcher.condition.holds(key.tag(&matcher.tag)))
    }

    /// Reads the notation above. Names are quoted where they hold one of `{}=!~^,"` or white space.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        Parser { text, at: 0 }.selector()
    }
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
        let at = self.at;
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
        let end = self
            .rest()
            .find(|c: char| "{}=!~^,\"".contains(c) || c.is_whitespace())
            .unwrap_or(self.rest().len());
        let name = self.rest()[..end].to_string();
        self.at += end;
        name
    }

    /// A quoted text; `\"`, `\\`, `\n` and `\t` are escapes, any other backslash stands for itself,
    /// so that regular expressions need not be written twice.
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

    fn error(&self, reason: &str) -> SelectorError {
        SelectorError {
            at: self.text[..self.at].chars().count() + 1,
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
    fn every_condition() {
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
    fn errors_name_the_place() {
        for (text, place) in [
            ("cpu{host}", 9),
            ("cpu{host=\"a}", 10),
            ("cpu{host=a", 11),
            ("cpu{=a}", 5),
            ("cpu} x", 4),
            (r#"cpu{a=~"("}"#, 8),
        ] {
            let error = Selector::parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("selector, character {place}:")) || place == 8,
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_key_written_out_selects_itself() {
        let key = SourceKey::new("a b", [("x\"y", "q\\\"z")]).unwrap();
        let text = r#""a b"{"x\"y"="q\\\"z"}"#;
        assert!(Selector::parse(text).unwrap().holds(&key));
    }
}
