//! Rewriting of durations before the text is parsed.
//!
//! The parser knows literal durations only, and some of its conversions panic or lose digits. Therefore every duration
//! between square brackets and after `offset` is computed here, and replaced by a literal of seconds and milliseconds.
//! The size of the text is checked as well, so that neither the parser nor the evaluator nests too deep.

use super::duration::{Arithmetic, seconds};
use super::lexer::{Kind, Token, tokens};
use crate::error::Error;

/// Maximum number of tokens of a query.
const MAX_TOKENS: usize = 20_000;
/// Maximum depth of parentheses.
const MAX_DEPTH: usize = 100;
/// Maximum number of operators.
const MAX_OPERATORS: usize = 500;
/// Longest duration, seconds: the parser keeps 32 bits of a number of seconds.
const MAX_SECONDS: f64 = u32::MAX as f64;
/// Words between two operands. An `offset` after them is a name.
const OPERATORS: [&str; 12] = [
    "and",
    "or",
    "unless",
    "atan2",
    "bool",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
];

/// Step and range of the query, for durations that depend on them.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Step, seconds.
    pub step: f64,
    /// Range, seconds.
    pub range: f64,
}

/// Returns the text with literal durations only.
///
/// # Errors
/// If a duration is invalid, or the text is too long or nested too deep.
pub fn rewrite(text: &str, times: Times) -> Result<String, Error> {
    let tokens = tokens(text);
    check_size(text, &tokens)?;
    check_texts(text, &tokens)?;
    let mut result = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    while at < tokens.len() {
        let replaced = if tokens[at].is('[') {
            Some(brackets(text, &tokens[at..], times)?)
        } else if is_offset(text, &tokens, at) {
            Some(offset(text, &tokens[at..], times)?)
        } else {
            None
        };
        let Some((replacement, used)) = replaced else {
            at += 1;
            continue;
        };
        result.push_str(&text[copied..tokens[at].start]);
        result.push_str(&replacement);
        at += used;
        copied = tokens[at - 1].end;
    }
    result.push_str(&text[copied..]);
    Ok(result)
}

fn check_size(text: &str, tokens: &[Token]) -> Result<(), Error> {
    let (mut depth, mut operators, mut in_braces) = (0_usize, 0, false);
    for token in tokens {
        match token.kind {
            Kind::Symbol('{') => in_braces = true,
            Kind::Symbol('}') => in_braces = false,
            // Within braces, this is a part of the condition on a label.
            Kind::Symbol('!') if !in_braces => operators += 1,
            _ => {}
        }
        match token.kind {
            Kind::Symbol('(' | '[' | '{') => depth += 1,
            Kind::Symbol(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Kind::Symbol('+' | '-' | '*' | '/' | '%' | '^' | '<' | '>') => operators += 1,
            Kind::Word if OPERATORS.contains(&&text[token.start..token.end]) => operators += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::Limit(format!(
                "query has more than {MAX_DEPTH} parentheses inside each other"
            )));
        }
    }
    let equal = tokens
        .windows(2)
        .filter(|pair| pair[0].is('=') && pair[1].is('='))
        .count();
    if operators + equal > MAX_OPERATORS {
        return Err(Error::Limit(format!(
            "query has more than {MAX_OPERATORS} operators"
        )));
    }
    match tokens.len() > MAX_TOKENS {
        true => Err(Error::Limit(format!(
            "query has more than {MAX_TOKENS} words and symbols"
        ))),
        false => Ok(()),
    }
}

/// Checks that no text contains an escaped byte that is not ASCII, such as `\xff`: the parser would take it for the
/// character with this number.
fn check_texts(text: &str, tokens: &[Token]) -> Result<(), Error> {
    let texts = tokens.iter().filter(|token| token.kind == Kind::Text);
    for quoted in texts.map(|token| &text[token.start..token.end]) {
        let mut rest = if quoted.starts_with('`') { "" } else { quoted };
        while let Some((_, escaped)) = rest.split_once('\\') {
            let is_byte = match escaped.as_bytes() {
                [b'x' | b'X', high, ..] => high.is_ascii_hexdigit() && !(b'0'..b'8').contains(high),
                [high, ..] => matches!(high, b'2' | b'3'),
                [] => false,
            };
            if is_byte {
                return Err(Error::invalid(format!(
                    "invalid text {quoted}: an escaped byte is not UTF-8; use \\u and the number of the character"
                )));
            }
            // Skips the escaped character, which may be another backslash.
            let mut chars = escaped.chars();
            chars.next();
            rest = chars.as_str();
        }
    }
    Ok(())
}

/// Returns whether the token is the keyword `offset`, and not a name. No number follows a name.
fn is_offset(text: &str, tokens: &[Token], at: usize) -> bool {
    let word = |token: &Token| text[token.start..token.end].to_ascii_lowercase();
    if tokens[at].kind != Kind::Word || word(&tokens[at]) != "offset" {
        return false;
    }
    let Some(next) = tokens.get(at + 1) else {
        return false;
    };
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    let follows_operand = before.is_some_and(|before| match before.kind {
        Kind::Symbol(symbol) => matches!(symbol, ')' | ']' | '}'),
        Kind::Word => !OPERATORS.contains(&word(before).as_str()),
        Kind::Number => true,
        Kind::Text => false,
    });
    match next.kind {
        Kind::Number => true,
        // A keyword before may be a name as well, as in `by offset -5m`. A sum with a metric named `offset` keeps its
        // value, because a literal duration is a number of seconds.
        Kind::Symbol('+' | '-') => {
            let number = tokens
                .get(at + 2)
                .filter(|token| token.kind == Kind::Number);
            let is_zero =
                number.is_some_and(|token| seconds(&text[token.start..token.end]) == Some(0.0));
            follows_operand || before.is_some() && number.is_some() && !is_zero
        }
        Kind::Symbol(symbol) => follows_operand && symbol == '(',
        _ => {
            let durations = ["step", "range", "min", "max", "nan", "inf"];
            follows_operand && durations.contains(&word(next).as_str())
        }
    }
}

