//! Answers to queries, written series by series as JSON, CSV or Arrow.
//!
//! An answer is never in memory as a whole. The order of calls is [`Answer::begin`], [`Answer::series`] for
//! each series, [`Answer::end`]. Samples and aggregates by step have the same form: times with one column, or
//! with one column per aggregate.

mod arrow;
mod csv;
mod json;
#[cfg(test)]
mod tests;
mod text;
pub mod wide;

use seiner_model::{Column, FieldType, SourceKey};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

/// Format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object. Each series has an array of times and an array per column.
    #[default]
    Json,
    /// Comma-separated values, one line per time.
    Csv,
    /// A stream of Arrow record batches, one row per time.
    Arrow,
}

impl Format {
    /// Returns the media type, for the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Error for a text that is not a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a format; there are json, csv and arrow")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Format, FormatError> {
        match text {
            "json" => Ok(Format::Json),
            "csv" => Ok(Format::Csv),
            "arrow" => Ok(Format::Arrow),
            _ => Err(FormatError(text.to_string())),
        }
    }
}

/// Unit of times in JSON and CSV. Arrow always uses its own type for nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Integers, in ns since 1970.
    #[default]
    Ns,
    /// Decimals, in ms since 1970, for readers whose numbers are floats.
    Ms,
}

/// Columns of every series of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerShape {
    /// One column, with the values of the samples.
    Samples,
    /// One column per aggregate, one row per step.
    Steps {
        /// Length of a step, ns.
        step_ns: i64,
        /// Names of the aggregates.
        aggregates: Vec<String>,
    },
}

impl AnswerShape {
    /// Returns the names of the columns in formats with one row per time.
    fn columns(&self) -> &[String] {
        static VALUE: std::sync::LazyLock<[String; 1]> =
            std::sync::LazyLock::new(|| ["value".to_string()]);
        match self {
            AnswerShape::Samples => VALUE.as_slice(),
            AnswerShape::Steps { aggregates, .. } => aggregates,
        }
    }
}

/// Part of the answer's interval in which rows of a roll-up replace samples that no longer exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLevel {
    /// First time of the part, ns since 1970.
    pub from: i64,
    /// Last time of the part, ns since 1970.
    pub to: i64,
    /// Length of a step, ns.
    pub step_ns: u64,
}

/// Formats levels in one line for an HTTP header and for Arrow metadata: `from-to/step` in ns, separated by
/// commas. Times before 1970 are in parentheses.
pub fn levels_text(levels: &[AnswerLevel]) -> String {
    let time = |time: i64| match time < 0 {
        true => format!("({time})"),
        false => time.to_string(),
    };
    let texts: Vec<String> = levels
        .iter()
        .map(|level| format!("{}-{}/{}", time(level.from), time(level.to), level.step_ns))
        .collect();
    texts.join(",")
}

/// Parses the text that [`levels_text`] writes. Skips entries that are not valid.
pub fn read_levels(text: &str) -> Vec<AnswerLevel> {
    let level = |text: &str| {
        let (span, step) = text.split_once('/')?;
        // Parentheses enclose a negative time, with its minus.
        let bare = span.replace("(-", "~").replace(')', "");
        let (from, to) = bare.split_once('-')?;
        let time = |text: &str| text.replace('~', "-").parse().ok();
        Some(AnswerLevel {
            from: time(from)?,
            to: time(to)?,
            step_ns: step.parse().ok()?,
        })
    };
    text.split(',').filter_map(level).collect()
}

/// Properties that all series of an answer share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// First time of the query's interval, ns since 1970.
    pub from: i64,
    /// Last time of the query's interval, ns since 1970.
    pub to: i64,
    /// Columns of every series.
    pub shape: AnswerShape,
    /// Unit of times in JSON and CSV.
    pub time_unit: TimeUnit,
    /// Parts of the interval for which only roll-ups exist.
    pub levels: Vec<AnswerLevel>,
}

/// A series, or a part of a series that is too long for memory.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Source of the series.
    pub key: &'a SourceKey,
    /// Name of the field.
    pub field: &'a str,
    /// Times of the samples, or starts of the steps, ns since 1970.
    pub times: &'a [i64],
    /// Columns as described by [`Head::shape`], each as long as `times`.
    pub columns: &'a [Cells<'a>],
}

