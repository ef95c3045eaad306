//! Tokens of an expression. They serve the durations and the check of nesting; the parser has a lexer of its own.

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Name or keyword.
    Word,
    /// Number or duration.
    Number,
    /// Text in quotes.
    Text,
    /// Any other character.
    Symbol(char),
}

/// Token with its place in the text, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Kind.
    pub kind: Kind,
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Token {
    /// Returns whether the token is this character.
    pub fn is(&self, symbol: char) -> bool {
        self.kind == Kind::Symbol(symbol)
    }
}

/// Divides a text into tokens. White space and comments are omitted. A colon between square brackets is a token.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut at, mut brackets) = (0, 0_usize);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match first {
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' | '`' => (Some(Kind::Text), quoted(rest, first)),
            _ if first.is_ascii_digit() || first == '.' => (Some(Kind::Number), number(rest)),
            _ if is_word(first, brackets == 0) => {
                let end = rest.find(|c: char| !is_word(c, brackets == 0) && !c.is_ascii_digit());
                (Some(Kind::Word), end.unwrap_or(rest.len()))
            }
            _ if first.is_whitespace() => (None, first.len_utf8()),
            symbol => (Some(Kind::Symbol(symbol)), symbol.len_utf8()),
        };
        match first {
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        if let Some(kind) = kind {
            tokens.push(Token {
                kind,
                start: at,
                end: at + length,
            });
        }
        at += length;
    }
    tokens
}

fn is_word(c: char, colon: bool) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == ':' && colon
}

/// Returns the length of a text in quotes, with the quotes. A text without an end extends to the end.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a number or a duration.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_hex = text.len() > 1 && matches!(bytes[1], b'x' | b'X');
    let mut length = 1;
    while let Some(&byte) = bytes.get(length) {
        let is_sign = matches!(byte, b'+' | b'-');
        let in_exponent = !is_hex && is_sign && matches!(bytes[length - 1], b'e' | b'E');
        if !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'_') && !in_exponent {
            break;
        }
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text)
            .iter()
            .map(|token| &text[token.start..token.end])
            .collect()
    }

    #[test]
    fn expressions_are_divided() {
        assert_eq!(
            texts("rate(a:b{x=\"]\\\"\"}[5m:1m]) # [end\n* 1e-3"),
            [
                "rate",
                "(",
                "a:b",
                "{",
                "x",
                "=",
                "\"]\\\"\"",
                "}",
                "[",
                "5m",
                ":",
                "1m",
                "]",
                ")",
                "*",
                "1e-3"
            ]
        );
        assert_eq!(texts("x offset -1h30m"), ["x", "offset", "-", "1h30m"]);
        assert_eq!(texts("'no end"), ["'no end"]);
        assert_eq!(texts("µ+.5"), ["µ", "+", ".5"]);
    }
}
