//! The dictionary: which sources there are, by name, by tags, and with which columns.
//!
//! Made for millions of sources whose tag values may each be unique. A tag with its value is a
//! *pair*, kept once; a source is a list of pair numbers; a pair lists its sources, in place
//! when it has only one. See [`Dictionary::memory`] for what that costs a source.

pub mod layouts;
pub mod names;
mod pairs;

use pairs::Pairs;
use roaring::RoaringBitmap;
use seiner_model::{Condition, Matcher, Selector, SourceKey};

/// The tag name under which pairs keep the measurement. No tag is named so: empty names are refused.
const MEASUREMENT: &str = "";

/// The sources, by number.
#[derive(Default)]
pub struct Dictionary {
    pairs: Pairs,
    /// Where each source's pairs end in `members`.
    ends: Vec<u32>,
    /// Pair numbers, source after source: the measurement, then the tags in order.
    members: Vec<u32>,
    by_members: hashbrown::HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

impl Dictionary {
    /// The number of a key's source, which is registered where it is new; and whether it was new.
    pub fn intern(&mut self, key: &SourceKey) -> (u32, bool) {
        let start = self.members.len();
        let measurement = self.pairs.intern(MEASUREMENT, key.measurement());
        self.members.push(measurement);
        for (tag, value) in key.tags() {
            let pair = self.pairs.intern(tag, value);
            self.members.push(pair);
        }
        let hash = hash_members(&self.hasher, &self.members[start..]);
        let (ends, members) = (&self.ends, &self.members);
        let same = |&source: &u32| members_of(ends, members, source) == &members[start..];
        if let Some(&source) = self.by_members.find(hash, same) {
            self.members.truncate(start);
            return (source, false);
        }
        let source = self.ends.len() as u32;
        self.ends.push(self.members.len() as u32);
        let (ends, members, hasher) = (&self.ends, &self.members, &self.hasher);
        self.by_members.insert_unique(hash, source, |&other| {
            hash_members(hasher, members_of(ends, members, other))
        });
        for &pair in &self.members[start..] {
            self.pairs.add_source(pair, source);
        }
        (source, true)
    }

    /// The number of a key's source, if it is registered.
    pub fn find(&self, key: &SourceKey) -> Option<u32> {
        let mut members = vec![self.pairs.find(MEASUREMENT, key.measurement())?];
        for (tag, value) in key.tags() {
            members.push(self.pairs.find(tag, value)?);
        }
        let hash = hash_members(&self.hasher, &members);
        self.by_members
            .find(hash, |&source| {
                members_of(&self.ends, &self.members, source) == members
            })
            .copied()
    }

    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The key of a source.
    pub fn key(&self, source: u32) -> Option<SourceKey> {
        if source as usize >= self.ends.len() {
            return None;
        }
        let members = members_of(&self.ends, &self.members, source);
        let tags = members[1..].iter().map(|&pair| self.pairs.text(pair));
        Some(SourceKey::new(self.pairs.text(members[0]).1, tags).expect("only keys are interned"))
    }

    /// The numbers of the sources that a selector means, ascending.
    pub fn select(&self, selector: &Selector) -> RoaringBitmap {
        let mut found = match &selector.measurement {
            Some(measurement) => self
                .pairs
                .find(MEASUREMENT, measurement)
                .map(|pair| self.pairs.sources(pair))
                .unwrap_or_default(),
            None => self.all(),
        };
        // The selective conditions first: what follows then works on less.
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
        all.insert_range(0..self.ends.len() as u32);
        all
    }

    fn narrow(&self, found: &mut RoaringBitmap, matcher: &Matcher) {
        // A source without the tag has it empty, so a condition that holds for the empty text is
        // met by leaving out the sources whose value does not meet it.
        let negative = matcher.condition.holds("");
        let mut listed = RoaringBitmap::new();
        match &matcher.condition {
            Condition::Is(value) | Condition::IsNot(value) if !value.is_empty() => {
                if let Some(pair) = self.pairs.find(&matcher.tag, value) {
                    self.pairs.add_to(pair, &mut listed);
                }
            }
            condition => {
                for pair in self.pairs.of_tag(&matcher.tag) {
                    if condition.holds(self.pairs.text(pair).1) != negative {
                        self.pairs.add_to(pair, &mut listed);
                    }
                }
            }
        }
        if negative {
            *found -= listed
        } else {
            *found &= listed
        }
    }

    /// All measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .pairs
            .of_tag(MEASUREMENT)
            .map(|pair| self.pairs.text(pair).1.to_string())
            .collect();
        all.sort();
        all
    }

    /// The names of the tags that the selected sources have, sorted.
    pub fn tag_names(&self, selector: &Selector) -> Vec<String> {
        let selected = self.select(selector);
        let mut names: Vec<String> = self
            .pairs
            .tags()
            .filter(|tag| *tag != MEASUREMENT)
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

    /// The first `limit` values that a tag has among the selected sources, sorted.
    pub fn tag_values(&self, selector: &Selector, tag: &str, limit: usize) -> Vec<String> {
        if tag == MEASUREMENT {
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

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.pairs.memory()
            + (self.ends.capacity() + self.members.capacity()) * 4
            + self.by_members.capacity() * 5
    }
}

fn members_of<'a>(ends: &[u32], members: &'a [u32], source: u32) -> &'a [u32] {
    let start = if source == 0 {
        0
    } else {
        ends[source as usize - 1]
    };
    &members[start as usize..ends[source as usize] as usize]
}

fn hash_members(hasher: &foldhash::fast::FixedState, members: &[u32]) -> u64 {
    use std::hash::BuildHasher;
    hasher.hash_one(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary() -> Dictionary {
        let mut dictionary = Dictionary::default();
        for n in 0..100 {
            let host = format!("h{}", n / 10);
            let core = format!("{}", n % 10);
            let key =
                SourceKey::new("cpu", [("host", host.as_str()), ("core", core.as_str())]).unwrap();
            assert_eq!(dictionary.intern(&key), (n, true));
            assert_eq!(dictionary.intern(&key), (n, false));
            assert_eq!(dictionary.find(&key), Some(n));
            assert_eq!(dictionary.key(n), Some(key));
        }
        for n in 0..5 {
            let key = SourceKey::new("mem", [("host", format!("h{n}"))]).unwrap();
            dictionary.intern(&key);
        }
        dictionary
    }

    #[test]
    fn selecting_agrees_with_looking_at_every_key() {
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
    fn names_and_values() {
        let dictionary = dictionary();
        let mem = Selector::parse("mem").unwrap();
        assert_eq!(dictionary.measurements(), ["cpu", "mem"]);
        assert_eq!(dictionary.tag_names(&Selector::all()), ["core", "host"]);
        assert_eq!(dictionary.tag_names(&mem), ["host"]);
        assert_eq!(dictionary.tag_values(&mem, "host", 3), ["h0", "h1", "h2"]);
    }
}