/// One column of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Values of a field, or aggregates that have the type of a field.
    Values(&'a Column),
    /// Sums of integers of the given type, which may exceed the range of that type. JSON and CSV write all
    /// digits. Arrow has a column of the type, with null in place of a sum that exceeds it.
    Sums(FieldType, &'a [i128]),
}

impl Cells<'_> {
    /// Returns the type of the column.
    pub fn field_type(&self) -> FieldType {
        match self {
            Cells::Values(column) => column.field_type(),
            Cells::Sums(field_type, _) => *field_type,
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Cells::Values(column) => column.len(),
            Cells::Sums(_, sums) => sums.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Error for fields of several types in an answer that supports only one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an Arrow stream has one type of values, and these fields have several: {fields}; choose some by `fields=`"
)]
pub struct MixedTypes {
    fields: String,
}

/// Returns the type that all fields share, as Arrow requires; [`FieldType::F64`] if there are no fields.
///
/// # Errors
/// If the fields have several types.
pub fn one_type<'a>(
    fields: impl IntoIterator<Item = (&'a str, FieldType)>,
) -> Result<FieldType, MixedTypes> {
    let mut by_type: BTreeMap<FieldType, Vec<&str>> = BTreeMap::new();
    for (field, field_type) in fields {
        by_type.entry(field_type).or_default().push(field);
    }
    if by_type.len() < 2 {
        return Ok(by_type.into_keys().next().unwrap_or(FieldType::F64));
    }
    let fields: Vec<String> = by_type
        .iter()
        .map(|(field_type, fields)| format!("{} ({})", fields.join(", "), field_type.name()))
        .collect();
    Err(MixedTypes {
        fields: fields.join("; "),
    })
}

/// Writer of one answer.
pub struct Answer<W: Write> {
    shape: AnswerShape,
    writer: Writer<W>,
}

enum Writer<W: Write> {
    Json(json::JsonAnswer<W>),
    Csv(csv::CsvAnswer<W>),
    Arrow(Box<arrow::ArrowAnswer<W>>),
}

impl<W: Write> Answer<W> {
    /// Begins an answer. Buffers about 64 KiB before each write to `out`.
    pub fn begin(format: Format, out: W, head: &Head) -> Answer<W> {
        let writer = match format {
            Format::Json => Writer::Json(json::JsonAnswer::begin(out, head)),
            Format::Csv => Writer::Csv(csv::CsvAnswer::begin(out, head)),
            Format::Arrow => Writer::Arrow(Box::new(arrow::ArrowAnswer::begin(out, head))),
        };
        Answer {
            shape: head.shape.clone(),
            writer,
        }
    }

    /// Writes a series.
    ///
    /// # Errors
    /// If a write to `out` fails. With Arrow, also if the type of a column differs from that of the first
    /// series ([`MixedTypes`], with kind `InvalidInput`).
    ///
    /// # Panics
    /// If the columns do not match the head, or are not as long as the times.
    pub fn series(&mut self, series: &Series<'_>) -> io::Result<()> {
        assert_eq!(
            series.columns.len(),
            self.shape.columns().len(),
            "columns differ from those of the head"
        );
        let rows = series.times.len();
        assert!(
            series.columns.iter().all(|column| column.len() == rows),
            "a column has not {rows} rows"
        );
        match &mut self.writer {
            Writer::Json(answer) => answer.series(series),
            Writer::Csv(answer) => answer.series(series),
            Writer::Arrow(answer) => answer.series(series),
        }
    }

    /// Writes a series of samples that is too long for memory: a list of times with as many values for each part.
    /// Returns whether there was a part.
    ///
    /// Every call of `parts` begins a pass over the same parts. CSV and Arrow make one pass, JSON makes two: one for
    /// the times and one for the values.
    ///
    /// # Errors
    /// As [`Answer::series`]; the errors of the parts; and if a second pass has another number of samples.
    ///
    /// # Panics
    /// If the head has steps, or a part has not as many values as times.
    pub fn series_in_parts<P>(
        &mut self,
        key: &SourceKey,
        field: &str,
        mut parts: impl FnMut() -> P,
    ) -> io::Result<bool>
    where
        P: Iterator<Item = io::Result<(Vec<i64>, Column)>>,
    {
        assert_eq!(
            self.shape,
            AnswerShape::Samples,
            "steps do not come in parts"
        );
        if let Writer::Json(answer) = &mut self.writer {
            return answer.series_in_parts(key, field, parts);
        }
        let mut any = false;
        for part in parts() {
            let (times, values) = part?;
            any = true;
            self.series(&Series {
                key,
                field,
                times: &times,
                columns: &[Cells::Values(&values)],
            })?;
        }
        Ok(any)
    }

    /// Marks an answer that omits series because of a limit. Call this method before the first series.
    ///
    /// Arrow then contains `truncated` in the metadata of the schema. CSV ends in a line that begins with
    /// `# truncated` if `last_line` is set. JSON states it at the end, see [`Answer::end`].
    pub fn mark_truncated(&mut self, limit: usize, last_line: bool) {
        match &mut self.writer {
            Writer::Json(_) => {}
            Writer::Csv(answer) if last_line => answer.mark_truncated(limit),
            Writer::Csv(_) => {}
            Writer::Arrow(answer) => answer.mark_truncated(limit),
        }
    }

    /// Adds sentences for the reader, and the times of the first and the last sample outside the interval, for
    /// an interval without samples. Only JSON contains them.
    pub fn hint(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        if let Writer::Json(answer) = &mut self.writer {
            answer.hint(hints, range);
        }
    }

    /// Ends the answer, flushes `out` and returns it. `truncated` means that the query matched more series than
    /// its limit. `warnings` describe missing parts of the answer and the reasons. Only JSON contains these
    /// two.
    ///
    /// # Errors
    /// If a write to `out` fails.
    pub fn end(self, truncated: bool, warnings: &[String]) -> io::Result<W> {
        let mut out = match self.writer {
            Writer::Json(answer) => answer.end(truncated, warnings),
            Writer::Csv(answer) => answer.end(),
            Writer::Arrow(answer) => answer.end(),
        }?;
        out.flush()?;
        Ok(out)
    }
}

/// Returns the tags of a source in the notation of lines: `core=0,host=a`.
fn tags_text(key: &SourceKey) -> String {
    let mut text = String::new();
    for (name, value) in key.tags() {
        if !text.is_empty() {
            text.push(',');
        }
        crate::line::escape_tag(name, value, &mut text);
    }
    text
}
