//! Reader of the tokens of a statement.

use super::lexer::{Lexer, Token};
use crate::cell::Cell;
use crate::error::Error;
use regex::Regex;
use std::collections::BTreeMap;

/// Maximum number of expressions and queries within each other.
const MAX_DEPTH: usize = 64;
/// Maximum number of operators of a request. Expressions of many operators are deep, too.
const MAX_OPERATORS: usize = 2000;
/// Maximum size of a compiled regular expression, bytes.
const MAX_REGEX: usize = 1 << 20;

/// Reader of tokens.
pub struct Parser<'t> {
    lexer: Lexer<'t>,
    parameters: &'t BTreeMap<String, Cell>,
    depth: usize,
    operators: usize,
    /// Database that the present statement names.
    database: Option<String>,
}

impl<'t> Parser<'t> {
    /// Creates a reader of a text, with the values of parameters.
    pub fn new(text: &'t str, parameters: &'t BTreeMap<String, Cell>) -> Parser<'t> {
        Parser {
            lexer: Lexer::new(text),
            parameters,
            depth: 0,
            operators: 0,
            database: None,
        }
    }

    /// Notes the database that the present statement names.
    ///
    /// # Errors
    /// If the statement names another one, too.
    pub fn note_database(&mut self, name: String) -> Result<(), Error> {
        match self.database.replace(name) {
            Some(before) if self.database.as_ref() != Some(&before) => Err(Error::invalid(
                "a statement reads one database; write one statement for each",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the database that the present statement names, at its end.
    pub fn take_database(&mut self) -> Option<String> {
        self.database.take()
    }

    /// Returns the next token. It stays the next.
    pub fn peek(&self) -> Result<Token, Error> {
        self.lexer.clone().token()
    }

    /// Reads the next token.
    pub fn next(&mut self) -> Result<Token, Error> {
        self.lexer.token()
    }

    /// Reads the next token if it is this sign.
    pub fn accept(&mut self, sign: &str) -> Result<bool, Error> {
        let found = matches!(self.peek()?, Token::Sign(found) if found == sign);
        if found {
            self.next()?;
        }
        Ok(found)
    }

    /// Reads this sign.
    pub fn expect(&mut self, sign: &str) -> Result<(), Error> {
        match self.accept(sign)? {
            true => Ok(()),
            false => Err(self.unexpected(sign)),
        }
    }

    /// Reads the next token if it is this keyword.
    pub fn keyword(&mut self, keyword: &str) -> Result<bool, Error> {
        let found = matches!(self.peek()?, Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if found {
            self.next()?;
        }
        Ok(found)
    }

    /// Reads these keywords if the first is the next token.
    pub fn keywords(&mut self, first: &str, second: &str) -> Result<bool, Error> {
        if !self.keyword(first)? {
            return Ok(false);
        }
        match self.keyword(second)? {
            true => Ok(true),
            false => Err(self.unexpected(second)),
        }
    }

    /// Reads a name, with or without quotes.
    pub fn name(&mut self, what: &str) -> Result<String, Error> {
        match self.peek()? {
            Token::Word(name) | Token::Name(name) => {
                self.next()?;
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Reads a whole number.
    pub fn count(&mut self) -> Result<usize, Error> {
        let found = match self.peek()? {
            Token::Number(number) => number.whole(),
            Token::Parameter(name) => self.parameter(&name)?.whole(),
            _ => None,
        };
        let count = found.and_then(|whole| usize::try_from(whole).ok());
        let count = count.ok_or_else(|| self.unexpected("a whole number"))?;
        self.next()?;
        Ok(count)
    }

    /// Reads a regular expression if one follows.
    pub fn regex(&mut self) -> Result<Option<Regex>, Error> {
        let at = self.lexer.at();
        let Some(pattern) = self.lexer.pattern()? else {
            return Ok(None);
        };
        let regex = regex::RegexBuilder::new(&pattern)
            .size_limit(MAX_REGEX)
            .build();
        regex.map(Some).map_err(|error| self.lexer.error(at, error))
    }

    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Result<Cell, Error> {
        let value = self.parameters.get(name).cloned();
        value.ok_or_else(|| {
            Error::invalid(format!(
                "the statement has ${name}, which the parameter params of the request does not contain"
            ))
        })
    }

    /// Reads a part that may contain parts of its kind.
    ///
    /// # Errors
    /// If there are too many within each other.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            let reason = format!("more than {MAX_DEPTH} expressions are nested");
            return Err(self.lexer.error(self.lexer.at(), reason));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Counts an operator.
    ///
    /// # Errors
    /// If the request has too many.
    pub fn count_operator(&mut self) -> Result<(), Error> {
        self.operators += 1;
        match self.operators > MAX_OPERATORS {
            true => Err(Error::invalid(format!(
                "the request has more than {MAX_OPERATORS} operators; for many values of a tag, use =~ /^(a|b)$/"
            ))),
            false => Ok(()),
        }
    }

    /// Creates an error at the next token.
    pub fn unexpected(&self, expected: &str) -> Error {
        let mut lexer = self.lexer.clone();
        if let Err(error) = lexer.skip() {
            return error;
        }
        let at = lexer.at();
        let found = match lexer.token() {
            Ok(Token::End) => "the end".to_string(),
            Ok(Token::Word(word)) => word,
            Ok(Token::Name(name)) => format!("{name:?}"),
            Ok(Token::Text(text)) => format!("'{text}'"),
            Ok(Token::Sign(sign)) => sign.to_string(),
            Ok(Token::Parameter(name)) => format!("${name}"),
            Ok(Token::Number(_)) => "a number".to_string(),
            Ok(Token::Duration(_)) => "a duration".to_string(),
            Err(error) => return error,
        };
        lexer.error(at, format!("found {found}, expected {expected}"))
    }
}
