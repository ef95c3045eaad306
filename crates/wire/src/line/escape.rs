//! Backslash escapes, and memory for the unescaped bytes.

use memchr::{memchr, memchr2, memchr3};

/// Memory for names and texts that contained escapes. All others borrow from the input.
#[derive(Default)]
pub struct Arena(bumpalo::Bump);

impl Arena {
    /// Creates an empty arena. It allocates at the first escape.
    pub fn new() -> Arena {
        Arena::default()
    }

    /// Discards all bytes. Keeps memory for the next ones.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Returns a copy of bytes that lives until the arena is cleared.
    pub fn keep(&self, bytes: &[u8]) -> &[u8] {
        self.0.alloc_slice_copy(bytes)
    }

    /// Returns a copy of a text that lives until the arena is cleared.
    pub(crate) fn keep_str(&self, text: &str) -> &str {
        self.0.alloc_str(text)
    }

    /// Returns a copy of bytes with one byte instead of another.
    pub(crate) fn keep_replaced(&self, bytes: &[u8], from: u8, to: u8) -> &[u8] {
        let replaced = |byte: &u8| if *byte == from { to } else { *byte };
        self.0.alloc_slice_fill_iter(bytes.iter().map(replaced))
    }

    /// Returns the parts as one piece that lives until the arena is cleared.
    pub(crate) fn keep_joined<const N: usize>(&self, parts: [&[u8]; N]) -> &[u8] {
        let len = parts.iter().map(|part| part.len()).sum();
        let bytes = self.0.alloc_slice_fill_copy(len, 0);
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }

    /// Returns `raw` without the backslashes that escape a byte of `escapable`. A backslash before any other
    /// byte is literal.
    pub(super) fn unescape<'a>(&'a self, raw: &'a [u8], escapable: &[u8]) -> &'a [u8] {
        if memchr(b'\\', raw).is_none() {
            return raw;
        }
        let bytes = self.0.alloc_slice_copy(raw);
        let len = unescape_in_place(bytes, escapable);
        &bytes[..len]
    }
}

/// Bytes that a backslash escapes in a measurement. The backslash itself is not among them: senders write
/// `\\server\share` unescaped, as for InfluxDB.
pub const IN_MEASUREMENT: &[u8] = b", ";
/// Bytes that a backslash escapes in the names and values of tags and in the names of fields.
pub const IN_NAME: &[u8] = b",= ";
/// Bytes that a backslash escapes in a quoted text.
pub const IN_TEXT: &[u8] = b"\"\\";

/// Appends `tag=value` in the notation of lines, with backslashes where necessary. A name that ends in a backslash
/// cannot be written in a line: its last byte would escape the byte that follows.
pub(crate) fn escape_tag(tag: &str, value: &str, text: &mut String) {
    escape(tag, IN_NAME, text);
    text.push('=');
    escape(value, IN_NAME, text);
}

/// Appends a measurement as [`escape_tag`] appends tags.
pub(crate) fn escape_measurement(name: &str, text: &mut String) {
    escape(name, IN_MEASUREMENT, text);
}

fn escape(name: &str, escapable: &[u8], text: &mut String) {
    let mut rest = name;
    while let Some(at) = first(rest.as_bytes(), escapable) {
        text.push_str(&rest[..at]);
        text.push('\\');
        text.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    text.push_str(rest);
}

/// Returns the index of the first byte that a backslash escapes.
fn first(name: &[u8], escapable: &[u8]) -> Option<usize> {
    match escapable {
        [a, b] => memchr2(*a, *b, name),
        [a, b, c] => memchr3(*a, *b, *c, name),
        _ => name.iter().position(|byte| escapable.contains(byte)),
    }
}

/// Removes escapes as [`Arena::unescape`] does, in place. Returns the number of bytes left.
pub fn unescape_in_place(bytes: &mut [u8], escapable: &[u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    while from < bytes.len() {
        let escapes = bytes[from] == b'\\'
            && bytes
                .get(from + 1)
                .is_some_and(|next| escapable.contains(next));
        from += usize::from(escapes);
        bytes[to] = bytes[from];
        from += 1;
        to += 1;
    }
    to
}

/// Returns true if the separator at `at` belongs to the name that begins at `start`: the byte directly before the
/// separator is a backslash. Bytes before that backslash do not matter.
#[inline(always)]
pub fn is_escaped(text: &[u8], start: usize, at: usize) -> bool {
    at > start && text[at - 1] == b'\\'
}

/// Returns the index of the first `wanted` byte of `name` that is not escaped.
pub fn find_separator(name: &[u8], wanted: u8) -> Option<usize> {
    memchr::memchr_iter(wanted, name).find(|at| !is_escaped(name, 0, *at))
}

/// Returns the index of the quote that ends a text whose contents begin at `start`. An even number of
/// backslashes precedes that quote, because backslashes escape each other in texts.
pub fn find_quote(text: &[u8], start: usize) -> Option<usize> {
    let backslashes = |at: usize| {
        let before = text[start..at].iter().rev();
        before.take_while(|byte| **byte == b'\\').count()
    };
    memchr::memchr_iter(b'"', text.get(start..)?)
        .map(|offset| start + offset)
        .find(|at| backslashes(*at) % 2 == 0)
}
