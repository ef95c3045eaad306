//! Selection: the sources of a file that meet a selector.
//!
//! Conditions on one value come first, and of these the one with the fewest sources, so that later conditions process
//! fewer sources.

use crate::cache::PageCache;
use crate::error::Error;
use crate::lists::Terms;
use crate::names::NamesCursor;
use crate::parts::Parts;
use roaring::RoaringBitmap;
use seiner_model::{Condition, Matcher, Pattern, Selector};

/// Name of the tag under which terms have the measurement. No tag of a source has an empty name.
pub const MEASUREMENT: &str = "";
/// Number of values of a tag from which on a pattern is tested by an automaton, whose construction takes longer than
/// testing a few.
const MANY_VALUES: u64 = 4096;
/// Number of values that are tested in the time of looking one up.
const LOOKUP: u64 = 16;
/// Number of values that are read in the time of reading the key of a source.
pub const KEY: u64 = 32;

/// Selection of sources of a file.
pub struct Selection<'f> {
    file: &'f Parts,
    cache: &'f PageCache,
}

impl<'f> Selection<'f> {
    pub fn new(file: &'f Parts, cache: &'f PageCache) -> Selection<'f> {
        Selection { file, cache }
    }

    /// Returns the sources whose key meets a selector.
    pub fn select(&self, selector: &Selector) -> Result<RoaringBitmap, Error> {
        let measurement = selector.measurement.iter();
        let measurement = measurement.map(|measurement| (MEASUREMENT, measurement.as_str()));
        let values = selector.matchers.iter().filter_map(required);
        let mut terms = Vec::new();
        for (tag, value) in measurement.chain(values) {
            match self.term(tag, value)? {
                Some(term) => terms.push(term),
                None => return Ok(RoaringBitmap::new()),
            }
        }
        terms.sort_by_key(|term| term.cursor.count());
        let mut found = match terms.first() {
            Some(term) => term.sources()?,
            None => self.file.sources().clone(),
        };
        for term in terms.iter().skip(1) {
            if found.is_empty() {
                break;
            }
            found &= term.sources()?;
        }
        let others = selector.matchers.iter();
        for matcher in others.filter(|matcher| required(matcher).is_none()) {
            if found.is_empty() {
                break;
            }
            self.narrow(&mut found, matcher)?;
        }
        Ok(found)
    }

    /// Returns the term of a tag and a value, if a source has it.
    fn term(&self, tag: &str, value: &str) -> Result<Option<Terms<'f>>, Error> {
        match self.file.directory.tag(tag.as_bytes()) {
            Some(tag) => Terms::find(self.file, self.cache, tag, value.as_bytes()),
            None => Ok(None),
        }
    }

    /// Removes the sources from `found` that do not meet a condition.
    fn narrow(&self, found: &mut RoaringBitmap, matcher: &Matcher) -> Result<(), Error> {
        // A source without the tag counts as a source with an empty value. If the condition holds for the empty text,
        // the sources whose value does not meet the condition are removed instead.
        let negative = matcher.condition.holds("");
        let named = Some(matcher.tag.as_bytes()).filter(|tag| !tag.is_empty());
        let mut listed = RoaringBitmap::new();
        if let Some(tag) = named.and_then(|tag| self.file.directory.tag(tag)) {
            let values = self.file.directory.tags[tag as usize].values;
            match &matcher.condition {
                Condition::Is(value) | Condition::IsNot(value) => {
                    listed = self.list_value(tag, value)?;
                }
                Condition::StartsWith(prefix) if !prefix.is_empty() => {
                    self.list(tag, prefix, &mut listed, |_| true)?;
                }
                Condition::StartsWith(_) => {}
                Condition::Matches(_) | Condition::MatchesNot(_) if found.len() < values / KEY => {
                    return self.narrow_by_keys(found, matcher);
                }
                Condition::Matches(pattern) | Condition::MatchesNot(pattern) => {
                    self.list_matches(tag, pattern, &mut listed)?;
                }
            }
        }
        if negative {
            *found -= listed
        } else {
            *found &= listed
        }
        Ok(())
    }

    /// Returns the sources with a value of a tag. For the empty value: the sources with any other value.
    fn list_value(&self, tag: u32, value: &str) -> Result<RoaringBitmap, Error> {
        if value.is_empty() {
            return self
                .file
                .set(&self.file.directory.tags[tag as usize].sources);
        }
        let term = Terms::find(self.file, self.cache, tag, value.as_bytes())?;
        term.map_or(Ok(RoaringBitmap::new()), |term| term.sources())
    }

    /// Adds the sources whose value of a tag matches a pattern, if the empty text does not. Otherwise adds the
    /// sources whose value does not match.
    fn list_matches(
        &self,
        tag: u32,
        pattern: &Pattern,
        listed: &mut RoaringBitmap,
    ) -> Result<(), Error> {
        let values = self.file.directory.tags[tag as usize].values;
        let wanted = !pattern.is_match("");
        let most = usize::try_from(values / LOOKUP).unwrap_or(usize::MAX);
        if let Some(texts) = pattern.texts(most).filter(|_| wanted) {
            for text in texts {
                if let Some(term) = Terms::find(self.file, self.cache, tag, text.as_bytes())? {
                    term.add_to(listed)?;
                }
            }
            return Ok(());
        }
        let automaton = match values < MANY_VALUES {
            true => None,
            false => pattern.automaton(),
        };
        self.list(tag, "", listed, |term| match &automaton {
            Some(automaton) => automaton.is_match(&term.cursor.value) == wanted,
            None => pattern.is_match(&term.text()) == wanted,
        })
    }

    /// Adds the sources of the values of a tag that begin with a prefix and that `is_wanted` accepts.
    fn list(
        &self,
        tag: u32,
        prefix: &str,
        listed: &mut RoaringBitmap,
        is_wanted: impl Fn(&Terms<'_>) -> bool,
    ) -> Result<(), Error> {
        let Some(mut term) = Terms::seek(self.file, self.cache, tag, prefix.as_bytes())? else {
            return Ok(());
        };
        while term.cursor.tag == tag && term.cursor.value.starts_with(prefix.as_bytes()) {
            if is_wanted(&term) {
                term.add_to(listed)?;
            }
            if !term.next()? {
                break;
            }
        }
        Ok(())
    }

    /// Removes the sources from `found` whose key does not meet a condition.
    fn narrow_by_keys(&self, found: &mut RoaringBitmap, matcher: &Matcher) -> Result<(), Error> {
        let mut kept = RoaringBitmap::new();
        let mut cursor = NamesCursor::default();
        for source in found.iter() {
            let key = self.file.key_with(self.cache, source, &mut cursor)?;
            if matcher.condition.holds(key.tag(&matcher.tag)) {
                kept.insert(source);
            }
        }
        *found = kept;
        Ok(())
    }
}

/// Returns the tag and the value that a source must have to meet a condition, if it is a single value.
fn required(matcher: &Matcher) -> Option<(&str, &str)> {
    match &matcher.condition {
        Condition::Is(value) if !value.is_empty() && matcher.tag != MEASUREMENT => {
            Some((&matcher.tag, value))
        }
        _ => None,
    }
}
