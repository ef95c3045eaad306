//! JSON answers: `{"from":"0","to":"9","series":[{..,"times":[..],"values":[..]}],"truncated":false}`

use super::text::{Gathering, push_cell, push_integer, push_time};
use super::{AnswerLevel, AnswerShape, Cells, Head, Series, TimeUnit};
use seiner_model::{Column, FieldType, SourceKey};
use std::io::{self, Write};

#[derive(Debug)]
pub struct JsonAnswer<W> {
    out: Gathering<W>,
    shape: AnswerShape,
    time_unit: TimeUnit,
    begun: bool,
    notes: Notes,
}

impl<W: Write> JsonAnswer<W> {
    pub fn begin(out: W, head: &Head) -> JsonAnswer<W> {
        let mut out = Gathering::new(out);
        let step_ns = match &head.shape {
            AnswerShape::Samples => None,
            AnswerShape::Steps { step_ns, .. } => Some(*step_ns),
        };
        push_begin(&mut out.bytes, head.from, head.to, step_ns, &head.levels);
        push_text(&mut out.bytes, ",\"series\":[");
        JsonAnswer {
            out,
            shape: head.shape.clone(),
            time_unit: head.time_unit,
            begun: false,
            notes: Notes::default(),
        }
    }

    pub fn hint(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        self.notes.add(hints, range);
    }

    pub fn series(&mut self, series: &Series<'_>) -> io::Result<()> {
        let of_samples = match (&self.shape, series.columns) {
            (AnswerShape::Samples, [values]) => Some(values.field_type()),
            _ => None,
        };
        self.begin_series(series.key, series.field, of_samples);
        self.times(series.times)?;
        for index in 0..series.columns.len() {
            let name = match &self.shape {
                AnswerShape::Samples => "values",
                AnswerShape::Steps { aggregates, .. } => &aggregates[index],
            };
            self.out.bytes.push(b',');
            push_string(&mut self.out.bytes, name);
            self.column(series.columns[index])?;
        }
        self.out.bytes.push(b'}');
        self.out.spill()
    }

    /// Writes a series in two passes over its parts. Returns whether there was a part.
    pub fn series_in_parts<P>(
        &mut self,
        key: &SourceKey,
        field: &str,
        mut parts: impl FnMut() -> P,
    ) -> io::Result<bool>
    where
        P: Iterator<Item = io::Result<(Vec<i64>, Column)>>,
    {
        let mut times = 0;
        for part in parts() {
            let (part, values) = part?;
            assert_eq!(part.len(), values.len(), "a part has not as many values");
            if times == 0 {
                self.begin_series(key, field, Some(values.field_type()));
                push_text(&mut self.out.bytes, ",\"times\":[");
            }
            for time in part {
                self.out.separate(times)?;
                push_time(&mut self.out.bytes, time, self.time_unit);
                times += 1;
            }
        }
        if times == 0 {
            return Ok(false);
        }
        push_text(&mut self.out.bytes, "],\"values\":[");
        let mut rows = 0;
        for part in parts() {
            let (_, values) = part?;
            let values = Cells::Values(&values);
            for row in 0..values.len() {
                self.out.separate(rows)?;
                push_cell(&mut self.out.bytes, values, row, "\"", push_string);
                rows += 1;
            }
        }
        if rows != times {
            let text = format!("a series had {times} times and then {rows} values");
            return Err(io::Error::other(text));
        }
        push_text(&mut self.out.bytes, "]}");
        self.out.spill()?;
        Ok(true)
    }

    /// Writes what precedes the times of a series, with the type of samples.
    fn begin_series(&mut self, key: &SourceKey, field: &str, of_samples: Option<FieldType>) {
        let bytes = &mut self.out.bytes;
        push_text(
            bytes,
            if self.begun {
                ",{\"measurement\":"
            } else {
                "{\"measurement\":"
            },
        );
        self.begun = true;
        push_string(bytes, key.measurement());
        for (index, (name, value)) in key.tags().enumerate() {
            push_text(bytes, if index == 0 { ",\"tags\":{" } else { "," });
            push_string(bytes, name);
            bytes.push(b':');
            push_string(bytes, value);
        }
        push_text(
            bytes,
            if key.tags().len() == 0 {
                ",\"tags\":{},\"field\":"
            } else {
                "},\"field\":"
            },
        );
        push_string(bytes, field);
        if let Some(field_type) = of_samples {
            push_text(bytes, ",\"type\":");
            push_string(bytes, field_type.name());
        }
    }

