//! Labels of a series.

use seiner_model::SourceKey;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// Name of the label that contains the name of the metric.
pub const METRIC_NAME: &str = "__name__";
/// Name of the label that contains the upper bound of a bucket of a classic histogram.
pub const BUCKET: &str = "le";
/// Bytes of a label besides its texts: their counters, and the place in two lists.
const PAIR_BYTES: usize = 32 + 2 * size_of::<(Arc<str>, Arc<str>)>();
/// Labels that describe a metric. Operations that change the meaning of a value drop them.
const METADATA: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

/// Labels of a series: pairs of name and value, sorted by name. Names are unique, and no value is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    /// Returns no labels.
    pub fn new() -> Labels {
        Labels::default()
    }

    /// Returns the value of a label, or the empty string if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).map_or("", |at| &self.0[at].1)
    }

    /// Sets a label. An empty value removes the label.
    pub fn set(&mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) {
        let (name, value) = (name.into(), value.into());
        match (self.find(&name), value.is_empty()) {
            (Ok(at), true) => {
                self.0.remove(at);
            }
            (Ok(at), false) => self.0[at].1 = value,
            (Err(_), true) => {}
            (Err(at), false) => self.0.insert(at, (name, value)),
        }
    }

    /// Removes a label.
    pub fn remove(&mut self, name: &str) {
        if let Ok(at) = self.find(name) {
            self.0.remove(at);
        }
    }

    /// Removes the labels that describe the metric: its name, type and unit.
    pub fn remove_metadata(&mut self) {
        METADATA.iter().for_each(|name| self.remove(name));
    }

    /// Returns the labels with one of these names.
    pub fn only(&self, names: &[Arc<str>]) -> Labels {
        let kept = self.0.iter().filter(|(name, _)| names.contains(name));
        Labels(kept.cloned().collect())
    }

    /// Returns the labels without those of these names.
    pub fn without(&self, names: &[Arc<str>]) -> Labels {
        let kept = self.0.iter().filter(|(name, _)| !names.contains(name));
        Labels(kept.cloned().collect())
    }

    /// Iterates over names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the bytes of memory of the texts, and of two lists of them.
    pub fn bytes(&self) -> usize {
        let texts = self.iter().map(|(name, value)| name.len() + value.len());
        texts.sum::<usize>() + self.0.len() * PAIR_BYTES
    }

    /// Returns the hash by which `limit_ratio` chooses series. Equal to that of Prometheus: XXH64 of all names and
    /// values, each after its length as a varint.
    pub fn hash(&self) -> u64 {
        let mut bytes = Vec::new();
        for text in self.0.iter().flat_map(|(name, value)| [name, value]) {
            let mut length = text.len();
            while length >= 0x80 {
                bytes.push(length as u8 | 0x80);
                length >>= 7;
            }
            bytes.push(length as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        xxhash_rust::xxh64::xxh64(&bytes, 0)
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

/// Texts of the labels of one series after another. Neighbouring sources have their names and most values in common,
/// which then share their memory.
pub struct LabelTexts {
    /// Tags of the last source, and of earlier ones that had more.
    tags: Vec<(Arc<str>, Arc<str>)>,
    metric_name: Arc<str>,
}

impl LabelTexts {
    /// Creates an empty memory of texts.
    pub fn new() -> LabelTexts {
        LabelTexts {
            tags: Vec::new(),
            metric_name: METRIC_NAME.into(),
        }
    }

    /// Returns the labels of a series: the tags of its source, and the name of its metric.
    pub fn labels(&mut self, key: &SourceKey, metric: Arc<str>) -> Labels {
        let mut labels = Vec::with_capacity(key.tags().len() + 1);
        for (at, (name, value)) in key.tags().enumerate() {
            match self.tags.get_mut(at) {
                Some((last_name, last_value)) => {
                    renew(last_name, name);
                    renew(last_value, value);
                }
                None => self.tags.push((name.into(), value.into())),
            }
            labels.push(self.tags[at].clone());
        }
        let mut labels = Labels(labels);
        labels.set(self.metric_name.clone(), metric);
        labels
    }
}

fn renew(last: &mut Arc<str>, text: &str) {
    if **last != *text {
        *last = text.into();
    }
}

impl<N: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(N, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Labels {
        let mut labels = Labels::new();
        for (name, value) in pairs {
            labels.set(name, value);
        }
        labels
    }
}

impl fmt::Display for Labels {
    /// Writes the labels as Prometheus does: `{__name__="up", job="a"}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (nth, (name, value)) in self.iter().enumerate() {
            if nth > 0 {
                f.write_str(", ")?;
            }
            match is_plain_name(name) {
                true => f.write_str(name)?,
                false => write!(f, "{name:?}")?,
            }
            write!(f, "={value:?}")?;
        }
        f.write_char('}')
    }
}

/// Returns whether a name needs no quotes in an expression.
pub fn is_plain_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_sorted_and_have_no_empty_values() {
        let mut labels: Labels = [("job", "a"), ("Zone", "z"), ("__name__", "up")]
            .into_iter()
            .collect();
        assert_eq!(labels.to_string(), r#"{Zone="z", __name__="up", job="a"}"#);
        labels.set("job", "");
        labels.set("le", "1");
        labels.remove_metadata();
        assert_eq!(labels.to_string(), r#"{Zone="z", le="1"}"#);
        labels.set("two words", "a\"b");
        assert_eq!(
            labels.to_string(),
            r#"{Zone="z", le="1", "two words"="a\"b"}"#
        );
    }

    #[test]
    fn texts_of_neighbours_are_shared() {
        let mut texts = LabelTexts::new();
        let mut of = |tags: &[(&str, &str)]| {
            let key = SourceKey::new("m", tags.iter().copied()).unwrap();
            texts.labels(&key, "m_value".into())
        };
        let first = of(&[("host", "a"), ("sensor", "1"), ("unit", "C")]);
        let text = r#"{__name__="m_value", host="a", sensor="1", unit="C"}"#;
        assert_eq!(first.to_string(), text);
        let second = of(&[("host", "a"), ("sensor", "2")]);
        assert_eq!(
            second.to_string(),
            r#"{__name__="m_value", host="a", sensor="2"}"#
        );
        assert!(Arc::ptr_eq(&first.0[1].1, &second.0[1].1));
        assert!(Arc::ptr_eq(&first.0[2].0, &second.0[2].0));
        let plain = [("__name__", "m_value"), ("Z", "host"), ("sensor", "2")];
        let third = of(&[("__name__", "x"), ("Z", "host"), ("sensor", "2")]);
        assert_eq!(third, plain.into_iter().collect());
    }

    #[test]
    fn only_and_without_divide_the_labels() {
        let labels: Labels = [("a", "1"), ("b", "2"), ("c", "3")].into_iter().collect();
        let names: [Arc<str>; 2] = ["a".into(), "c".into()];
        assert_eq!(labels.only(&names).to_string(), r#"{a="1", c="3"}"#);
        assert_eq!(labels.without(&names).to_string(), r#"{b="2"}"#);
    }
}
