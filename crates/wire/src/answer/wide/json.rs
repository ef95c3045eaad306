//! Wide JSON answers: `{"from":"0","to":"9","columns":[{..}],"rows":[[..],..],"truncated":false}`

use super::super::json::{Notes, push_begin, push_string, push_text};
use super::super::text::{Gathering, push_cell, push_time};
use super::super::{Cells, TimeUnit};
use super::{Assigned, Kind, WideHead};
use std::io::{self, Write};

#[derive(Debug)]
pub struct JsonRows<W> {
    out: Gathering<W>,
    time_unit: TimeUnit,
    written: usize,
    notes: Notes,
}

impl<W: Write> JsonRows<W> {
    pub fn begin(out: W, head: &WideHead) -> JsonRows<W> {
        let mut out = Gathering::new(out);
        let bytes = &mut out.bytes;
        push_begin(bytes, head.from, head.to, None, &head.levels);
        push_text(bytes, ",\"columns\":[");
        for (index, column) in head.columns.all().iter().enumerate() {
            push_text(
                bytes,
                if index == 0 {
                    "{\"title\":"
                } else {
                    ",{\"title\":"
                },
            );
            push_string(bytes, &column.title);
            push_text(bytes, ",\"kind\":");
            push_string(bytes, column.kind.name());
            push_text(bytes, ",\"name\":");
            push_string(bytes, &column.name);
            if let Kind::Field(field_type) = column.kind {
                push_text(bytes, ",\"type\":");
                push_string(bytes, field_type.name());
            }
            bytes.push(b'}');
        }
        push_text(bytes, "],\"rows\":[");
        JsonRows {
            out,
            time_unit: head.time_unit,
            written: 0,
            notes: Notes::default(),
        }
    }

    pub fn hint(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        self.notes.add(hints, range);
    }

    pub fn rows(&mut self, rows: &Assigned<'_>) -> io::Result<()> {
        let mut names = vec![b','];
        push_string(&mut names, rows.key.measurement());
        for tag in &rows.tags {
            names.push(b',');
            match tag {
                Some(value) => push_string(&mut names, value),
                None => push_text(&mut names, "null"),
            }
        }
        let mut cursors = rows.cursors();
        for &time in rows.times {
            self.out.separate(self.written)?;
            self.written += 1;
            let bytes = &mut self.out.bytes;
            bytes.push(b'[');
            push_time(bytes, time, self.time_unit);
            bytes.extend_from_slice(&names);
            for cursor in &mut cursors {
                bytes.push(b',');
                match cursor.next() {
                    Some((column, at)) => {
                        push_cell(bytes, Cells::Values(column), at, "\"", push_string);
                    }
                    None => push_text(bytes, "null"),
                }
            }
            bytes.push(b']');
        }
        self.out.spill()
    }

    pub fn end(mut self, warnings: &[String]) -> io::Result<W> {
        self.notes.push_end(&mut self.out.bytes, false, warnings);
        self.out.finish()
    }
}
