//! Dictionary: the sources of a store, found by name or by tags, with their columns.
//!
//! Designed for millions of sources whose tag values may all be unique. A tag with its value is a
//! *pair*, stored once. A source is a list of pair numbers. A pair lists its sources, inline if it
//! has only one. [`Dictionary::memory`] returns the cost.
//!
//! [`Names`] maps the canonical name of every source to its number. The methods here therefore take
//! names and dictionary together.

mod directory;
pub mod layouts;
pub mod names;
mod pages;
mod pairs;
mod sources;
mod spelling;

use names::{NameHash, Names, hash_name};
use pages::Runs;
use pairs::Pairs;
use roaring::RoaringBitmap;
use seiner_model::{Condition, LevelId, Matcher, Pattern, Selector, SourceKey};
use spelling::Spelling;
use std::ops::Range;

/// Tag name under which pairs store the measurement. No tag has this name, because empty names are
/// rejected.
const MEASUREMENT: &str = "";

/// Notation of canonical names with backslashes. No other notation has this number: a line may
/// write the same bytes and mean another source.
const ESCAPED_NOTATION: u32 = 0;

/// Number of values of a tag from which on a pattern is tested by an automaton, whose construction takes longer than
/// testing a few.
const MANY_VALUES: usize = 4096;
/// Number of values that are tested in the time of looking one up.
const LOOKUP: usize = 16;

/// Sources, by number.
#[derive(Default)]
pub struct Dictionary {
    pairs: Pairs,
    /// Pair numbers of each source: the measurement, then the tags in order.
    members: Runs<u32>,
    /// Pair numbers of the source that is being registered.
    fresh: Vec<u32>,
    /// Spelling of the name of `spelled`.
    spelling: Spelling,
    /// Source whose pairs are the pieces of `spelling`, if the spelling has any.
    spelled: u32,
}

impl Dictionary {
    /// Returns the number of the source with this key, and whether the source is new. Registers a
    /// new source.
    pub fn intern(&mut self, names: &mut Names, key: &SourceKey) -> (u32, bool) {
        let (name, hash) = canonical(names, key);
        if let Some(source) = names.find(hash) {
            return (source, false);
        }
        let source = self.add_name(names, &name, hash).unwrap_or_else(|| {
            let tags = key.tags().iter().map(|(tag, value)| (&**tag, &**value));
            self.fresh.clear();
            for (tag, value) in [(MEASUREMENT, key.measurement())].into_iter().chain(tags) {
                let pair = self.pairs.intern(tag.as_bytes(), value.as_bytes(), None);
                self.fresh.push(pair);
            }
            self.add(names, hash)
        });
        (source, true)
    }

    /// Returns the number of the source with this key, if it is registered.
    pub fn find(&self, names: &Names, key: &SourceKey) -> Option<u32> {
        names.find(canonical(names, key).1)
    }

    /// Returns the number of the source with an unknown name, and whether the source is new,
    /// without decoding its key. Registers a new source. Returns `None` for names that need their
    /// key: names that contain a backslash, and names that differ from the canonical name in more
    /// than the order of their tags.
    pub fn intern_name(
        &mut self,
        names: &mut Names,
        name: &[u8],
        hash: NameHash,
    ) -> Option<(u32, bool)> {
        if let Some(source) = self.add_name(names, name, hash) {
            return Some((source, true));
        }
        let sorted = spelling::sorted(name)?;
        let sorted_hash = hash_name(names.seed(), SourceKey::NOTATION, &sorted);
        let (source, new) = match names.find(sorted_hash) {
            Some(source) => (source, false),
            None => (self.add_name(names, &sorted, sorted_hash)?, true),
        };
        names.insert(hash, source);
        Some((source, new))
    }

    /// Registers a source by its canonical name, which no source has yet, and returns its number.
    /// Returns `None` for names that are not canonical or contain a backslash.
    fn add_name(&mut self, names: &mut Names, name: &[u8], hash: NameHash) -> Option<u32> {
        let kept = self.spelling.read(name)?;
        self.fresh.clear();
        let before = match self.members.len() {
            0 => &[],
            _ => self.members.get(self.spelled),
        };
        self.fresh.extend_from_slice(&before[..kept]);
        for index in kept..self.spelling.pieces() {
            let (tag, value) = self.spelling.piece(index);
            let like = before.get(index).copied();
            let pair = self.pairs.intern(tag, value, like);
            self.fresh.push(pair);
        }
        self.spelled = self.members.len() as u32;
        Some(self.add(names, hash))
    }

