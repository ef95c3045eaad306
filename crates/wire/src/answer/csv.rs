//! CSV answers: a header, then one line per time, such as `cpu,"core=0,host=a",usage,1700000000000000000,1.5`.

use super::text::{self, Gathering, push_time};
use super::{Head, Series, TimeUnit};
use std::io::{self, Write};

#[derive(Debug)]
pub struct CsvAnswer<W> {
    out: Gathering<W>,
    time_unit: TimeUnit,
    /// Last line of an answer that was truncated.
    mark: Option<String>,
}

impl<W: Write> CsvAnswer<W> {
    pub fn begin(out: W, head: &Head) -> CsvAnswer<W> {
        let mut out = Gathering::new(out);
        out.bytes.extend_from_slice(b"measurement,tags,field,time");
        for column in head.shape.columns() {
            out.bytes.push(b',');
            push_cell(&mut out.bytes, column);
        }
        out.bytes.push(b'\n');
        CsvAnswer {
            out,
            time_unit: head.time_unit,
            mark: None,
        }
    }

    pub fn mark_truncated(&mut self, limit: usize) {
        self.mark = Some(format!(
            "# truncated: only {limit} series, there are more; raise limit\n"
        ));
    }

    pub fn series(&mut self, series: &Series<'_>) -> io::Result<()> {
        let mut names = Vec::new();
        for name in [
            series.key.measurement(),
            &super::tags_text(series.key),
            series.field,
        ] {
            push_cell(&mut names, name);
            names.push(b',');
        }
        for (row, time) in series.times.iter().enumerate() {
            let bytes = &mut self.out.bytes;
            bytes.extend_from_slice(&names);
            push_time(bytes, *time, self.time_unit);
            for column in series.columns {
                bytes.push(b',');
                text::push_cell(bytes, *column, row, "", push_cell);
            }
            bytes.push(b'\n');
            self.out.spill()?;
        }
        Ok(())
    }

    pub fn end(mut self) -> io::Result<W> {
        if let Some(mark) = &self.mark {
            self.out.bytes.extend_from_slice(mark.as_bytes());
        }
        self.out.finish()
    }
}

/// Appends a text as RFC 4180 specifies: in quotes if it contains a separator or a quote, with its quotes
/// doubled.
pub fn push_cell(bytes: &mut Vec<u8>, text: &str) {
    if !text.contains(['"', ',', '\n', '\r']) {
        bytes.extend_from_slice(text.as_bytes());
        return;
    }
    bytes.push(b'"');
    bytes.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    bytes.push(b'"');
}