/// Replaces `[5m]`, `[5m:]` and `[5m:1m]`. Returns the number of tokens as well.
fn brackets(text: &str, tokens: &[Token], times: Times) -> Result<(String, usize), Error> {
    let mut parser = Arithmetic {
        text,
        tokens: &tokens[1..],
        at: 0,
        step: times.step,
        range: times.range,
    };
    if parser.symbol() == Some(']') {
        return Err(Error::invalid("missing unit character in duration"));
    }
    let range = literal(positive(parser.sum(0)?)?)?;
    let mut step = String::new();
    if parser.symbol() == Some(':') {
        parser.at += 1;
        step.push(':');
        if parser.symbol() != Some(']') {
            step.push_str(&literal(positive(parser.sum(0)?)?)?);
        }
    }
    parser.expect(']')?;
    Ok((format!("[{range}{step}]"), parser.at + 1))
}

/// Replaces `offset 5m`. Returns the number of tokens as well. An offset of zero is omitted.
fn offset(text: &str, tokens: &[Token], times: Times) -> Result<(String, usize), Error> {
    let mut parser = Arithmetic {
        text,
        tokens: &tokens[1..],
        at: 0,
        step: times.step,
        range: times.range,
    };
    let sign = match parser.symbol() {
        Some('-') => -1.0,
        _ => 1.0,
    };
    if let Some('-' | '+') = parser.symbol() {
        parser.at += 1;
    }
    let seconds = sign * parser.operand(0)?;
    let replacement = match (whole_ms(seconds) == 0.0, seconds < 0.0) {
        (true, _) => String::new(),
        (false, true) => format!("offset -{}", literal(-seconds)?),
        (false, false) => format!("offset +{}", literal(seconds)?),
    };
    Ok((replacement, parser.at + 1))
}

fn positive(seconds: f64) -> Result<f64, Error> {
    match whole_ms(seconds) > 0.0 {
        true => Ok(seconds),
        false => Err(Error::invalid("duration must be greater than 0")),
    }
}

/// Returns whole milliseconds, rounded towards zero. A duration that is a whole number but for rounding is that number.
fn whole_ms(seconds: f64) -> f64 {
    let ms = seconds * 1000.0;
    match (ms - ms.round()).abs() < 1e-6 {
        true => ms.round(),
        false => ms.trunc(),
    }
}

fn literal(seconds: f64) -> Result<String, Error> {
    if !seconds.is_finite() || seconds.abs() > MAX_SECONDS {
        return Err(Error::invalid("duration out of range"));
    }
    let ms = whole_ms(seconds) as u64;
    Ok(match (ms / 1000, ms % 1000) {
        (whole, 0) => format!("{whole}s"),
        (0, ms) => format!("{ms}ms"),
        (whole, ms) => format!("{whole}s{ms}ms"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        let times = Times {
            step: 15.0,
            range: 3_600.0,
        };
        rewrite(text, times).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn durations_become_literals() {
        for (text, expected) in [
            ("rate(a[5m])", "rate(a[300s])"),
            ("a[26m + 4m : step()]", "a[1800s:15s]"),
            ("a[1500ms:] offset -(1+1)", "a[1s500ms:] offset -2s"),
            ("a offset 100 + 2", "a offset +100s + 2"),
            ("a offset 0s", "a "),
            (
                "sum by (offset) (offset{offset=\"a\"} offset 1m)",
                "sum by (offset) (offset{offset=\"a\"} offset +60s)",
            ),
            ("{x=\"[5m]\"}", "{x=\"[5m]\"}"),
            ("a[]", "missing unit character in duration"),
            ("a[0s]", "duration must be greater than 0"),
            ("a[1e30]", "duration out of range"),
            ("a[NaN]", "expected '(' in duration expression"),
            ("a[5m", "expected ']' in duration expression"),
            ("a[60d]", "a[5184000s]"),
            ("a and offset + 1", "a and offset +1s"),
            ("by offset -1e300", "duration out of range"),
            ("(offset 1e300)", "duration out of range"),
            ("a offset NaN", "expected '(' in duration expression"),
            ("a offset -Inf", "expected '(' in duration expression"),
            (r#"{a="\x41\\xff\u00ff"}"#, r#"{a="\x41\\xff\u00ff"}"#),
            ("{a=`\\xff`}", "{a=`\\xff`}"),
            ("a[1001ms]", "a[1s1ms]"),
        ] {
            assert_eq!(rewritten(text), expected, "{text}");
        }
    }

    #[test]
    fn escaped_bytes_are_errors() {
        for text in [r#"{a="\xff"}"#, r"{a='b\377'}", r#"{"\xC5"}"#] {
            assert!(rewritten(text).contains("not UTF-8"), "{text}");
        }
    }

    #[test]
    fn deep_and_long_texts_are_errors() {
        assert!(rewritten(&"(".repeat(101)).contains("100 parentheses"));
        assert!(rewritten(&"-".repeat(501)).contains("500 operators"));
        assert!(rewritten(&"1==".repeat(501)).contains("500 operators"));
        assert!(rewritten(&"a ".repeat(20_001)).contains("20000 words"));
    }
}