    /// Registers a source with the pairs in `fresh`.
    fn add(&mut self, names: &mut Names, hash: NameHash) -> u32 {
        let source = self.members.len() as u32;
        self.members.push(&self.fresh);
        for &pair in &self.fresh {
            self.pairs.add_source(pair, source);
        }
        names.insert(hash, source);
        source
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the key of a source.
    pub fn key(&self, source: u32) -> Option<SourceKey> {
        if source as usize >= self.members.len() {
            return None;
        }
        let members = self.members.get(source);
        let tags = members[1..].iter().map(|&pair| self.pairs.text(pair));
        // Only keys are interned.
        let measurement = self.pairs.text(members[0]).1;
        Some(SourceKey::recorded(measurement, tags))
    }

    /// Returns the measurement of a source, and its tags with their values, as bytes of UTF-8 text.
    pub fn texts(&self, source: u32) -> (&[u8], impl ExactSizeIterator<Item = (&[u8], &[u8])>) {
        let members = self.members.get(source);
        let tags = members[1..].iter().map(|&pair| self.pairs.bytes(pair));
        (self.pairs.bytes(members[0]).1, tags)
    }

    /// Returns the numbers of the sources that match a selector, without levels.
    pub fn select(&self, selector: &Selector) -> RoaringBitmap {
        let mut found = self.select_all(selector);
        for pair in self.pairs.of_tag(SourceKey::step_tag()) {
            found -= self.pairs.sources(pair);
        }
        found
    }

    /// Returns the levels of the sources that match a selector, with their steps in ns.
    pub fn select_levels(&self, selector: &Selector) -> Vec<(u64, RoaringBitmap)> {
        if !self.has_levels() {
            return Vec::new();
        }
        let all = self.select_all(selector);
        let levels = self.pairs.of_tag(SourceKey::step_tag());
        let levels = levels.filter_map(|pair| {
            let found = &all & self.pairs.sources(pair);
            let step = LevelId::parse(self.pairs.text(pair).1)?.step_ns;
            (!found.is_empty()).then_some((step, found))
        });
        levels.collect()
    }

    /// Returns whether a source is a level of another source.
    pub fn is_level(&self, source: u32) -> bool {
        let first = self.texts(source).1.next();
        first.is_some_and(|(tag, _)| tag == SourceKey::step_tag().as_bytes())
    }

    /// Returns whether any source has a level.
    pub fn has_levels(&self) -> bool {
        self.pairs.of_tag(SourceKey::step_tag()).next().is_some()
    }

    /// Returns the existing levels of a source with their numbers, ordered by step.
    pub fn levels_of(&self, names: &Names, source: u32) -> Vec<(LevelId, u32)> {
        let Some(key) = self.key(source).filter(|_| self.has_levels()) else {
            return Vec::new();
        };
        let ids = self.pairs.of_tag(SourceKey::step_tag());
        let ids = ids.filter_map(|pair| LevelId::parse(self.pairs.text(pair).1));
        let mut found: Vec<(LevelId, u32)> = ids
            .filter_map(|id| Some((id, self.find(names, &key.level(id))?)))
            .collect();
        found.sort_unstable();
        found
    }

    fn select_all(&self, selector: &Selector) -> RoaringBitmap {
        let mut found = match &selector.measurement {
            Some(measurement) => self
                .pairs
                .find(MEASUREMENT, measurement)
                .map(|pair| self.pairs.sources(pair))
                .unwrap_or_default(),
            None => self.all(),
        };
        // Selective conditions come first, so that later conditions process fewer sources.
        let (narrow, wide): (Vec<&Matcher>, Vec<&Matcher>) = selector
            .matchers
            .iter()
            .partition(|matcher| matches!(matcher.condition, Condition::Is(_)));
        for matcher in narrow.into_iter().chain(wide) {
            if found.is_empty() {
                break;
            }
            self.narrow(&mut found, matcher);
        }
        found
    }

    fn all(&self) -> RoaringBitmap {
        let mut all = RoaringBitmap::new();
        all.insert_range(0..self.members.len() as u32);
        all
    }

    fn narrow(&self, found: &mut RoaringBitmap, matcher: &Matcher) {
        // A source without the tag counts as a source with an empty value. If the condition holds
        // for the empty text, the sources whose value does not meet the condition are removed
        // instead.
        let negative = matcher.condition.holds("");
        let mut listed = RoaringBitmap::new();
        match &matcher.condition {
            // Measurements are values of a tag with an empty name, which no source has.
            _ if matcher.tag == MEASUREMENT => {}
            Condition::Is(value) | Condition::IsNot(value) if !value.is_empty() => {
                if let Some(pair) = self.pairs.find(&matcher.tag, value) {
                    self.pairs.add_to(pair, &mut listed);
                }
            }
            Condition::Matches(pattern) | Condition::MatchesNot(pattern) => {
                self.list_matches(&matcher.tag, pattern, &mut listed);
            }
            condition => {
                self.list(&matcher.tag, &mut listed, |pair| {
                    condition.holds(self.pairs.text(pair).1) != negative
                });
            }
        }
        if negative {
            *found -= listed
        } else {
            *found &= listed
        }
    }

    /// Adds the sources whose value of a tag matches a pattern, if the empty text does not. Otherwise adds the sources
    /// whose value does not match.
    fn list_matches(&self, tag: &str, pattern: &Pattern, listed: &mut RoaringBitmap) {
        let values = self.pairs.values(tag);
        let wanted = !pattern.is_match("");
        if let Some(texts) = pattern.texts(values / LOOKUP).filter(|_| wanted) {
            let pairs = texts.iter().filter_map(|text| self.pairs.find(tag, text));
            return pairs.for_each(|pair| self.pairs.add_to(pair, listed));
        }
        let automaton = match values < MANY_VALUES {
            true => None,
            false => pattern.automaton(),
        };
        match automaton {
            Some(automaton) => self.list(tag, listed, |pair| {
                automaton.is_match(self.pairs.bytes(pair).1) == wanted
            }),
            None => self.list(tag, listed, |pair| {
                pattern.is_match(self.pairs.text(pair).1) == wanted
            }),
        }
    }

    /// Adds the sources of the pairs of a tag that `is_wanted` accepts.
    fn list(&self, tag: &str, listed: &mut RoaringBitmap, is_wanted: impl Fn(u32) -> bool) {
        // Sources with a value of their own often follow each other. One range takes less time than its numbers.
        let mut run = 0..0;
        for pair in self.pairs.of_tag(tag).filter(|pair| is_wanted(*pair)) {
            match self.pairs.single(pair) {
                Some(source) if source == run.end => run.end += 1,
                Some(source) => {
                    add_range(listed, &run);
                    run = source..source + 1;
                }
                None => self.pairs.add_to(pair, listed),
            }
        }
        add_range(listed, &run);
    }

    /// Returns all measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .pairs
            .of_tag(MEASUREMENT)
            .map(|pair| self.pairs.text(pair).1.to_string())
            .collect();
        all.sort();
        all
    }

