//! Patterns of topics, level by level: `home/{room}/{field}`.

/// Maximum length of a pattern and of a topic filter in bytes.
pub(super) const MAX_BYTES: usize = 1024;

/// Pattern of topics. A level is a literal text, a placeholder in braces, or a placeholder with text around it.
///
/// `{measurement}` and `{field}` name the measurement and the field; any other placeholder names a tag. `+` and `{}`
/// match any level, and `#` at the end matches any number of further levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    levels: Vec<Level>,
    /// True if the pattern ends in `#`.
    open: bool,
}

/// Error of a text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a pattern of topics: {reason}; write home/{{room}}/{{field}}, for example"
)]
pub struct PatternError {
    text: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    before: String,
    place: Option<Place>,
    after: String,
}

/// Meaning of the part of a topic at a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Ignored,
    Measurement,
    Field,
    Tag(String),
}

/// Parts of a topic at the placeholders of a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Captures<'p, 't> {
    pub measurement: Option<&'t str>,
    pub field: Option<&'t str>,
    pub tags: Vec<(&'p str, &'t str)>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If the text is not a pattern, with an example of one.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let fail = |reason| PatternError {
            text: text.to_string(),
            reason,
        };
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(fail("it must have 1 to 1024 bytes"));
        }
        let (closed, open) = match text.strip_suffix('#') {
            Some("") => (None, true),
            Some(rest) => match rest.strip_suffix('/') {
                Some(rest) => (Some(rest), true),
                None => return Err(fail("# is a level of its own, the last one")),
            },
            None => (Some(text), false),
        };
        let levels = closed.map_or_else(Vec::new, |closed| closed.split('/').collect());
        let levels: Result<Vec<Level>, &str> = levels.into_iter().map(level).collect();
        let pattern = Pattern {
            levels: levels.map_err(fail)?,
            open,
        };
        match pattern.is_ambiguous() {
            true => Err(fail("a placeholder stands twice")),
            false => Ok(pattern),
        }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.levels.iter().filter_map(|level| level.place.as_ref())
    }

    fn is_ambiguous(&self) -> bool {
        let named = |place: &&Place| **place != Place::Ignored;
        let places: Vec<&Place> = self.places().filter(named).collect();
        let twice = |(index, place)| places[..index].contains(place);
        places.iter().enumerate().any(twice)
    }

    /// Returns whether the pattern has the placeholder `{measurement}`.
    pub fn names_measurement(&self) -> bool {
        self.places().any(|place| *place == Place::Measurement)
    }

    /// Returns whether the pattern has the placeholder `{field}`.
    pub fn names_field(&self) -> bool {
        self.places().any(|place| *place == Place::Field)
    }

    /// Returns the names of the tags at placeholders, in their order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.places().filter_map(|place| match place {
            Place::Tag(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the topic filter that selects all topics of the pattern: each level with a placeholder is `+`.
    pub fn filter(&self) -> String {
        let literal = |level: &Level| match level.place {
            Some(_) => "+".to_string(),
            None => level.before.clone(),
        };
        let mut levels: Vec<String> = self.levels.iter().map(literal).collect();
        if self.open {
            levels.push("#".to_string());
        }
        levels.join("/")
    }

    /// Returns the parts of a topic at the placeholders; `None` if the pattern does not match the topic. No
    /// placeholder matches an empty text.
    pub(super) fn captures<'p, 't>(&'p self, topic: &'t str) -> Option<Captures<'p, 't>> {
        let mut captures = Captures::default();
        let mut parts = topic.split('/');
        let mut first = true;
        for level in &self.levels {
            let part = parts.next()?;
            let Some(place) = &level.place else {
                if part != level.before {
                    return None;
                }
                first = false;
                continue;
            };
            let inner = part.strip_prefix(&*level.before)?;
            let inner = inner.strip_suffix(&*level.after)?;
            // As in filters, placeholders do not match topics of the broker itself, such as `$SYS`.
            if inner.is_empty() || first && level.before.is_empty() && inner.starts_with('$') {
                return None;
            }
            first = false;
            match place {
                Place::Ignored => {}
                Place::Measurement => captures.measurement = Some(inner),
                Place::Field => captures.field = Some(inner),
                Place::Tag(name) => captures.tags.push((name, inner)),
            }
        }
        let matches = match self.open {
            true => !(first && topic.starts_with('$')),
            false => parts.next().is_none(),
        };
        matches.then_some(captures)
    }
}

