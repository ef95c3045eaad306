//! Search for the end of a line that could not be parsed.

/// Finds the newline that ends a line. Ignores newlines inside quoted texts.
///
/// The value keeps its state between calls, so a line may arrive in pieces. A quote opens a text only directly
/// after the `=` of a field. A stricter rule would start new lines inside the contents of texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineEnd {
    escaped: bool,
    in_fields: bool,
    after_equals: bool,
    quoted: bool,
}

impl LineEnd {
    /// Returns the index after the newline, if the newline is in `bytes`. `bytes` continue the line.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes
            .iter()
            .position(|byte| self.ends_with(*byte))
            .map(|at| at + 1)
    }

    fn ends_with(&mut self, byte: u8) -> bool {
        let (escaped, after_equals) = (self.escaped, self.after_equals);
        // A backslash escapes a backslash only inside a text.
        self.escaped = byte == b'\\' && !(self.quoted && escaped);
        self.after_equals = false;
        match byte {
            b'\n' => return !self.quoted,
            b'"' if self.quoted => self.quoted = escaped,
            b'"' => self.quoted = after_equals,
            b' ' if !escaped => self.in_fields = true,
            b'=' => self.after_equals = self.in_fields && !escaped && !self.quoted,
            _ => {}
        }
        false
    }
}
