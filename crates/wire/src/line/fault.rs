//! Errors of lines.

use super::Precision;

/// Reasons to reject a line. Excerpts of the line are shortened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineReason {
    /// There is nothing after the name.
    #[error("there are no fields; write `measurement,tag=value field=1.5 time`")]
    NoFields,
    /// A field has no name.
    #[error("a field has no name; is there a comma too many, or nothing before the `=`?")]
    NoFieldName,
    /// A field's name is not UTF-8.
    #[error("field name {field:?} is not UTF-8")]
    FieldNameNotUtf8 {
        /// Name of the field, with invalid bytes replaced.
        field: String,
    },
    /// A field has no `=`, or nothing after it.
    #[error("field {field:?} has no value")]
    NoValue {
        /// Name of the field.
        field: String,
    },
    /// A value begins like a number but is not one.
    #[error("field {field:?}: {token} is not a number")]
    NoNumber {
        /// Name of the field.
        field: String,
        /// Text of the value.
        token: String,
    },
    /// A value has no valid type.
    #[error("field {field:?}: {token} is not a number or boolean; put texts in double quotes")]
    NoType {
        /// Name of the field.
        field: String,
        /// Text of the value.
        token: String,
    },
    /// A number is NaN, infinite, or larger than the largest float.
    #[error("field {field:?}: {token} is not finite; leave the field out instead")]
    NotFinite {
        /// Name of the field.
        field: String,
        /// Text of the value.
        token: String,
    },
    /// An integer does not fit in 64 bits.
    #[error("field {field:?}: {token} is beyond 64 bits; leave its last letter out for a float")]
    Range {
        /// Name of the field.
        field: String,
        /// Text of the value.
        token: String,
    },
    /// The input ended within the line, which may therefore be cut off.
    #[error(
        "the line has no newline at its end, so that the end of it may be missing; end each line with one"
    )]
    NoNewline,
    /// A quoted text has no closing quote before the end of the input.
    #[error("field {field:?}: the text has no closing quote; all that follows was taken for it")]
    OpenText {
        /// Name of the field.
        field: String,
    },
    /// A text is not UTF-8.
    #[error("field {field:?}: the text is not UTF-8")]
    TextNotUtf8 {
        /// Name of the field.
        field: String,
    },
    /// The time is not an integer.
    #[error("time {token} is not an integer; write it in {precision}, or leave it out for now")]
    NoTime {
        /// Text of the time.
        token: String,
        /// Unit of times.
        precision: Precision,
    },
    /// The time does not fit in an i64 of nanoseconds.
    #[error(
        "time {token} in {precision} is outside the years 1677 to 2262; is the precision right?"
    )]
    TimeRange {
        /// Text of the time.
        token: String,
        /// Unit of times.
        precision: Precision,
    },
    /// The time is not plausible in this unit, but is between 1990 and 2100 in a coarser unit.
    #[error(
        "time {token} in {precision} is {lands}; give precision={meant} if {meant} are meant, or allow 1970 \
         (allow_1970=true, --allow-1970) if that is"
    )]
    In1970 {
        /// Text of the time.
        token: String,
        /// Unit of times.
        precision: Precision,
        /// The time in this unit, as RFC 3339.
        lands: String,
        /// Name of the unit in which the time is plausible.
        meant: &'static str,
    },
    /// The line continues after the name, fields and time.
    #[error("{token} follows the time; escape spaces within names by a backslash")]
    Trailing {
        /// Text after the time.
        token: String,
    },
    /// The line is longer than [`LineParser::MAX_LINE`](super::LineParser::MAX_LINE).
    #[error("the line is longer than {max} bytes", max = super::LineParser::MAX_LINE)]
    TooLong,
}

/// Error of a rejected line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// Number of the line in the input, from 1.
    pub line: u64,
    /// Reason of the rejection.
    pub reason: LineReason,
}

/// Returns an excerpt of a line for messages: at most 64 characters, followed by `…` if the text is longer.
pub fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 64;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST)]);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
