//! What can be wrong with a line.

use super::Precision;

/// Why a line was refused. Texts from the line are shortened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineReason {
    /// There is nothing after the name.
    #[error("there are no fields; write `measurement,tag=value field=1.5 time`")]
    NoFields,
    /// A field is written without a name.
    #[error("a field has no name; is there a comma too many, or nothing before the `=`?")]
    NoFieldName,
    /// A field's name is not UTF-8.
    #[error("field name {field:?} is not UTF-8")]
    FieldNameNotUtf8 {
        /// The name, the bad bytes replaced.
        field: String,
    },
    /// A field has no `=`, or nothing after it.
    #[error("field {field:?} has no value")]
    NoValue {
        /// The field's name.
        field: String,
    },
    /// A value begins like a number and goes on unlike one.
    #[error("field {field:?}: {token} is no number")]
    NoNumber {
        /// The field's name.
        field: String,
        /// What stands as its value.
        token: String,
    },
    /// A value is of no type.
    #[error("field {field:?}: {token} is no number or boolean; put texts in double quotes")]
    NoType {
        /// The field's name.
        field: String,
        /// What stands as its value.
        token: String,
    },
    /// NaN, an infinity, or a number beyond the largest float.
    #[error("field {field:?}: {token} is not finite; leave the field out instead")]
    NotFinite {
        /// The field's name.
        field: String,
        /// What stands as its value.
        token: String,
    },
    /// An integer that does not fit.
    #[error("field {field:?}: {token} is beyond 64 bits; leave its last letter out for a float")]
    Range {
        /// The field's name.
        field: String,
        /// What stands as its value.
        token: String,
    },
    /// The text ended within the line, where it may have been cut off.
    #[error(
        "the line has no newline at its end, so that the end of it may be missing; end each line with one"
    )]
    NoNewline,
    /// A text has no second quote before the end of all lines.
    #[error("field {field:?}: the text has no closing quote; all that follows was taken for it")]
    OpenText {
        /// The field's name.
        field: String,
    },
    /// A text is not UTF-8.
    #[error("field {field:?}: the text is not UTF-8")]
    TextNotUtf8 {
        /// The field's name.
        field: String,
    },
    /// The time is no integer.
    #[error("time {token} is no integer; write it in {precision}, or leave it out for now")]
    NoTime {
        /// What stands as the time.
        token: String,
        /// The unit of times.
        precision: Precision,
    },
    /// The time does not fit.
    #[error(
        "time {token} in {precision} is outside the years 1677 to 2262; is the precision right?"
    )]
    TimeRange {
        /// What stands as the time.
        token: String,
        /// The unit of times.
        precision: Precision,
    },
    /// The time is in 1970, and in a coarser unit it is one of today.
    #[error(
        "time {token} in {precision} is {lands}; give precision={meant} if {meant} are meant, or allow 1970 \
         (allow_1970=true, --allow-1970) if that is"
    )]
    In1970 {
        /// What stands as the time.
        token: String,
        /// The unit of times.
        precision: Precision,
        /// The time in this unit.
        lands: String,
        /// The unit in which it is a time of today.
        meant: &'static str,
    },
    /// More than name, fields and time.
    #[error("{token} follows the time; escape spaces within names by a backslash")]
    Trailing {
        /// What follows.
        token: String,
    },
    /// The line is longer than [`LineParser::MAX_LINE`](super::LineParser::MAX_LINE).
    #[error("the line is longer than {max} bytes", max = super::LineParser::MAX_LINE)]
    TooLong,
}

/// A line that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// Its number in the text, from 1.
    pub line: u64,
    /// Why.
    pub reason: LineReason,
}

/// A text from a line as a message shows it: not longer than 64 characters.
pub fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 64;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST)]);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
