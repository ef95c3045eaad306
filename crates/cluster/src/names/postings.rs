//! Index of names by measurement and tag.

use seiner_model::{Condition, Selector, SourceKey};
use std::collections::HashMap;

/// Positions of sources, ascending, by measurement and by the value of each tag.
#[derive(Default)]
pub(super) struct Postings {
    by_term: HashMap<Box<str>, Vec<u32>>,
}

impl Postings {
    /// Adds a source. Positions ascend.
    pub fn add(&mut self, key: &SourceKey, position: u32) {
        let tags = key.tags().map(|(name, value)| tag(name, value));
        for term in std::iter::once(measurement(key.measurement())).chain(tags) {
            self.by_term.entry(term.into()).or_default().push(position);
        }
    }

    /// Returns positions that contain all sources of a selector: those of its rarest term. `None` if the selector has
    /// no term, so that all sources may match.
    pub fn of(&self, selector: &Selector) -> Option<&[u32]> {
        let measured = selector.measurement.as_deref().map(measurement);
        let tagged = selector
            .matchers
            .iter()
            .filter_map(|matcher| match &matcher.condition {
                // A source without the tag has an empty value.
                Condition::Is(value) if !value.is_empty() => Some(tag(&matcher.tag, value)),
                _ => None,
            });
        let postings = measured.into_iter().chain(tagged).map(|term| {
            let posting = self.by_term.get(&*term);
            posting.map_or(&[][..], |positions| positions)
        });
        postings.min_by_key(|posting| posting.len())
    }
}

fn measurement(name: &str) -> String {
    format!("m{name}")
}

fn tag(name: &str, value: &str) -> String {
    // The length keeps different pairs apart.
    format!("t{}:{name}{value}", name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(measurement: &str, tags: &[(&str, &str)]) -> SourceKey {
        SourceKey::new(measurement, tags.iter().copied()).unwrap()
    }

    #[test]
    fn the_rarest_term_decides() {
        let mut postings = Postings::default();
        for position in 0..100_u32 {
            let host = format!("h{}", position % 10);
            let sensor = format!("s{position}");
            postings.add(&key("m", &[("host", &host), ("sensor", &sensor)]), position);
        }
        let of = |text: &str| {
            postings
                .of(&Selector::parse(text).unwrap())
                .map(<[u32]>::to_vec)
        };
        assert_eq!(of("m{host=\"h3\",sensor=\"s13\"}"), Some(vec![13]));
        assert_eq!(of("m{host=\"h3\"}").unwrap().len(), 10);
        assert_eq!(of("m{host=~\"h3\"}").unwrap().len(), 100);
        assert_eq!(of("{host=~\"h3\"}"), None);
        assert_eq!(of("{room=\"\"}"), None, "a source without the tag matches");
        assert_eq!(of("other{host=\"h3\"}"), Some(Vec::new()));
        assert_eq!(of("{ho=\"sth3\"}"), Some(Vec::new()));
    }
}
