//! JSON lines: one object per line. Members of nested objects are named by their path, such as `wifi.rssi`.

use super::fault::Fault;
use csv::{Position, StringRecord};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};

/// Maximum bytes of a line.
pub const LINE_BYTES: usize = 16 << 20;

/// Bytes that some programs write at the front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Maximum depth of nested objects.
const DEPTH: usize = 16;

/// Maximum number of columns of a file.
const MOST_COLUMNS: usize = 10_000;

/// Maximum characters of a text in a message.
const QUOTED: usize = 200;

/// A line of a text file.
pub enum Line {
    /// Text without the newline. Empty lines are skipped.
    Text,
    /// The line is longer than the limit.
    TooLong,
    End,
}

/// Lines of a text file, read one by one.
pub struct Lines {
    reader: BufReader<Box<dyn Read>>,
    pub bytes: Vec<u8>,
    /// Number of the present line, from 1.
    pub number: u64,
    /// Maximum bytes of a line.
    limit: usize,
}

impl Lines {
    /// Creates a reader of lines of at most [`LINE_BYTES`].
    pub fn new(reader: Box<dyn Read>) -> Lines {
        Lines::with_limit(reader, LINE_BYTES)
    }

    /// Creates a reader of lines of at most `limit` bytes.
    pub fn with_limit(reader: Box<dyn Read>, limit: usize) -> Lines {
        Lines {
            reader: BufReader::with_capacity(256 << 10, reader),
            bytes: Vec::new(),
            number: 0,
            limit,
        }
    }

    /// Reads the next line that is not empty.
    pub fn next(&mut self) -> io::Result<Line> {
        loop {
            self.bytes.clear();
            let limit = self.limit as u64 + 1;
            let read = self
                .reader
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut self.bytes)?;
            if read == 0 {
                return Ok(Line::End);
            }
            self.number += 1;
            if self.number == 1 && self.bytes.starts_with(BYTE_ORDER_MARK) {
                self.bytes.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.bytes.ends_with(b"\n") && read > self.limit {
                self.skip_line()?;
                return Ok(Line::TooLong);
            }
            if !self.bytes.trim_ascii().is_empty() {
                return Ok(Line::Text);
            }
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.reader.fill_buf()?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(bytes.len(), |end| end + 1);
            let is_done = end.is_some() || bytes.is_empty();
            self.reader.consume(used);
            if is_done {
                return Ok(());
            }
        }
    }
}

/// Next item of a file of JSON lines.
pub enum JsonLine {
    Record,
    Rejected(Fault),
    End,
}

/// Reader of objects as records with the columns of a header.
pub struct JsonLines {
    lines: Lines,
    columns: HashMap<String, usize>,
}

impl JsonLines {
    /// Creates a reader.
    pub fn new(reader: Box<dyn Read>, header: &StringRecord) -> JsonLines {
        let columns = header.iter().enumerate();
        JsonLines {
            lines: Lines::new(reader),
            columns: columns.map(|(at, name)| (name.to_string(), at)).collect(),
        }
    }

    /// Returns the text of the present line.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.lines.bytes.trim_ascii()).into_owned()
    }

    /// Reads the next object. `faults` receives the members that are arrays.
    pub fn next(
        &mut self,
        record: &mut StringRecord,
        faults: &mut Vec<Fault>,
    ) -> io::Result<JsonLine> {
        let text = match self.lines.next()? {
            Line::End => return Ok(JsonLine::End),
            Line::TooLong => return Ok(JsonLine::Rejected(too_long(self.lines.number))),
            Line::Text => self.lines.bytes.trim_ascii(),
        };
        let line = self.lines.number;
        let mut cells = vec![Cow::Borrowed(""); self.columns.len()];
        let parsed = flatten(text, &mut |name, value| match value {
            Member::Text(text) => {
                if let Some(at) = self.columns.get(name) {
                    cells[*at] = text;
                }
            }
            Member::Array(text) => faults.push(Fault {
                line,
                column: name.to_string(),
                reason: format!("{name:?} is an array, which no field can store, and is left out"),
                text: text.to_string(),
            }),
        });
        if let Err(reason) = parsed {
            faults.clear();
            return Ok(JsonLine::Rejected(Fault {
                line,
                column: String::new(),
                reason,
                text: String::from_utf8_lossy(text).into_owned(),
            }));
        }
        record.clear();
        cells.iter().for_each(|cell| record.push_field(cell));
        let mut position = Position::new();
        position.set_line(line);
        record.set_position(Some(position));
        Ok(JsonLine::Record)
    }
}

/// Returns the fault of a line that is too long.
pub fn too_long(line: u64) -> Fault {
    Fault {
        line,
        reason: format!("the line has more than {} MiB", LINE_BYTES >> 20),
        ..Fault::default()
    }
}

