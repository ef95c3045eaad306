//! Names of series: labels as remote write 1 encodes them.

use crate::protobuf::{Content, Fault, Fields, Malformed, put_number};
use seiner_model::{KeyError, Notation, SourceKey};
use std::borrow::Cow;

/// Label whose value is the name of the metric, which is the measurement.
pub const METRIC_NAME: &str = "__name__";

/// Number of the field of a label within a series, and its tag on the wire.
pub(super) const LABELS: u32 = 1;
const LABEL_TAG: u8 = 0x0a;
const NAME_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x12;

/// Maximum number of characters of a name in a message.
const SHOWN_CHARS: usize = 300;

/// Notation in which the name of a source is the field `labels` of a `prometheus.TimeSeries`, in bytes.
///
/// A request of version 1 contains such names, so no byte of a known name is copied. Labels must be sorted by name.
/// Names and values must be valid UTF-8 and not empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelNotation;

impl Notation for LabelNotation {
    fn id(&self) -> u32 {
        17
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let mut labels = Vec::new();
        for label in Labels::new(name) {
            let (label, value) = label.map_err(|error| invalid(error.to_string()))?;
            labels.push((text(label)?, text(value)?));
        }
        source_key(labels)
    }
}

/// Returns the source of a series of Prometheus: the name of the metric is the measurement, and the other labels are
/// tags.
///
/// # Errors
/// If the labels are not sorted by name, a name or value is empty, or there is no [`METRIC_NAME`].
pub fn source_key<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<SourceKey, KeyError> {
    let mut metric = None;
    let mut tags: Vec<(&str, &str)> = Vec::new();
    let mut last: Option<&str> = None;
    for (label, value) in labels {
        check(last, label, value)?;
        last = Some(label);
        match label {
            METRIC_NAME => metric = Some(value),
            _ => tags.push((label, value)),
        }
    }
    let Some(metric) = metric else {
        return Err(invalid(format!("the label {METRIC_NAME} is missing")));
    };
    SourceKey::new(metric, tags)
}

/// Checks a label against the one before it.
fn check(last: Option<&str>, label: &str, value: &str) -> Result<(), KeyError> {
    if label.is_empty() {
        return Err(invalid("a label has an empty name"));
    }
    if value.is_empty() {
        return Err(invalid(format!(
            "label {label:?} has an empty value; leave the label out instead"
        )));
    }
    match last {
        Some(last) if last == label => Err(KeyError::DuplicateTag(label.to_string())),
        Some(last) if last > label => Err(invalid(format!(
            "label {label:?} follows {last:?}; sort the labels by name"
        ))),
        _ => Ok(()),
    }
}

fn text(bytes: &[u8]) -> Result<&str, KeyError> {
    std::str::from_utf8(bytes)
        .map_err(|_| invalid(format!("{:?} is not UTF-8", String::from_utf8_lossy(bytes))))
}

fn invalid(text: impl Into<String>) -> KeyError {
    KeyError::Notation(text.into())
}

/// Appends the name of a series in [`LabelNotation`]. Labels must be sorted by name, [`METRIC_NAME`] among them.
pub fn put_name<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>, name: &mut Vec<u8>) {
    for (label, value) in labels {
        put_label(label.as_bytes(), value.as_bytes(), name);
    }
}

/// Appends a label to a name.
pub(crate) fn put_label(label: &[u8], value: &[u8], name: &mut Vec<u8>) {
    let long = |bytes: &[u8]| 1 + number_len(bytes.len()) + bytes.len();
    name.push(LABEL_TAG);
    put_number((long(label) + long(value)) as u64, name);
    for (tag, bytes) in [(NAME_TAG, label), (VALUE_TAG, value)] {
        name.push(tag);
        put_number(bytes.len() as u64, name);
        name.extend_from_slice(bytes);
    }
}

/// Returns the number of bytes of a number of variable length.
fn number_len(number: usize) -> usize {
    let bits = (usize::BITS - (number | 1).leading_zeros()) as usize;
    bits.div_ceil(7)
}

/// Name and value of a label.
type Label<'a> = (&'a [u8], &'a [u8]);

/// Labels of a name: pairs of name and value, in their order.
pub(super) struct Labels<'a>(Fields<'a>);

