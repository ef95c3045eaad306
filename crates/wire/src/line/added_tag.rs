//! Tag that a request adds to all of its lines.

use super::escape::{Arena, escape_tag};
use seiner_model::Batch;

/// Maximum length of the value, bytes.
const MAX_VALUE: usize = 1024;

/// Reason why a value cannot be the value of the tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it cannot be the tag {tag:?}: give a name of at most {MAX_VALUE} bytes without control characters, which does not end \
     in a backslash"
)]
pub struct AddedTagError {
    tag: String,
}

/// Tag that is added to lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedTag {
    /// `,tag=value` in the notation of lines.
    text: String,
}

impl AddedTag {
    /// Creates a tag.
    ///
    /// # Errors
    /// If the value is too long, or cannot be written in a line.
    pub fn new(tag: &str, value: &str) -> Result<AddedTag, AddedTagError> {
        let is_plain = value.len() <= MAX_VALUE
            && !value.ends_with('\\')
            && !value.contains(|c: char| c.is_control());
        if !is_plain {
            let tag = tag.to_string();
            return Err(AddedTagError { tag });
        }
        let mut text = String::from(",");
        escape_tag(tag, value, &mut text);
        Ok(AddedTag { text })
    }

    /// Adds the tag to all rows of a batch in the notation of lines. A row that has the tag is rejected by the store,
    /// because it has the tag twice then.
    pub fn add<'a>(&self, batch: &mut Batch<'a>, arena: &'a Arena) {
        for row in &mut batch.rows {
            row.name = arena.keep_joined([row.name, self.text.as_bytes()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::LineNotation;
    use seiner_model::Notation;

    #[test]
    fn names_get_the_tag() {
        let arena = Arena::new();
        let mut batch = Batch::new();
        batch.push(b"cpu", 1, []);
        batch.push(b"cpu,host=a\\ b", 2, []);
        let tag = AddedTag::new("db", "my data,=1").expect("a plain value");
        tag.add(&mut batch, &arena);
        let keys = batch.rows.iter().map(|row| {
            let key = LineNotation.source_key(row.name).expect("a valid name");
            key.to_string()
        });
        assert_eq!(
            keys.collect::<Vec<String>>(),
            [
                r#"cpu{db="my data,=1"}"#,
                r#"cpu{db="my data,=1",host="a b"}"#
            ]
        );
    }

    #[test]
    fn values_that_a_line_cannot_hold_are_rejected() {
        for value in ["a\n", "a\\", &"x".repeat(MAX_VALUE + 1)] {
            assert!(AddedTag::new("db", value).is_err(), "{value:?}");
        }
    }
}