/// Returns the names of all members of a file, in the order of their first occurrence.
///
/// # Errors
/// If the file cannot be read, or has too many names.
pub fn header(reader: Box<dyn Read>) -> anyhow::Result<StringRecord> {
    let mut lines = Lines::new(reader);
    let (mut names, mut header) = (HashMap::new(), StringRecord::new());
    loop {
        match lines.next()? {
            Line::End => return Ok(header),
            Line::TooLong => continue,
            Line::Text => {}
        }
        let mut found = Vec::new();
        let parsed = flatten(lines.bytes.trim_ascii(), &mut |name, value| {
            if matches!(value, Member::Text(_)) && !names.contains_key(name) {
                found.push(name.to_string());
            }
        });
        // A line that is not an object is reported when its record is read.
        if parsed.is_err() {
            continue;
        }
        for name in found {
            if names.insert(name.clone(), ()).is_none() {
                header.push_field(&name);
            }
        }
        anyhow::ensure!(
            names.len() <= MOST_COLUMNS,
            "line {}: the objects have more than {MOST_COLUMNS} names of members; are some of them values?",
            lines.number
        );
    }
}

/// A member of an object that contains no members.
enum Member<'a> {
    /// Text of a number, boolean or string. Empty for null.
    Text(Cow<'a, str>),
    /// JSON text of an array.
    Array(&'a str),
}

/// Calls `take` for all members of an object and of the objects in it.
///
/// # Errors
/// If the text is not an object, or nested too deeply.
fn flatten<'a>(text: &'a [u8], take: &mut dyn FnMut(&str, Member<'a>)) -> Result<(), String> {
    let text = std::str::from_utf8(text).map_err(|_| "the line is not valid UTF-8".to_string())?;
    if !text.starts_with('{') {
        let start: String = text.chars().take(QUOTED.min(20)).collect();
        return Err(format!(
            "the line is not a JSON object: it begins with {start:?}"
        ));
    }
    flatten_below(text, &mut String::new(), 0, take)
}

fn flatten_below<'a>(
    text: &'a str,
    path: &mut String,
    depth: usize,
    take: &mut dyn FnMut(&str, Member<'a>),
) -> Result<(), String> {
    if depth == DEPTH {
        return Err(format!("objects are nested more than {DEPTH} levels deep"));
    }
    let Members(members) = serde_json::from_str(text)
        .map_err(|error| format!("the line is not valid JSON: {error}"))?;
    let above = path.len();
    for (name, value) in members {
        if above > 0 {
            path.push('.');
        }
        path.push_str(&name);
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'{') => flatten_below(text, path, depth + 1, take)?,
            Some(b'[') => take(path, Member::Array(text)),
            Some(b'n') => take(path, Member::Text(Cow::Borrowed(""))),
            Some(b'"') => {
                let string: String = serde_json::from_str(text)
                    .map_err(|error| format!("the line is not valid JSON: {error}"))?;
                take(path, Member::Text(Cow::Owned(string)));
            }
            _ => take(path, Member::Text(Cow::Borrowed(text))),
        }
        path.truncate(above);
    }
    Ok(())
}

/// Members of an object in their order, with unparsed values. Numbers keep their digits.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((Cow::Owned(name), value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (StringRecord, Vec<Vec<String>>, Vec<String>) {
        let reader = || Box::new(io::Cursor::new(text.as_bytes().to_vec()));
        let header = header(reader()).unwrap();
        let mut lines = JsonLines::new(reader(), &header);
        let (mut record, mut faults) = (StringRecord::new(), Vec::new());
        let (mut rows, mut reasons) = (Vec::new(), Vec::new());
        loop {
            match lines.next(&mut record, &mut faults).unwrap() {
                JsonLine::Record => {
                    rows.push(record.iter().map(String::from).collect());
                    let found = faults.drain(..);
                    reasons.extend(found.map(|fault| format!("{}: {}", fault.line, fault.reason)));
                }
                JsonLine::Rejected(fault) => {
                    reasons.push(format!("{}: {}", fault.line, fault.reason));
                }
                JsonLine::End => break,
            }
        }
        (header, rows, reasons)
    }

    #[test]
    fn objects_become_records_with_all_names() {
        let (header, rows, reasons) = read(
            "\u{feff}{\"ts\":1,\"wifi\":{\"rssi\":-7,\"ap\":{\"name\":\"a\\u0062\"}}}\n\n{\"on\":true,\"ts\":2e3,\"x\":null}\n",
        );
        assert_eq!(header, ["ts", "wifi.rssi", "wifi.ap.name", "on", "x"][..]);
        assert_eq!(
            rows,
            [["1", "-7", "ab", "", ""], ["2e3", "", "", "true", ""]]
        );
        assert!(reasons.is_empty());
    }

    #[test]
    fn numbers_keep_their_digits() {
        let (_, rows, _) = read("{\"a\":0.1000000000000000055,\"b\":18446744073709551615}\n");
        assert_eq!(rows, [["0.1000000000000000055", "18446744073709551615"]]);
    }

    #[test]
    fn bad_lines_and_arrays_are_reported_and_the_rest_is_read() {
        let deep = format!("{}1{}", "{\"a\":".repeat(20), "}".repeat(20));
        let text = format!("[1]\n{{\"a\":1,\n{{\"a\":2,\"list\":[1,2]}}\n{deep}\nnull");
        let (header, rows, reasons) = read(&text);
        assert_eq!((header.len(), rows.len()), (1, 1));
        assert_eq!(rows[0], ["2"]);
        let reasons = reasons.join("\n");
        for words in [
            "1: the line is not a JSON object",
            "2: the line is not valid JSON",
            "4: objects",
            "5: the line",
            "3: \"list\" is an array",
        ] {
            assert!(reasons.contains(words), "{words}: {reasons}");
        }
    }
}
