//! Durations of PromQL, and arithmetic with them: `5m`, `300`, `2 * (1h + 30s)`.

use super::lexer::{Kind, Token};
use crate::error::Error;

/// Units of durations in their order, with their seconds.
const UNITS: [(&str, f64); 7] = [
    ("y", 31_536_000.0),
    ("w", 604_800.0),
    ("d", 86_400.0),
    ("h", 3_600.0),
    ("m", 60.0),
    ("s", 1.0),
    ("ms", 0.001),
];
/// Maximum depth of parentheses in a duration.
const MAX_DEPTH: usize = 50;

/// Parses a duration such as `1h30m`, or a number of seconds, into seconds.
pub fn seconds(text: &str) -> Option<f64> {
    if let Some(number) = number(text) {
        return Some(number);
    }
    let (mut rest, mut total, mut next) = (text, 0.0, 0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..]
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let unit = &rest[digits..digits + letters];
        let at = UNITS[next..].iter().position(|(name, _)| *name == unit)? + next;
        let count: u64 = rest[..digits].parse().ok()?;
        // Thousandths are divided, so that 500ms is exactly 0.5.
        total += match unit {
            "ms" => count as f64 / 1000.0,
            _ => count as f64 * UNITS[at].1,
        };
        next = at + 1;
        rest = &rest[digits + letters..];
    }
    (!text.is_empty()).then_some(total)
}

/// Parses a number as PromQL does: decimal, hexadecimal, or with underscores.
fn number(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    match plain
        .strip_prefix("0x")
        .or_else(|| plain.strip_prefix("0X"))
    {
        Some(digits) => u64::from_str_radix(digits, 16)
            .ok()
            .map(|whole| whole as f64),
        None => plain.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// Parser of an arithmetic expression of durations.
pub struct Arithmetic<'a> {
    /// Text of the query.
    pub text: &'a str,
    /// Tokens from the first of the expression.
    pub tokens: &'a [Token],
    /// Number of parsed tokens.
    pub at: usize,
    /// Step of the query, seconds.
    pub step: f64,
    /// Range of the query, seconds.
    pub range: f64,
}

impl Arithmetic<'_> {
    /// Parses a sum, in seconds.
    pub fn sum(&mut self, depth: usize) -> Result<f64, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(
                "duration expression has too many parentheses",
            ));
        }
        let mut value = self.product(depth)?;
        loop {
            match self.symbol() {
                Some('+') => value += self.after(|parser| parser.product(depth))?,
                Some('-') => value -= self.after(|parser| parser.product(depth))?,
                _ => return Ok(value),
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<f64, Error> {
        let mut value = self.signed(depth)?;
        loop {
            let symbol = self.symbol();
            let Some(symbol @ ('*' | '/' | '%')) = symbol else {
                return Ok(value);
            };
            let other = self.after(|parser| parser.signed(depth))?;
            value = match symbol {
                '*' => value * other,
                '/' if other == 0.0 => {
                    return Err(Error::invalid("division by zero in a duration"));
                }
                '/' => value / other,
                _ if other == 0.0 => return Err(Error::invalid("modulo by zero in a duration")),
                _ => value % other,
            };
        }
    }

    fn signed(&mut self, depth: usize) -> Result<f64, Error> {
        match self.symbol() {
            Some('-') => Ok(-self.after(|parser| parser.power(depth))?),
            Some('+') => self.after(|parser| parser.power(depth)),
            _ => self.power(depth),
        }
    }

    fn power(&mut self, depth: usize) -> Result<f64, Error> {
        let base = self.operand(depth)?;
        match self.symbol() {
            Some('^') if depth < MAX_DEPTH => {
                Ok(base.powf(self.after(|parser| parser.power(depth + 1))?))
            }
            _ => Ok(base),
        }
    }

    /// Parses a literal, a function, or an expression in parentheses.
    pub fn operand(&mut self, depth: usize) -> Result<f64, Error> {
        let Some(token) = self.tokens.get(self.at).copied() else {
            return Err(Error::invalid(
                "unexpected end of input in duration expression",
            ));
        };
        let text = &self.text[token.start..token.end];
        self.at += 1;
        match token.kind {
            Kind::Number => seconds(text)
                .ok_or_else(|| Error::invalid(format!("not a valid duration string: {text:?}"))),
            Kind::Symbol('(') => {
                let value = self.sum(depth + 1)?;
                self.expect(')')?;
                Ok(value)
            }
            Kind::Word => self.function(text, depth),
            _ => Err(Error::invalid(format!(
                "unexpected {text:?} in duration expression"
            ))),
        }
    }

    fn function(&mut self, name: &str, depth: usize) -> Result<f64, Error> {
        self.expect('(')?;
        let value = match name {
            "step" => self.step,
            "range" => self.range,
            "min" | "max" => {
                let first = self.sum(depth + 1)?;
                self.expect(',')?;
                let second = self.sum(depth + 1)?;
                match name {
                    "min" => first.min(second),
                    _ => first.max(second),
                }
            }
            _ => {
                return Err(Error::invalid(format!(
                    "unexpected {name:?} in duration expression"
                )));
            }
        };
        self.expect(')')?;
        Ok(value)
    }

    /// Returns the next token, if it is a symbol.
    pub fn symbol(&self) -> Option<char> {
        match self.tokens.get(self.at)?.kind {
            Kind::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// Skips the next token, and parses what follows.
    fn after(&mut self, parse: impl FnOnce(&mut Self) -> Result<f64, Error>) -> Result<f64, Error> {
        self.at += 1;
        parse(self)
    }

    /// Skips the next token, which must be this symbol.
    pub fn expect(&mut self, symbol: char) -> Result<(), Error> {
        if self.symbol() != Some(symbol) {
            return Err(Error::invalid(format!(
                "expected {symbol:?} in duration expression"
            )));
        }
        self.at += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lexer::tokens;

    #[test]
    fn durations_have_units_in_order() {
        assert_eq!(seconds("1h30m"), Some(5_400.0));
        assert_eq!(seconds("500ms"), Some(0.5));
        assert_eq!(seconds("1y1ms"), Some(31_536_000.001));
        assert_eq!(seconds("1_000"), Some(1_000.0));
        assert_eq!(seconds("0x10"), Some(16.0));
        for bad in ["", "m", "5x", "30m1h", "5m5m", "1.5m", "1e999"] {
            assert_eq!(seconds(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn arithmetic_follows_the_usual_precedence() {
        for (text, expected) in [
            ("26m+4m", 1_800.0),
            ("2m*(10+5)", 1_800.0),
            ("-5m+35m", 1_800.0),
            ("30m1s-30m1s % 1m", 1_800.0),
            ("2^3^2", 512.0),
            ("max(step(), 5m)", 300.0),
            ("-2^2", -4.0),
        ] {
            let tokens = tokens(text);
            let mut parser = Arithmetic {
                text,
                tokens: &tokens,
                at: 0,
                step: 15.0,
                range: 3_600.0,
            };
            assert_eq!(parser.sum(0).unwrap(), expected, "{text}");
            assert_eq!(parser.at, tokens.len(), "{text}");
        }
    }
}
