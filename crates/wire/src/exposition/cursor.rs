//! Position in a line, and the words from there on.

use crate::line::shown;
use std::borrow::Cow;

/// Rest of a line.
pub(super) struct Cursor<'t>(pub &'t str);

impl<'t> Cursor<'t> {
    /// Skips spaces and tabs.
    pub fn skip_blanks(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    /// Takes a character, if it is the next one.
    pub fn take(&mut self, wanted: char) -> bool {
        match self.0.strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Returns the text up to the next blank.
    pub fn word(&mut self) -> &'t str {
        self.until(|letter| matches!(letter, ' ' | '\t'))
    }

    /// Returns a name: letters, digits, `_` and, in names of metrics, `:`. A digit is not the first.
    ///
    /// # Errors
    /// If no name is next.
    pub fn name(&mut self, is_metric: bool) -> Result<&'t str, String> {
        let line = self.0;
        let name = self.until(|letter| {
            !(letter.is_ascii_alphanumeric() || letter == '_' || (is_metric && letter == ':'))
        });
        match name.as_bytes().first() {
            Some(first) if !first.is_ascii_digit() => Ok(name),
            _ => Err(format!(
                "{:?} does not begin with the name of a {}",
                shown(line.as_bytes()),
                if is_metric { "metric" } else { "label" }
            )),
        }
    }

    /// Returns a text in quotes; `None` if the next character is no quote.
    ///
    /// # Errors
    /// If the closing quote is missing.
    pub fn quoted(&mut self) -> Result<Option<Cow<'t, str>>, String> {
        let Some(text) = self.0.strip_prefix('"') else {
            return Ok(None);
        };
        let mut is_escaped = false;
        let end = text.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let end = end.ok_or("a text in quotes has no closing quote")?;
        self.0 = &text[end + 1..];
        Ok(Some(unescaped(&text[..end])))
    }

    fn until(&mut self, is_end: impl Fn(char) -> bool) -> &'t str {
        let end = self.0.find(is_end).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }
}

/// Returns a text without escapes: `\\`, `\"` and `\n`. Other backslashes stay.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let escape = match letter {
            '\\' => letters.clone().next(),
            _ => None,
        };
        match escape {
            Some('n') => plain.push('\n'),
            Some(escaped @ ('\\' | '"')) => plain.push(escaped),
            _ => {
                plain.push(letter);
                continue;
            }
        }
        letters.next();
    }
    Cow::Owned(plain)
}