    /// Returns the names of the tags of the selected sources, sorted.
    pub fn tag_names(&self, selector: &Selector) -> Vec<String> {
        let selected = self.select(selector);
        let mut names: Vec<String> = self
            .pairs
            .tags()
            .filter(|tag| *tag != MEASUREMENT && *tag != SourceKey::step_tag())
            .filter(|tag| {
                self.pairs
                    .of_tag(tag)
                    .any(|pair| self.pairs.meets(pair, &selected))
            })
            .map(str::to_string)
            .collect();
        names.sort();
        names
    }

    /// Returns the first `limit` values of a tag among the selected sources, sorted.
    pub fn tag_values(&self, selector: &Selector, tag: &str, limit: usize) -> Vec<String> {
        if tag == MEASUREMENT || tag == SourceKey::step_tag() {
            return Vec::new();
        }
        let selected = self.select(selector);
        let mut values: Vec<&str> = self
            .pairs
            .of_tag(tag)
            .filter(|&pair| self.pairs.meets(pair, &selected))
            .map(|pair| self.pairs.text(pair).1)
            .collect();
        values.sort_unstable();
        values.into_iter().take(limit).map(str::to_string).collect()
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.pairs.memory()
            + self.members.memory()
            + self.fresh.capacity() * 4
            + self.spelling.memory()
    }
}

fn add_range(sources: &mut RoaringBitmap, range: &Range<u32>) {
    match range.len() {
        1 => sources.insert(range.start),
        _ => sources.insert_range(range.clone()) > 0,
    };
}

