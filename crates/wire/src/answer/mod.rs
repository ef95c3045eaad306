//! Answers to queries: series by series into any writer, as JSON, CSV or Arrow.
//!
//! An answer is never in memory as a whole: [`Answer::begin`], [`Answer::series`] for each
//! series, [`Answer::end`]. Samples and summaries by step are one shape: times with one
//! column, or with a column an aggregate.

mod arrow;
mod csv;
mod json;
#[cfg(test)]
mod tests;
mod text;

use seiner_model::{Column, FieldType, SourceKey};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object; an array for the times of a series and one for its values.
    #[default]
    Json,
    /// Lines of comma-separated values, a line a time.
    Csv,
    /// A stream of Arrow record batches, a row a time.
    Arrow,
}

impl Format {
    /// The media type, for `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// A text is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no format; there are json, csv and arrow")]
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

/// How JSON and CSV write times. Arrow has a type for nanoseconds and always uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Integers, in ns.
    #[default]
    Ns,
    /// Decimals, in ms: for readers whose numbers are floats.
    Ms,
}

/// What the columns of every series are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One column: the values of the samples.
    Samples,
    /// A column an aggregate, over steps of time.
    Steps {
        /// The length of a step in ns.
        step_ns: i64,
        /// The names of the aggregates.
        aggregates: Vec<String>,
    },
}

impl Shape {
    /// The names of the columns where every row stands for itself.
    fn columns(&self) -> &[String] {
        static VALUE: std::sync::LazyLock<[String; 1]> =
            std::sync::LazyLock::new(|| ["value".to_string()]);
        match self {
            Shape::Samples => VALUE.as_slice(),
            Shape::Steps { aggregates, .. } => aggregates,
        }
    }
}

/// A part of the answer's interval in which rows of steps stand for samples that are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The first time, ns.
    pub from: i64,
    /// The last time, ns.
    pub to: i64,
    /// The length of a step, ns.
    pub step_ns: u64,
}

/// Levels in one line, as a header of HTTP and the metadata of Arrow have them: `from-to/step`, in ns,
/// separated by commas; times before 1970 in brackets.
pub fn levels_text(levels: &[Level]) -> String {
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

/// Reads what [`levels_text`] writes; what is written otherwise is left out.
pub fn read_levels(text: &str) -> Vec<Level> {
    let level = |text: &str| {
        let (span, step) = text.split_once('/')?;
        // The minus of a time before 1970 is in brackets.
        let bare = span.replace("(-", "~").replace(')', "");
        let (from, to) = bare.split_once('-')?;
        let time = |text: &str| text.replace('~', "-").parse().ok();
        Some(Level {
            from: time(from)?,
            to: time(to)?,
            step_ns: step.parse().ok()?,
        })
    };
    text.split(',').filter_map(level).collect()
}

/// What is true of all series of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The first time asked for, ns.
    pub from: i64,
    /// The last time asked for, ns.
    pub to: i64,
    /// What the columns are.
    pub shape: Shape,
    /// How times are written.
    pub time_unit: TimeUnit,
    /// Where there is less than samples.
    pub levels: Vec<Level>,
}

/// A series, or a piece of one that is too long for the memory.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its source.
    pub key: &'a SourceKey,
    /// Its field.
    pub field: &'a str,
    /// The times of the samples, or the starts of the steps, ns.
    pub times: &'a [i64],
    /// What [`Head::shape`] says; each as long as `times`.
    pub columns: &'a [Cells<'a>],
}

/// A column of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Values of a field, or figures that have a type of fields.
    Values(&'a Column),
    /// Sums of integers of a type, which may be beyond the range of the type. JSON and CSV write all
    /// digits; Arrow has a column of the type, and null in place of such a sum.
    Sums(FieldType, &'a [i128]),
}

impl Cells<'_> {
    /// Type of the column.
    pub fn field_type(&self) -> FieldType {
        match self {
            Cells::Values(column) => column.field_type(),
            Cells::Sums(field_type, _) => *field_type,
        }
    }

    /// Number of rows.
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

/// Fields of several types, where an answer has room for one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an Arrow stream has one type of values, and these fields have several: {fields}; choose some by `fields=`"
)]
pub struct MixedTypes {
    fields: String,
}

/// The type that all these fields have, for Arrow; floats if there are none.
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

/// An answer that is being written.
pub struct Answer<W: Write> {
    shape: Shape,
    writer: Writer<W>,
}

enum Writer<W: Write> {
    Json(json::JsonAnswer<W>),
    Csv(csv::CsvAnswer<W>),
    Arrow(Box<arrow::ArrowAnswer<W>>),
}

impl<W: Write> Answer<W> {
    /// Begins an answer; gathers bytes until there are some 64 KiB before it writes.
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

    /// Adds a series. Fails when `out` does, and in Arrow where the type of a column differs
    /// from that of the first series ([`MixedTypes`]).
    ///
    /// # Panics
    /// If the columns are not what the head says, or not as long as the times.
    pub fn series(&mut self, series: &Series<'_>) -> io::Result<()> {
        assert_eq!(
            series.columns.len(),
            self.shape.columns().len(),
            "columns are not what the head says"
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

    /// Marks an answer that will lack series for a limit, before its first series: Arrow has `truncated` in the
    /// schema's metadata then, and CSV ends in a line that begins with `# truncated` if `last_line` is set.
    /// JSON has its own place, see [`Answer::end`].
    pub fn mark_truncated(&mut self, limit: usize, last_line: bool) {
        match &mut self.writer {
            Writer::Json(_) => {}
            Writer::Csv(answer) if last_line => answer.mark_truncated(limit),
            Writer::Csv(_) => {}
            Writer::Arrow(answer) => answer.mark_truncated(limit),
        }
    }

    /// Adds sentences for the reader, and the first and the last time of samples outside the interval where
    /// the interval has none. Only JSON has a place for them.
    pub fn hint(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        if let Writer::Json(answer) = &mut self.writer {
            answer.hint(hints, range);
        }
    }

    /// Ends the answer and gives the writer back, flushed. `truncated` says that there were
    /// more series than the query wanted, `warnings` what is missing and why. Only JSON has a
    /// place for either.
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

/// The tags of a source as lines write them: `core=0,host=a`.
fn tags_text(key: &SourceKey) -> String {
    let mut text = String::new();
    for (name, value) in key.tags() {
        if !text.is_empty() {
            text.push(',');
        }
        crate::line::escape_name(name, &mut text);
        text.push('=');
        crate::line::escape_name(value, &mut text);
    }
    text
}
