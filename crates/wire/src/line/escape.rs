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

/// What a backslash escapes in a measurement.
pub const IN_MEASUREMENT: &[u8] = b", \\";
/// What a backslash escapes in the names and values of tags and in the names of fields.
pub const IN_NAME: &[u8] = b",= \\";
/// What a backslash escapes in a quoted text.
pub const IN_TEXT: &[u8] = b"\"\\";

/// Appends a tag's name or value as lines write it, with backslashes where it needs them.
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

/// Whether the byte at `at` is escaped: an odd number of backslashes, none of them before
/// `start`, stands before it.
pub fn is_escaped(text: &[u8], start: usize, at: usize) -> bool {
    text[start..at]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count()
        % 2
        == 1
}

/// The first `wanted` byte from `start` on that is not escaped.
pub fn find_unescaped(text: &[u8], start: usize, wanted: u8) -> Option<usize> {
    memchr::memchr_iter(wanted, text.get(start..)?)
        .map(|offset| start + offset)
        .find(|at| !is_escaped(text, start, *at))
}