/// Returns the canonical name of a key, and its hash.
fn canonical(names: &Names, key: &SourceKey) -> (Vec<u8>, NameHash) {
    let mut name = Vec::with_capacity(64);
    key.put_name(&mut name);
    let notation = match memchr::memchr(b'\\', &name) {
        Some(_) => ESCAPED_NOTATION,
        None => SourceKey::NOTATION,
    };
    let hash = hash_name(names.seed(), notation, &name);
    (name, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary() -> Dictionary {
        let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
        for n in 0..100 {
            let host = format!("h{}", n / 10);
            let core = format!("{}", n % 10);
            let key =
                SourceKey::new("cpu", [("host", host.as_str()), ("core", core.as_str())]).unwrap();
            assert_eq!(dictionary.intern(&mut names, &key), (n, true));
            assert_eq!(dictionary.intern(&mut names, &key), (n, false));
            assert_eq!(dictionary.find(&names, &key), Some(n));
            assert_eq!(dictionary.key(n), Some(key));
        }
        for n in 0..5 {
            let key = SourceKey::new("mem", [("host", format!("h{n}"))]).unwrap();
            dictionary.intern(&mut names, &key);
        }
        dictionary
    }

    #[test]
    fn selection_agrees_with_a_scan_of_all_keys() {
        let dictionary = dictionary();
        for text in [
            "cpu",
            "mem",
            "none",
            "",
            "cpu{host=h3}",
            "{host=h3}",
            "{host!=h3}",
            "cpu{core=\"\"}",
            "{core=\"\"}",
            "{core!=\"\"}",
            "{core=~\"[1-3]\"}",
            "{core!~\"[1-3]\"}",
            "{core=~\"|7\"}",
            "{host^=h, core=5}",
            "{host^=x}",
            "{nosuch=x}",
            "{nosuch!=x}",
            "cpu{host=~\"h1|h2\",core!=0}",
        ] {
            let selector = Selector::parse(text).unwrap();
            let expected: Vec<u32> = (0..105)
                .filter(|&n| selector.holds(&dictionary.key(n).unwrap()))
                .collect();
            assert_eq!(
                dictionary.select(&selector).iter().collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn patterns_over_very_many_values_agree_with_a_scan_of_all_keys() {
        let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
        let mut keys = Vec::new();
        for n in 0..2 * MANY_VALUES {
            // Most hosts have one source, some have several, and some sources have no host.
            let host = format!("host-{}", if n % 50 < 9 { n / 3 } else { n });
            let host = ("host", host.as_str());
            let key = match n % 100 {
                10 => SourceKey::new("cpu", [("core", n.to_string())]),
                core => SourceKey::new("cpu", [host, ("core", &core.to_string())]),
            };
            let key = key.unwrap();
            if dictionary.intern(&mut names, &key).1 {
                keys.push(key);
            }
        }
        assert!(dictionary.pairs.values("host") > MANY_VALUES);
        for pattern in [
            "host-12.*",
            ".*42",
            "host-(1|2|3)5.*",
            "host-7|host-7001|none",
            "|host-7",
            "(?i)HOST-12.*",
            ".*[13579]",
            ".*",
            ".+",
            "host-1.*\\b",
        ] {
            for operator in ["=~", "!~"] {
                let selector = Selector::parse(&format!("cpu{{host{operator}\"{pattern}\"}}"));
                let selector = selector.unwrap();
                let expected = (0..).zip(&keys).filter(|(_, key)| selector.holds(key));
                let found = dictionary.select(&selector);
                assert!(found.iter().eq(expected.map(|(n, _)| n)), "{selector}");
            }
        }
    }

    #[test]
    fn no_source_has_a_tag_with_an_empty_name() {
        let dictionary = dictionary();
        for (condition, expected) in [
            (Condition::Is("cpu".into()), 0),
            (Condition::IsNot("".into()), 0),
            (Condition::IsNot("cpu".into()), 105),
            (Condition::Is("".into()), 105),
        ] {
            let matcher = Matcher {
                tag: String::new(),
                condition,
            };
            let selector = Selector {
                measurement: None,
                matchers: vec![matcher],
            };
            assert_eq!(dictionary.select(&selector).len(), expected, "{selector}");
        }
    }

    #[test]
    fn measurements_tag_names_and_values_are_listed() {
        let dictionary = dictionary();
        let mem = Selector::parse("mem").unwrap();
        assert_eq!(dictionary.measurements(), ["cpu", "mem"]);
        assert_eq!(dictionary.tag_names(&Selector::all()), ["core", "host"]);
        assert_eq!(dictionary.tag_names(&mem), ["host"]);
        assert_eq!(dictionary.tag_values(&mem, "host", 3), ["h0", "h1", "h2"]);
    }

    #[test]
    fn names_and_keys_register_the_same_sources() {
        let keys: Vec<SourceKey> = [
            ("m", vec![]),
            ("m", vec![("a", "1"), ("b", "2")]),
            ("m", vec![("a", "1"), ("b", "x,=\\")]),
            ("m", vec![("a", "1"), ("b", "3")]),
            ("m", vec![("b", "3")]),
            ("m,n", vec![("a", "1"), ("b", "3")]),
            ("n", vec![("a", "1"), ("b", "3"), ("c", "1")]),
        ]
        .into_iter()
        .map(|(measurement, tags)| SourceKey::new(measurement, tags).unwrap())
        .collect();
        let (mut by_key, mut key_names) = (Dictionary::default(), Names::new(1));
        let (mut by_name, mut names) = (Dictionary::default(), Names::new(2));
        for (number, key) in (0..).zip(&keys) {
            assert_eq!(by_key.intern(&mut key_names, key), (number, true));
            let (name, hash) = canonical(&names, key);
            match by_name.intern_name(&mut names, &name, hash) {
                Some(added) => assert!(added == (number, true) && !name.contains(&b'\\')),
                None => assert_eq!(by_name.intern(&mut names, key), (number, true)),
            }
            for (dictionary, names) in [(&by_key, &key_names), (&by_name, &names)] {
                assert_eq!(dictionary.find(names, key), Some(number));
                assert_eq!(dictionary.key(number).as_ref(), Some(key));
                let (measurement, tags) = dictionary.texts(number);
                assert_eq!(measurement, key.measurement().as_bytes());
                let expected = key.tags().iter();
                assert!(tags.eq(expected.map(|(tag, value)| (tag.as_bytes(), value.as_bytes()))));
            }
        }
        for key in &keys {
            let selector = Selector {
                measurement: Some(key.measurement().to_string()),
                ..Selector::all()
            };
            let found = by_name.select(&selector);
            assert_eq!(found, by_key.select(&selector));
            assert!(
                found
                    .iter()
                    .eq((0..7).filter(|&n| selector.holds(&keys[n as usize])))
            );
        }
    }

    #[test]
    fn canonical_names_with_backslashes_are_not_mistaken_for_line_names() {
        let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
        let key = |value: &str| SourceKey::new("m", [("a", value)]).unwrap();
        let (one, two) = (key("\\x"), key("\\\\x"));
        assert_eq!(dictionary.intern(&mut names, &one), (0, true));
        assert_eq!(dictionary.intern(&mut names, &two), (1, true));
        assert_eq!(dictionary.intern(&mut names, &one), (0, false));
        assert_eq!(dictionary.find(&names, &two), Some(1));
        // Canonical name of one source, which lines may write for the other source.
        let mut name = Vec::new();
        one.put_name(&mut name);
        assert_eq!(name, b"m,a=\\\\x");
        let hash = hash_name(names.seed(), SourceKey::NOTATION, &name);
        assert_eq!(names.find(hash), None);
    }

    #[test]
    fn the_order_of_tags_creates_no_new_source() {
        let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
        let mut intern = |name: &str| {
            let hash = hash_name(names.seed(), SourceKey::NOTATION, name.as_bytes());
            let known = names.find(hash).map(|source| (source, false));
            known.or_else(|| dictionary.intern_name(&mut names, name.as_bytes(), hash))
        };
        assert_eq!(intern("m,b=1,a=2,c=3"), Some((0, true)));
        assert_eq!(intern("m,a=2,b=1,c=3"), Some((0, false)));
        assert_eq!(intern("m,c=3,b=1,a=2"), Some((0, false)));
        assert_eq!(intern("m,b=1,a=2"), Some((1, true)));
        assert_eq!(intern("m,a=2,b=1,c=4"), Some((2, true)));
        assert_eq!(intern("m,b=1,c=4,a=2"), Some((2, false)));
        for rejected in [
            "m,b=1,a=2,b=1",
            "m,b=1,a=",
            "m,b,a=1",
            ",b=1,a=1",
            "m,b=\0,a=1",
        ] {
            assert_eq!(intern(rejected), None, "{rejected:?}");
        }
        let key = SourceKey::new("m", [("a", "2"), ("b", "1"), ("c", "4")]).unwrap();
        assert_eq!(dictionary.intern(&mut names, &key), (2, false));
        assert_eq!(dictionary.key(2), Some(key));
    }
}
