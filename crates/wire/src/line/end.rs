//! Where a line ends that nobody could read.

/// Looks for the newline that ends a line, past those inside quoted texts.
///
/// It remembers where it is in the line, so that the line may come piece by piece. A quote
/// opens a text only right behind the `=` of a field; to be stricter than that would make
/// new lines out of the contents of texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineEnd {
    escaped: bool,
    in_fields: bool,
    after_equals: bool,
    quoted: bool,
}

impl LineEnd {
    /// The index after the newline, if it is in `bytes`, which continue the line.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes
            .iter()
            .position(|byte| self.ends_with(*byte))
            .map(|at| at + 1)
    }

    fn ends_with(&mut self, byte: u8) -> bool {
        let (escaped, after_equals) = (self.escaped, self.after_equals);
        // Backslashes escape each other in texts only.
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