impl<'a> Labels<'a> {
    pub fn new(name: &'a [u8]) -> Labels<'a> {
        Labels(Fields::new(name, 0))
    }

    fn label(&mut self) -> Result<Option<Label<'a>>, Malformed> {
        let message = match self.0.next()? {
            None => return Ok(None),
            Some((LABELS, Content::Bytes(message))) => message,
            Some(_) => return Err(self.0.error(Fault::FieldType)),
        };
        let (mut label, mut value): (&[u8], &[u8]) = (b"", b"");
        let mut fields = self.0.inner(message);
        while let Some(field) = fields.next()? {
            match field {
                (1, Content::Bytes(bytes)) => label = bytes,
                (2, Content::Bytes(bytes)) => value = bytes,
                (1 | 2, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        Ok(Some((label, value)))
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = Result<Label<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.label();
        if found.is_err() {
            self.0 = Fields::new(b"", 0);
        }
        found.transpose()
    }
}

/// Returns a name for people, as PromQL writes it: `up{job="a"}`. Long names are cut.
pub(super) fn shown(name: &[u8]) -> String {
    let lossy = |bytes| -> Cow<'_, str> { String::from_utf8_lossy(bytes) };
    let (mut metric, mut labels) = (Cow::Borrowed(""), Vec::new());
    let mut chars = 0;
    for (label, value) in Labels::new(name).flatten() {
        if chars > SHOWN_CHARS {
            break;
        }
        chars += label.len() + value.len();
        match label {
            label if label == METRIC_NAME.as_bytes() => metric = lossy(value),
            label => labels.push(format!("{}={:?}", lossy(label), lossy(value))),
        }
    }
    let text = match labels.is_empty() && !metric.is_empty() {
        true => metric.into_owned(),
        false => format!("{metric}{{{}}}", labels.join(",")),
    };
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(labels: &[(&str, &str)]) -> Vec<u8> {
        let mut name = Vec::new();
        for (label, value) in labels {
            put_label(label.as_bytes(), value.as_bytes(), &mut name);
        }
        name
    }

    fn key(labels: &[(&str, &str)]) -> Result<SourceKey, String> {
        LabelNotation
            .source_key(&name(labels))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn labels_become_tags() {
        let found = key(&[("A", "1"), ("__name__", "up"), ("job", "a,b=c\\ d")]).unwrap();
        let expected = SourceKey::new("up", [("A", "1"), ("job", "a,b=c\\ d")]).unwrap();
        assert_eq!(found, expected);
        let long = "x".repeat(300);
        let found = key(&[("__name__", "up"), ("long", &long)]).unwrap();
        assert_eq!(found.tag("long"), long);
    }

    #[test]
    fn invalid_labels_are_rejected() {
        for (labels, reason) in [
            (&[("job", "a")][..], "__name__ is missing"),
            (&[], "__name__ is missing"),
            (&[("__name__", "")], "empty value"),
            (&[("__name__", "m"), ("a", "")], "empty value"),
            (&[("", "a"), ("__name__", "m")], "empty name"),
            (
                &[("__name__", "m"), ("b", "1"), ("a", "1")],
                "sort the labels",
            ),
            (&[("__name__", "m"), ("a", "1"), ("a", "2")], "stands twice"),
            (&[("__name__", "m"), ("a", "\0")], "NUL"),
        ] {
            let error = key(labels).unwrap_err();
            assert!(error.contains(reason), "{labels:?}: {error}");
        }
        let mut bytes = name(&[("__name__", "m")]);
        put_label(b"a", b"\xff", &mut bytes);
        assert!(LabelNotation.source_key(&bytes).is_err());
        assert!(LabelNotation.source_key(b"\x0a\x05").is_err());
    }

    #[test]
    fn names_are_shown_as_promql_writes_them() {
        assert_eq!(shown(&name(&[("__name__", "up")])), "up");
        let labels = [("__name__", "up"), ("a", "\"x\"")];
        assert_eq!(shown(&name(&labels)), r#"up{a="\"x\""}"#);
        assert_eq!(shown(&name(&[])), "{}");
        let long = shown(&name(&[("__name__", &"é".repeat(5_000))]));
        assert_eq!(long.chars().count(), SHOWN_CHARS + 1);
    }
}
