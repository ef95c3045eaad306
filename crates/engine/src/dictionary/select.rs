//! Selection: the sources in memory that meet conditions, and their tags and values.

use super::{Dictionary, MEASUREMENT};
use roaring::RoaringBitmap;
use seiner_model::{Condition, LevelId, Matcher, Pattern, Selector, SourceKey};
use std::ops::Range;

/// Number of values of a tag from which on a pattern is tested by an automaton, whose construction takes longer than
/// testing a few.
pub(super) const MANY_VALUES: usize = 4096;
/// Number of values that are tested in the time of looking one up.
const LOOKUP: usize = 16;

impl Dictionary {
    /// Returns the numbers of the sources that match a selector, without levels and filed sources.
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

    fn select_all(&self, selector: &Selector) -> RoaringBitmap {
        // Conditions on one value come first, and of these the one with the fewest sources, so that later conditions
        // process fewer sources.
        let measurement = selector.measurement.iter();
        let measurement = measurement.map(|measurement| self.pairs.find(MEASUREMENT, measurement));
        let values = selector.matchers.iter().filter_map(|matcher| {
            let value = required(matcher)?;
            Some(self.pairs.find(&matcher.tag, value))
        });
        let Some(mut pairs) = measurement.chain(values).collect::<Option<Vec<u32>>>() else {
            return RoaringBitmap::new();
        };
        pairs.sort_by_key(|&pair| self.pairs.count(pair));
        let mut found = match pairs.first() {
            Some(&pair) => self.pairs.sources(pair),
            None => self.all(),
        };
        for &pair in pairs.iter().skip(1) {
            let mut listed = RoaringBitmap::new();
            self.pairs.add_common(pair, &found, &mut listed);
            found &= listed;
        }
        let others = selector.matchers.iter();
        for matcher in others.filter(|matcher| required(matcher).is_none()) {
            if found.is_empty() {
                break;
            }
            self.narrow(&mut found, matcher);
        }
        found -= &self.absent;
        found -= self.filed.sources();
        found
    }

    pub(super) fn all(&self) -> RoaringBitmap {
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
            Condition::IsNot(value) if !value.is_empty() => {
                if let Some(pair) = self.pairs.find(&matcher.tag, value) {
                    self.pairs.add_common(pair, found, &mut listed);
                }
            }
            Condition::Matches(pattern) | Condition::MatchesNot(pattern) => {
                self.list_matches(&matcher.tag, pattern, found, &mut listed);
            }
            condition => {
                self.list(&matcher.tag, found, &mut listed, |pair| {
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

    /// Adds the sources among `found` whose value of a tag matches a pattern, if the empty text does not. Otherwise adds
    /// the sources whose value does not match. Other sources with such values may be added as well.
    fn list_matches(
        &self,
        tag: &str,
        pattern: &Pattern,
        found: &RoaringBitmap,
        listed: &mut RoaringBitmap,
    ) {
        let values = self.pairs.values(tag);
        let wanted = !pattern.is_match("");
        if let Some(texts) = pattern.texts(values / LOOKUP).filter(|_| wanted) {
            let pairs = texts.iter().filter_map(|text| self.pairs.find(tag, text));
            return pairs.for_each(|pair| self.pairs.add_common(pair, found, listed));
        }
        let automaton = match values < MANY_VALUES {
            true => None,
            false => pattern.automaton(),
        };
        match automaton {
            Some(automaton) => self.list(tag, found, listed, |pair| {
                automaton.is_match(self.pairs.bytes(pair).1) == wanted
            }),
            None => self.list(tag, found, listed, |pair| {
                pattern.is_match(self.pairs.text(pair).1) == wanted
            }),
        }
    }

    /// Adds the sources among `found` of the pairs of a tag that `is_wanted` accepts. Other sources of these pairs may be
    /// added as well.
    fn list(
        &self,
        tag: &str,
        found: &RoaringBitmap,
        listed: &mut RoaringBitmap,
        is_wanted: impl Fn(u32) -> bool,
    ) {
        // Sources with a value of their own often follow each other. One range takes less time than its numbers.
        let mut run = 0..0;
        for pair in self.pairs.of_tag(tag).filter(|pair| is_wanted(*pair)) {
            match self.pairs.single(pair) {
                Some(source) if source == run.end => run.end += 1,
                Some(source) => {
                    add_range(listed, &run);
                    run = source..source + 1;
                }
                None => self.pairs.add_common(pair, found, listed),
            }
        }
        add_range(listed, &run);
    }

    /// Returns all measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .pairs
            .of_tag(MEASUREMENT)
            .filter(|&pair| self.absent.is_empty() || self.is_present(pair))
            .map(|pair| self.pairs.text(pair).1.to_string())
            .collect();
        all.sort();
        all
    }

    /// Returns whether a source of a pair is not hidden.
    fn is_present(&self, pair: u32) -> bool {
        !self.pairs.sources(pair).is_subset(&self.absent)
    }

    /// Returns whether a tag is none of those that were written: the measurement, or the step of a level.
    pub fn is_hidden_tag(tag: &str) -> bool {
        tag == MEASUREMENT || tag == SourceKey::step_tag()
    }

    /// Returns the names of the tags of the selected sources, sorted.
    pub fn tag_names(&self, selector: &Selector) -> Vec<String> {
        let selected = self.select(selector);
        let mut names: Vec<String> = self
            .pairs
            .tags()
            .filter(|tag| !Dictionary::is_hidden_tag(tag))
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
        if Dictionary::is_hidden_tag(tag) {
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
}

/// Returns the value that a source must have to meet a condition, if it is a single value.
fn required(matcher: &Matcher) -> Option<&str> {
    match &matcher.condition {
        Condition::Is(value) if !value.is_empty() && matcher.tag != MEASUREMENT => Some(value),
        _ => None,
    }
}

fn add_range(sources: &mut RoaringBitmap, range: &Range<u32>) {
    match range.len() {
        1 => sources.insert(range.start),
        _ => sources.insert_range(range.clone()) > 0,
    };
}
