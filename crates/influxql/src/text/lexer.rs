//! Words and signs of a statement.

use crate::cell::Cell;
use crate::error::Error;
use seiner_model::parse_duration;

/// Word or sign.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// Keyword, function, or name without quotes.
    Word(String),
    /// Name in double quotes.
    Name(String),
    /// Text in single quotes.
    Text(String),
    /// Number.
    Number(Cell),
    /// Duration, ns.
    Duration(i64),
    /// Parameter, `$name`.
    Parameter(String),
    /// Sign.
    Sign(&'static str),
    /// End of the text.
    End,
}

/// Signs, longer ones before their beginnings.
const SIGNS: [&str; 25] = [
    "=~", "!~", "!=", "<>", "<=", ">=", "::", "=", "<", ">", "+", "-", "*", "/", "%", "&", "|",
    "^", "(", ")", ",", ";", ".", ":", "!",
];

/// Reader of words and signs.
#[derive(Clone, Debug)]
pub struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    /// Creates a reader of a text.
    pub fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    /// Returns the place of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Creates an error at a byte.
    pub fn error(&self, at: usize, reason: impl ToString) -> Error {
        Error::Syntax {
            at: self.text[..at].chars().count() + 1,
            reason: reason.to_string(),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    pub fn skip(&mut self) -> Result<(), Error> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let end = trimmed.find("*/");
                let end = end.ok_or_else(|| self.error(self.at, "the comment has no end"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// Returns the next word or sign.
    pub fn token(&mut self) -> Result<Token, Error> {
        self.skip()?;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        let second = rest[first.len_utf8()..].chars().next();
        match first {
            '"' => self.quoted('"').map(Token::Name),
            '\'' => self.quoted('\'').map(Token::Text),
            '$' => self.parameter(),
            '0'..='9' => self.number(),
            '.' if second.is_some_and(|next| next.is_ascii_digit()) => self.number(),
            _ if is_letter(first) => Ok(Token::Word(self.word().to_string())),
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let unknown = || self.error(self.at, format!("found {first:?}"));
                let sign = sign.ok_or_else(unknown)?;
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
        }
    }

    /// Returns the pattern of a regular expression if one follows: `/pattern/`.
    pub fn pattern(&mut self) -> Result<Option<String>, Error> {
        self.skip()?;
        if !self.rest().starts_with('/') {
            return Ok(None);
        }
        let begin = self.at;
        self.at += 1;
        let mut pattern = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((index, c)) = chars.next() {
            match c {
                '/' => {
                    self.at += index + 1;
                    return Ok(Some(pattern));
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, '/')) => pattern.push('/'),
                    Some((_, next)) => pattern.extend(['\\', next]),
                    None => break,
                },
                _ => pattern.push(c),
            }
        }
        Err(self.error(begin, "the regular expression has no end"))
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_letter(c) && !char::is_ascii_digit(&c));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn quoted(&mut self, quote: char) -> Result<String, Error> {
        let begin = self.at;
        self.at += 1;
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((index, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, escaped @ ('\\' | '"' | '\''))) => text.push(escaped),
                    _ => return Err(self.error(self.at + index, "unknown escape")),
                },
                '\n' => break,
                _ if c == quote => {
                    self.at += index + 1;
                    return Ok(text);
                }
                _ => text.push(c),
            }
        }
        Err(self.error(begin, format!("the text after {quote} has no end")))
    }

    fn parameter(&mut self) -> Result<Token, Error> {
        let begin = self.at;
        self.at += 1;
        let name = match self.rest().starts_with('"') {
            true => self.quoted('"')?,
            false => self.word().to_string(),
        };
        match name.is_empty() {
            true => Err(self.error(begin, "$ needs the name of a parameter")),
            false => Ok(Token::Parameter(name)),
        }
    }

    /// Reads a number, or a duration: digits with units.
    fn number(&mut self) -> Result<Token, Error> {
        let begin = self.at;
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '.');
        let text = &rest[..end.unwrap_or(rest.len())];
        self.at += text.len();
        if let Ok(value) = text.parse::<i64>() {
            return Ok(Token::Number(Cell::Integer(value)));
        }
        if let Ok(value) = text.parse::<u64>() {
            return Ok(Token::Number(Cell::Unsigned(value)));
        }
        if text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            let value = text.parse::<f64>();
            let value =
                value.map_err(|_| self.error(begin, format!("{text:?} is not a number")))?;
            return Ok(Token::Number(Cell::Float(value)));
        }
        // InfluxDB has a short unit of microseconds.
        let units = text.replace("us", "u").replace(['u', 'µ', 'μ'], "us");
        let duration = parse_duration(&units);
        let duration = duration.map_err(|_| {
            let units = "ns, u, ms, s, m, h, d, w";
            self.error(
                begin,
                format!("{text:?} is neither a number nor a duration ({units})"),
            )
        })?;
        Ok(Token::Duration(duration))
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        let mut lexer = Lexer::new(text);
        let all = std::iter::from_fn(|| Some(lexer.token().unwrap()));
        all.take_while(|token| *token != Token::End).collect()
    }

    #[test]
    fn words_numbers_and_durations_are_told_apart() {
        let expected = [
            Token::Word("cpu_1".into()),
            Token::Name("a b\"".into()),
            Token::Text("it's".into()),
            Token::Number(Cell::Integer(10)),
            Token::Number(Cell::Float(0.5)),
            Token::Number(Cell::Unsigned(u64::MAX)),
            Token::Duration(5_000),
            Token::Duration(7_000),
            Token::Duration(5_400_000_000_000),
            Token::Parameter("p".into()),
            Token::Sign("!~"),
        ];
        let text =
            r#"cpu_1 "a b\"" 'it\'s' 10 .5 18446744073709551615 5u 7µ 1h30m $p !~ -- the end"#;
        assert_eq!(tokens(text), expected);
    }

    #[test]
    fn patterns_may_contain_slashes() {
        let mut lexer = Lexer::new(r" /a\/b\.c/ x");
        assert_eq!(lexer.pattern().unwrap(), Some(r"a/b\.c".to_string()));
        assert_eq!(lexer.token().unwrap(), Token::Word("x".into()));
    }

    #[test]
    fn errors_state_the_place() {
        for (text, at) in [("'a", 1), ("µ 'a", 3), ("3x", 1), ("#", 1), ("1.2.3", 1)] {
            let mut lexer = Lexer::new(text);
            let error = loop {
                match lexer.token() {
                    Ok(Token::End) => panic!("{text} has no error"),
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert!(
                error.to_string().ends_with(&format!("character {at}")),
                "{error}"
            );
        }
    }
}
