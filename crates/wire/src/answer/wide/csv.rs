//! Wide CSV answers: a header, then one line per row. A missing value is empty, and an empty text is `""`.

use super::super::csv::push_cell;
use super::super::text::{self, Gathering, push_time};
use super::super::{Cells, TimeUnit};
use super::{Assigned, WideHead};
use std::io::{self, Write};

#[derive(Debug)]
pub struct CsvRows<W> {
    out: Gathering<W>,
    time_unit: TimeUnit,
}

impl<W: Write> CsvRows<W> {
    pub fn begin(out: W, head: &WideHead) -> CsvRows<W> {
        let mut out = Gathering::new(out);
        for (index, column) in head.columns.all().iter().enumerate() {
            if index > 0 {
                out.bytes.push(b',');
            }
            push_text(&mut out.bytes, &column.title);
        }
        out.bytes.push(b'\n');
        CsvRows {
            out,
            time_unit: head.time_unit,
        }
    }

    pub fn rows(&mut self, rows: &Assigned<'_>) -> io::Result<()> {
        let mut names = vec![b','];
        push_text(&mut names, rows.key.measurement());
        for tag in &rows.tags {
            names.push(b',');
            if let Some(value) = tag {
                push_text(&mut names, value);
            }
        }
        let mut cursors = rows.cursors();
        for &time in rows.times {
            let bytes = &mut self.out.bytes;
            push_time(bytes, time, self.time_unit);
            bytes.extend_from_slice(&names);
            for cursor in &mut cursors {
                bytes.push(b',');
                if let Some((column, at)) = cursor.next() {
                    text::push_cell(bytes, Cells::Values(column), at, "", push_text);
                }
            }
            bytes.push(b'\n');
            self.out.spill()?;
        }
        Ok(())
    }

    pub fn end(self) -> io::Result<W> {
        self.out.finish()
    }
}

/// Appends a text, with quotes if it is empty: without quotes, it would be missing.
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    match text.is_empty() {
        true => bytes.extend_from_slice(b"\"\""),
        false => push_cell(bytes, text),
    }
}
