//! Backslashes, and where the bytes live that are left when they are gone.

use memchr::memchr;

/// Memory for names and texts that had escapes; all others borrow from the text itself.
#[derive(Default)]
pub struct Arena(bumpalo::Bump);

impl Arena {
    /// An empty arena; takes memory at the first escape.
    pub fn new() -> Arena {
        Arena::default()
    }

    /// Forgets all bytes, keeps memory for the next ones.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// `raw` without the backslashes that escape one of `escapable`. A backslash before
    /// any other byte stands for itself.
    pub(super) fn unescape<'a>(&'a self, raw: &'a [u8], escapable: &[u8]) -> &'a [u8] {
        if memchr(b'\\', raw).is_none() {
            return raw;
        }
        let bytes = self.0.alloc_slice_copy(raw);
        let len = unescape_in_place(bytes, escapable);
        &bytes[..len]
    }
}

/// Bytes that a backslash escapes in a measurement. A backslash is none of them: senders write
/// `\\server\share` as it is, as they do to InfluxDB.
pub const IN_MEASUREMENT: &[u8] = b", ";
/// Bytes that a backslash escapes in the names and values of tags and in the names of fields.
pub const IN_NAME: &[u8] = b",= ";
/// Bytes that a backslash escapes in a quoted text.
pub const IN_TEXT: &[u8] = b"\"\\";

/// Appends a tag's name or value as lines write it, with backslashes where it needs them. A name
/// that ends in a backslash has no notation in a line: what follows would be escaped.
pub(crate) fn escape_name(name: &str, text: &mut String) {
    for c in name.chars() {
        if u8::try_from(c).is_ok_and(|byte| IN_NAME.contains(&byte)) {
            text.push('\\');
        }
        text.push(c);
    }
}

/// As [`Arena::unescape`], in place; answers how many bytes are left.
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

/// Whether the separator at `at` belongs to the name that begins at `start`: a backslash stands
/// right before it, whatever stands before the backslash.
#[inline(always)]
pub fn is_escaped(text: &[u8], start: usize, at: usize) -> bool {
    at > start && text[at - 1] == b'\\'
}

/// The first `wanted` byte of `name` that separates.
pub fn find_separator(name: &[u8], wanted: u8) -> Option<usize> {
    memchr::memchr_iter(wanted, name).find(|at| !is_escaped(name, 0, *at))
}

/// The quote that ends a text whose contents begin at `start`: an even number of backslashes
/// stands before it, as backslashes escape each other there.
pub fn find_quote(text: &[u8], start: usize) -> Option<usize> {
    let backslashes = |at: usize| {
        let before = text[start..at].iter().rev();
        before.take_while(|byte| **byte == b'\\').count()
    };
    memchr::memchr_iter(b'"', text.get(start..)?)
        .map(|offset| start + offset)
        .find(|at| backslashes(*at) % 2 == 0)
}