    fn times(&mut self, times: &[i64]) -> io::Result<()> {
        push_text(&mut self.out.bytes, ",\"times\":[");
        for (index, time) in times.iter().enumerate() {
            self.out.separate(index)?;
            push_time(&mut self.out.bytes, *time, self.time_unit);
        }
        self.out.bytes.push(b']');
        Ok(())
    }

    fn column(&mut self, column: Cells<'_>) -> io::Result<()> {
        push_text(&mut self.out.bytes, ":[");
        for row in 0..column.len() {
            self.out.separate(row)?;
            push_cell(&mut self.out.bytes, column, row, "\"", push_string);
        }
        self.out.bytes.push(b']');
        Ok(())
    }

    pub fn end(mut self, truncated: bool, warnings: &[String]) -> io::Result<W> {
        let bytes = &mut self.out.bytes;
        self.notes.push_end(bytes, truncated, warnings);
        self.out.finish()
    }
}

/// Sentences for the reader at the end of an answer.
#[derive(Debug, Default)]
pub struct Notes {
    hints: Vec<String>,
    /// Times of the first and the last sample, for an interval without samples.
    range: Option<(i64, i64)>,
}

impl Notes {
    pub fn add(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        self.hints.extend_from_slice(hints);
        self.range = range.or(self.range);
    }

    /// Appends the end of the last array and of the answer.
    pub fn push_end(&self, bytes: &mut Vec<u8>, truncated: bool, warnings: &[String]) {
        push_text(bytes, "],\"truncated\":");
        push_text(bytes, if truncated { "true" } else { "false" });
        if !warnings.is_empty() {
            push_text(bytes, ",\"warnings\":");
            serde_json::to_writer(&mut *bytes, warnings).expect("texts are JSON");
        }
        if !self.hints.is_empty() {
            push_text(bytes, ",\"hints\":");
            serde_json::to_writer(&mut *bytes, &self.hints).expect("texts are JSON");
        }
        if let Some((from, to)) = self.range {
            let text = format!(",\"range\":{{\"from\":\"{from}\",\"to\":\"{to}\"}}");
            push_text(bytes, &text);
        }
        bytes.push(b'}');
    }
}

/// Appends the begin of an answer: its interval, its step, and its levels.
pub fn push_begin(
    bytes: &mut Vec<u8>,
    from: i64,
    to: i64,
    step_ns: Option<i64>,
    levels: &[AnswerLevel],
) {
    // Strings, because many readers round integers of this size.
    push_text(bytes, "{\"from\":\"");
    push_integer(bytes, from);
    push_text(bytes, "\",\"to\":\"");
    push_integer(bytes, to);
    bytes.push(b'"');
    if let Some(step_ns) = step_ns {
        push_text(bytes, ",\"step_ns\":");
        push_integer(bytes, step_ns);
    }
    push_levels(bytes, levels);
}

/// Appends the levels. Writes nothing if there are no levels: all rows are samples, or are computed from
/// samples.
fn push_levels(bytes: &mut Vec<u8>, levels: &[AnswerLevel]) {
    for (index, level) in levels.iter().enumerate() {
        push_text(bytes, if index == 0 { ",\"levels\":[" } else { "," });
        let (from, to) = (level.from, level.to);
        let text = format!(
            "{{\"from\":\"{from}\",\"to\":\"{to}\",\"step_ns\":{}}}",
            level.step_ns
        );
        push_text(bytes, &text);
    }
    if !levels.is_empty() {
        bytes.push(b']');
    }
}

pub fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(text.as_bytes());
}

pub fn push_string(bytes: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(bytes, text)
        .expect("a string has a JSON form, and a write to a Vec does not fail");
}
