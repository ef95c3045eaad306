//! Patterns: regular expressions of selectors, which match whole values.
//!
//! A store may test a pattern on millions of values of a tag. A pattern of few texts is a list of look-ups. For any
//! other, an automaton takes about a nanosecond per byte of a value, if its table stays small.

use regex::Regex;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, dfa};
use regex_syntax::hir::literal::Extractor;

/// Maximum size of a compiled regular expression in bytes.
const SIZE_LIMIT: usize = 1 << 20;
/// Maximum size of an automaton in bytes, and of the memory that its construction needs.
const AUTOMATON_LIMIT: usize = 512 << 10;
/// Number of characters of a class up to which each counts as a text.
const CLASS_LIMIT: usize = 32;

/// Regular expression that matches whole values. A dot also matches a newline.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// If `text` is not a regular expression, or its compiled form exceeds 1 MiB.
    pub fn new(text: &str) -> Result<Pattern, regex::Error> {
        let whole = format!("^(?:{text})$");
        let mut builder = regex::RegexBuilder::new(&whole);
        builder.size_limit(SIZE_LIMIT).dot_matches_new_line(true);
        builder.build().map(Pattern)
    }

    /// Returns the text of the regular expression.
    pub fn as_str(&self) -> &str {
        let text = self.0.as_str();
        let inner = text
            .strip_prefix("^(?:")
            .and_then(|text| text.strip_suffix(")$"));
        inner.unwrap_or(text)
    }

    /// Returns whether the expression matches a whole value.
    pub fn is_match(&self, value: &str) -> bool {
        self.0.is_match(value)
    }

    /// Returns all texts that the expression matches, if they are at most `most`; `None` if there are more, or perhaps.
    pub fn texts(&self, most: usize) -> Option<Vec<String>> {
        // An expression that is complete only with the group around it, such as `a)|(b`, is an error here.
        let mut parser = regex_syntax::ParserBuilder::new();
        let parsed = parser
            .dot_matches_new_line(true)
            .build()
            .parse(self.as_str())
            .ok()?;
        let mut extractor = Extractor::new();
        extractor
            .limit_class(CLASS_LIMIT)
            .limit_literal_len(usize::MAX)
            .limit_total(most);
        let found = extractor.extract(&parsed);
        let texts = found
            .literals()
            .filter(|literals| literals.len() <= most)?
            .iter();
        let mut texts = texts
            .map(|literal| match literal.is_exact() {
                true => String::from_utf8(literal.as_bytes().to_vec()).ok(),
                false => None,
            })
            .collect::<Option<Vec<String>>>()?;
        texts.sort_unstable();
        texts.dedup();
        // The list ignores conditions on places, such as the end of a word.
        texts.retain(|text| self.is_match(text));
        Some(texts)
    }

    /// Returns the automaton of the expression, for very many values. `None` if it would be large, or if the expression
    /// has a condition that an automaton cannot test.
    pub fn automaton(&self) -> Option<Automaton> {
        let nfa = NFA::compiler()
            .syntax(syntax::Config::new().dot_matches_new_line(true))
            .build(self.0.as_str())
            .ok()?;
        let (kind, anchored) = match nfa.is_always_start_anchored() {
            true => (StartKind::Anchored, Anchored::Yes),
            false => (StartKind::Unanchored, Anchored::No),
        };
        let limits = dense::Config::new()
            .start_kind(kind)
            .accelerate(false)
            .dfa_size_limit(Some(AUTOMATON_LIMIT))
            .determinize_size_limit(Some(AUTOMATON_LIMIT));
        let table = dense::Builder::new()
            .configure(limits)
            .build_from_nfa(&nfa)
            .ok()?;
        let start = start::Config::new().anchored(anchored);
        let start = table.start_state(&start).ok()?;
        Some(Automaton { table, start })
    }
}

/// Automaton of a pattern. It reads each byte of a value at most once.
#[derive(Clone, Debug)]
pub struct Automaton {
    table: dfa::dense::DFA<Vec<u32>>,
    start: StateID,
}

impl Automaton {
    /// Returns whether the pattern matches a whole value, which is UTF-8.
    pub fn is_match(&self, value: &[u8]) -> bool {
        let mut state = self.start;
        for &byte in value {
            state = self.table.next_state(state, byte);
            if self.table.is_special_state(state) {
                if self.table.is_match_state(state) {
                    return true;
                }
                if self.table.is_dead_state(state) {
                    return false;
                }
            }
        }
        self.table.is_match_state(self.table.next_eoi_state(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [&str; 22] = [
        "", "a", "b", "ab", "abc", "host-1", "host-12", "host-125", "HOST-12", "host-35",
        "host-42", "x42", "42", "4\n2", "a\nb", "\n", "é", "É", "a b", "foo", "foo bar", "ſ",
    ];

    const PATTERNS: [&str; 24] = [
        "",
        "a",
        ".*",
        ".+",
        "host-12.*",
        ".*42",
        "host-(1|2|3)5.*",
        "a|b|host-42",
        "(?i)host-12.*",
        "(?i)s",
        "(?i)é",
        "a)|(b",
        "|a",
        "[ab]",
        "[^a]",
        "4.2",
        "(?-s)4.2",
        "(?m)^b$|a\\n^b$",
        "foo\\b.*",
        "foo\\b",
        ".*(?:o).*",
        "\\w+",
        "(?x) a b # c\n",
        "host-\\d{1,3}",
    ];

    #[test]
    fn automatons_and_lists_of_texts_agree_with_the_expression() {
        let (mut automatons, mut lists) = (0, 0);
        for text in PATTERNS {
            let pattern = Pattern::new(text).unwrap();
            assert_eq!(pattern.as_str(), text);
            let automaton = pattern.automaton();
            let texts = pattern.texts(50);
            for value in VALUES {
                let expected = pattern.is_match(value);
                if let Some(automaton) = &automaton {
                    assert_eq!(
                        automaton.is_match(value.as_bytes()),
                        expected,
                        "{text:?} on {value:?}"
                    );
                }
                if let Some(texts) = &texts {
                    assert_eq!(
                        texts.iter().any(|one| one == value),
                        expected,
                        "{text:?} on {value:?}"
                    );
                }
            }
            automatons += usize::from(automaton.is_some());
            lists += usize::from(texts.is_some());
        }
        // Those with a Unicode word boundary have none.
        assert_eq!(automatons, PATTERNS.len() - 2);
        assert!(lists > 6, "{lists}");
    }

    #[test]
    fn lists_of_texts_and_automatons_are_limited() {
        let texts = |text: &str, most| Pattern::new(text).unwrap().texts(most);
        assert_eq!(texts("a|b|ab", 3).unwrap(), ["a", "ab", "b"]);
        assert_eq!(texts("a|b|ab", 2), None);
        assert_eq!(texts("host-[0-9]", 100).unwrap().len(), 10);
        assert_eq!(texts("foo\\B", 100).unwrap(), Vec::<String>::new());
        let long = Pattern::new("(?:a|b)*a(?:a|b){16}").unwrap();
        assert!(long.automaton().is_none());
    }
}
