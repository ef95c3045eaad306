//! Attributes: pairs of a key and a value, whose text is the value of a label.

use super::base64;
use crate::protobuf::{Content, Fault, Fields, Malformed};
use std::io::Write;
use std::ops::Range;

/// Maximum depth of lists in a value.
const MAX_DEPTH: u32 = 16;

/// Text of a value.
#[derive(Clone, Debug)]
enum Text<'a> {
    /// Text of the request.
    Borrowed(&'a [u8]),
    /// Text in the buffer.
    Written(Range<usize>),
}

/// Attributes of one point or resource, in their order.
#[derive(Debug, Default)]
pub(super) struct Attributes<'a> {
    keys: Vec<&'a [u8]>,
    values: Vec<Text<'a>>,
    /// Texts of values that are not texts in the request.
    written: Vec<u8>,
    /// True if a value has lists inside lists beyond the limit.
    is_too_deep: bool,
}

impl<'a> Attributes<'a> {
    /// Removes all attributes. Keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.written.clear();
        self.is_too_deep = false;
    }

    /// Returns the keys.
    pub fn keys(&self) -> &[&'a [u8]] {
        &self.keys
    }

    /// Returns the text of a value, by the index of its key.
    #[inline]
    pub fn value(&self, index: usize) -> &[u8] {
        match &self.values[index] {
            Text::Borrowed(text) => text,
            Text::Written(range) => &self.written[range.clone()],
        }
    }

    /// Returns the text of the first value with a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let index = self.keys.iter().position(|one| *one == key.as_bytes())?;
        Some(self.value(index))
    }

    /// Returns whether a value has too many lists inside each other.
    pub fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }

    /// Appends a `KeyValue`.
    #[inline]
    pub fn push(&mut self, mut fields: Fields<'a>) -> Result<(), Malformed> {
        if let Some((key, text)) = usual(fields.rest()) {
            self.keys.push(key);
            self.values.push(Text::Borrowed(text));
            return Ok(());
        }
        let (mut key, mut value): (&[u8], Option<Fields<'a>>) = (b"", None);
        while let Some(field) = fields.next()? {
            match field {
                (1, Content::Bytes(bytes)) => key = bytes,
                (2, Content::Bytes(bytes)) => value = Some(fields.inner(bytes)),
                (1 | 2, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        let text = match value {
            None => Text::Borrowed(b""),
            Some(value) => self.text(value)?,
        };
        self.keys.push(key);
        self.values.push(text);
        Ok(())
    }

    /// Returns the text of an `AnyValue`.
    #[inline]
    fn text(&mut self, value: Fields<'a>) -> Result<Text<'a>, Malformed> {
        let any = Any::read(value)?;
        if let Any::Text(text) = any {
            return Ok(Text::Borrowed(text));
        }
        let begin = self.written.len();
        self.put(&any, 0)?;
        Ok(Text::Written(begin..self.written.len()))
    }

    /// Writes a value: alone as itself, within a list as JSON.
    fn put(&mut self, any: &Any<'a>, depth: u32) -> Result<(), Malformed> {
        let out = &mut self.written;
        let quoted = depth > 0;
        match any {
            Any::None if quoted => out.extend_from_slice(b"null"),
            Any::None => {}
            Any::Text(text) => put_json_text(text, out),
            Any::Bool(value) => put_shown(value, out),
            Any::Int(value) => put_shown(value, out),
            Any::Double(value) if value.is_finite() || !quoted => put_double(*value, out),
            Any::Double(value) => put_json_text(&shown(*value), out),
            Any::Bytes(bytes) => {
                let quote: &[u8] = if quoted { b"\"" } else { b"" };
                out.extend_from_slice(quote);
                base64::encode(bytes, out);
                out.extend_from_slice(quote);
            }
            Any::List(_) | Any::Map(_) if depth >= MAX_DEPTH => self.is_too_deep = true,
            Any::List(fields) => self.put_list(*fields, depth)?,
            Any::Map(fields) => self.put_map(*fields, depth)?,
        }
        Ok(())
    }

    fn put_list(&mut self, mut fields: Fields<'a>, depth: u32) -> Result<(), Malformed> {
        let mut lead = b'[';
        while let Some(field) = fields.next()? {
            if let (1, Content::Bytes(bytes)) = field {
                self.written.push(lead);
                lead = b',';
                let any = Any::read(fields.inner(bytes))?;
                self.put(&any, depth + 1)?;
            }
        }
        self.end(lead, b"[]")
    }

    fn put_map(&mut self, mut fields: Fields<'a>, depth: u32) -> Result<(), Malformed> {
        let mut lead = b'{';
        while let Some(field) = fields.next()? {
            let (1, Content::Bytes(bytes)) = field else {
                continue;
            };
            let (mut key, mut any): (&[u8], _) = (b"", Any::None);
            let mut pair = fields.inner(bytes);
            while let Some(field) = pair.next()? {
                match field {
                    (1, Content::Bytes(bytes)) => key = bytes,
                    (2, Content::Bytes(bytes)) => any = Any::read(pair.inner(bytes))?,
                    _ => {}
                }
            }
            self.written.push(lead);
            lead = b',';
            put_json_text(key, &mut self.written);
            self.written.push(b':');
            self.put(&any, depth + 1)?;
        }
        self.end(lead, b"{}")
    }

    fn end(&mut self, lead: u8, brackets: &[u8; 2]) -> Result<(), Malformed> {
        if lead != b',' {
            self.written.push(brackets[0]);
        }
        self.written.push(brackets[1]);
        Ok(())
    }
}

/// Returns the key and the value of a `KeyValue` in the usual form: a text, both of less than 126 bytes, and no other
/// field.
#[inline]
fn usual(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x0a, key @ ..] = message else {
        return None;
    };
    let (&length, key) = key.split_first()?;
    let (key, value) = key.split_at_checked(usize::from(length))?;
    let [0x12, any, 0x0a, length, text @ ..] = value else {
        return None;
    };
    let is_whole = text.len() < 126
        && usize::from(*length) == text.len()
        && usize::from(*any) == text.len() + 2
        && key.len() < 128;
    is_whole.then_some((key, text))
}

/// `AnyValue`.
enum Any<'a> {
    None,
    Text(&'a [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(&'a [u8]),
    List(Fields<'a>),
    Map(Fields<'a>),
}

impl<'a> Any<'a> {
    #[inline]
    fn read(mut fields: Fields<'a>) -> Result<Any<'a>, Malformed> {
        let mut any = Any::None;
        while let Some(field) = fields.next()? {
            any = match field {
                (1, Content::Bytes(text)) => Any::Text(text),
                (2, Content::Number(number)) => Any::Bool(number != 0),
                (3, Content::Number(number)) => Any::Int(number as i64),
                (4, Content::Fixed(bits)) => Any::Double(f64::from_bits(bits)),
                (5, Content::Bytes(list)) => Any::List(fields.inner(list)),
                (6, Content::Bytes(map)) => Any::Map(fields.inner(map)),
                (7, Content::Bytes(bytes)) => Any::Bytes(bytes),
                (1..=7, _) => return Err(fields.error(Fault::FieldType)),
                _ => any,
            };
        }
        Ok(any)
    }
}

fn put_shown(value: &impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a list of bytes takes all bytes");
}

/// Appends a float as its shortest decimal, with the names of Prometheus for infinity.
pub(super) fn put_double(value: f64, out: &mut Vec<u8>) {
    match value {
        f64::INFINITY => out.extend_from_slice(b"+Inf"),
        f64::NEG_INFINITY => out.extend_from_slice(b"-Inf"),
        value => put_shown(&value, out),
    }
}

fn shown(value: f64) -> Vec<u8> {
    let mut text = Vec::new();
    put_double(value, &mut text);
    text
}

fn put_json_text(text: &[u8], out: &mut Vec<u8>) {
    serde_json::to_writer(out, &String::from_utf8_lossy(text))
        .expect("a list of bytes takes all bytes");
}
