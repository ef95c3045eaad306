//! JSON answers: `{"from":"0","to":"9","series":[{..,"times":[..],"values":[..]}],"truncated":false}`

use super::text::{Gathering, push_cell, push_integer, push_time};
use super::{Cells, Head, Level, Series, Shape, TimeUnit};
use std::io::{self, Write};

#[derive(Debug)]
pub struct JsonAnswer<W> {
    out: Gathering<W>,
    shape: Shape,
    time_unit: TimeUnit,
    begun: bool,
    hints: Vec<String>,
    range: Option<(i64, i64)>,
}

impl<W: Write> JsonAnswer<W> {
    pub fn begin(out: W, head: &Head) -> JsonAnswer<W> {
        let mut out = Gathering::new(out);
        // Strings, because many readers round integers of this size.
        push_text(&mut out.bytes, "{\"from\":\"");
        push_integer(&mut out.bytes, head.from);
        push_text(&mut out.bytes, "\",\"to\":\"");
        push_integer(&mut out.bytes, head.to);
        out.bytes.push(b'"');
        if let Shape::Steps { step_ns, .. } = &head.shape {
            push_text(&mut out.bytes, ",\"step_ns\":");
            push_integer(&mut out.bytes, *step_ns);
        }
        push_levels(&mut out.bytes, &head.levels);
        push_text(&mut out.bytes, ",\"series\":[");
        JsonAnswer {
            out,
            shape: head.shape.clone(),
            time_unit: head.time_unit,
            begun: false,
            hints: Vec::new(),
            range: None,
        }
    }

    pub fn hint(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        self.hints.extend_from_slice(hints);
        self.range = range.or(self.range);
    }

    pub fn series(&mut self, series: &Series<'_>) -> io::Result<()> {
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
        push_string(bytes, series.key.measurement());
        for (index, (name, value)) in series.key.tags().iter().enumerate() {
            push_text(bytes, if index == 0 { ",\"tags\":{" } else { "," });
            push_string(bytes, name);
            bytes.push(b':');
            push_string(bytes, value);
        }
        push_text(
            bytes,
            if series.key.tags().is_empty() {
                ",\"tags\":{},\"field\":"
            } else {
                "},\"field\":"
            },
        );
        push_string(bytes, series.field);
        if let (Shape::Samples, [values]) = (&self.shape, series.columns) {
            push_text(bytes, ",\"type\":");
            push_string(bytes, values.field_type().name());
        }
        self.times(series.times)?;
        for index in 0..series.columns.len() {
            let name = match &self.shape {
                Shape::Samples => "values",
                Shape::Steps { aggregates, .. } => &aggregates[index],
            };
            self.out.bytes.push(b',');
            push_string(&mut self.out.bytes, name);
            self.column(series.columns[index])?;
        }
        self.out.bytes.push(b'}');
        self.out.spill()
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
        push_text(&mut self.out.bytes, "],\"truncated\":");
        push_text(
            &mut self.out.bytes,
            if truncated { "true" } else { "false" },
        );
        if !warnings.is_empty() {
            push_text(&mut self.out.bytes, ",\"warnings\":");
            serde_json::to_writer(&mut self.out.bytes, warnings).expect("texts are JSON");
        }
        if !self.hints.is_empty() {
            push_text(&mut self.out.bytes, ",\"hints\":");
            serde_json::to_writer(&mut self.out.bytes, &self.hints).expect("texts are JSON");
        }
        if let Some((from, to)) = self.range {
            let text = format!(",\"range\":{{\"from\":\"{from}\",\"to\":\"{to}\"}}");
            push_text(&mut self.out.bytes, &text);
        }
        self.out.bytes.push(b'}');
        self.out.finish()
    }
}

/// Appends the levels. Writes nothing if there are no levels: all rows are samples, or are computed from
/// samples.
fn push_levels(bytes: &mut Vec<u8>, levels: &[Level]) {
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

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(text.as_bytes());
}

fn push_string(bytes: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(bytes, text).expect("a text is JSON, and memory takes it");
}