fn level(text: &str) -> Result<Level, &'static str> {
    const BRACES: &str = "a level has at most one placeholder, in a pair of braces";
    let of = |before: &str, place, after: &str| Level {
        before: before.to_string(),
        place,
        after: after.to_string(),
    };
    if text == "+" {
        return Ok(of("", Some(Place::Ignored), ""));
    }
    let (before, place, after) = match text.split_once('{') {
        None => (text, None, ""),
        Some((before, rest)) => {
            let (name, after) = rest.split_once('}').ok_or(BRACES)?;
            (before, Some(place(name)?), after)
        }
    };
    let stray = |c: char| "{}".contains(c);
    if before.contains(stray) || after.contains(stray) {
        return Err(BRACES);
    }
    let wild = |c: char| "+#\0".contains(c);
    if before.contains(wild) || after.contains(wild) {
        return Err("+ is a level of its own, and so is #, the last one");
    }
    Ok(of(before, place, after))
}

fn place(name: &str) -> Result<Place, &'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    match name {
        "" => Ok(Place::Ignored),
        "measurement" => Ok(Place::Measurement),
        "field" => Ok(Place::Field),
        name if name.chars().all(is_plain) => Ok(Place::Tag(name.to_string())),
        _ => Err("the name in braces has other characters than letters, digits and _-."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pattern: &str, topic: &str) -> Option<Vec<(String, String)>> {
        let pattern = Pattern::parse(pattern).unwrap();
        let captures = pattern.captures(topic)?;
        let owned = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
        let special = [
            ("field", captures.field),
            ("measurement", captures.measurement),
        ];
        let special = special
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Some(
            captures
                .tags
                .iter()
                .copied()
                .chain(special)
                .map(owned)
                .collect(),
        )
    }

    fn pairs(expected: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Some(expected.iter().map(owned).collect())
    }

    #[test]
    fn placeholders_capture_levels() {
        let found = tags("home/{room}/{field}", "home/kitchen/temp");
        assert_eq!(found, pairs(&[("room", "kitchen"), ("field", "temp")]));
        let found = tags("{measurement}/+/sensor-{id}_x/#", "m/any/sensor-7_x/a/b");
        assert_eq!(found, pairs(&[("id", "7"), ("measurement", "m")]));
        assert_eq!(tags("a/#", "a"), pairs(&[]));
        assert_eq!(tags("#", "a/b"), pairs(&[]));
        assert_eq!(tags("/{x}", "/1"), pairs(&[("x", "1")]));
        assert_eq!(tags("$SYS/{x}", "$SYS/1"), pairs(&[("x", "1")]));
        for (pattern, topic) in [
            ("home/{room}", "home"),
            ("home/{room}", "home/a/b"),
            ("home/{room}", "home/"),
            ("home/{room}", "Home/a"),
            ("a-{x}-b/c", "a--b/c"),
            ("a-{x}-b/c", "a-b/c"),
            ("{x}/{y}", "$SYS/1"),
            ("#", "$SYS/1"),
            ("a/#", "b"),
        ] {
            assert_eq!(tags(pattern, topic), None, "{pattern} {topic}");
        }
    }

    #[test]
    fn filters_follow_from_patterns() {
        for (pattern, filter) in [
            ("home/{room}/{field}", "home/+/+"),
            ("a/b", "a/b"),
            ("a/x{id}/#", "a/+/#"),
            ("#", "#"),
            ("/+/", "/+/"),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().filter(), filter);
        }
    }

    #[test]
    fn bad_patterns_are_rejected_with_an_example() {
        let long = "x".repeat(MAX_BYTES + 1);
        for text in [
            "",
            "a#",
            "#/a",
            "a+",
            "{a",
            "a}",
            "{a}{b}",
            "{a b}",
            "{a}/{a}",
            "{field}/{field}",
            "{{a}}",
            &long,
        ] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.contains("home/{room}/{field}"), "{error}");
        }
    }
}
