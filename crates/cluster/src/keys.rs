//! Keys of rows: numbers as bytes that sort like the numbers, and texts that end in a zero byte.

/// Appends numbers and texts to a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyBuilder(Vec<u8>);

impl KeyBuilder {
    /// Returns an empty key.
    pub fn new() -> KeyBuilder {
        KeyBuilder::default()
    }

    /// Appends a text, which contains no zero byte.
    pub fn text(mut self, text: &str) -> KeyBuilder {
        debug_assert!(!text.contains('\0'), "a zero byte ends a text");
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }

    /// Appends a number of 16 bits.
    pub fn u16(mut self, number: u16) -> KeyBuilder {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends a number of 32 bits.
    pub fn u32(mut self, number: u32) -> KeyBuilder {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends a number of 64 bits.
    pub fn u64(mut self, number: u64) -> KeyBuilder {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Appends a signed number. Negative numbers sort first.
    pub fn i64(self, number: i64) -> KeyBuilder {
        self.u64(number as u64 ^ 1 << 63)
    }

    /// Returns the key.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Reader of a key's parts, in the order in which they were appended. `None` stands for a key of another form.
pub(crate) struct KeyReader<'a>(pub &'a [u8]);

impl<'a> KeyReader<'a> {
    /// Reads a text.
    pub fn text(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = std::str::from_utf8(&self.0[..end]).ok()?;
        self.0 = &self.0[end + 1..];
        Some(text)
    }

    /// Reads a number of 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*bytes))
    }

    /// Reads a number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    /// Reads a number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*bytes))
    }

    /// Reads a signed number.
    pub fn i64(&mut self) -> Option<i64> {
        self.u64().map(|number| (number ^ 1 << 63) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_their_parts_and_are_read_back() {
        let key = |text: &str, time: i64| KeyBuilder::new().text(text).i64(time).done();
        let sorted = [
            key("a", i64::MIN),
            key("a", -1),
            key("a", 0),
            key("a", i64::MAX),
            key("ab", -5),
            key("b", -9),
        ];
        assert!(sorted.is_sorted());
        let mut reader = KeyReader(&sorted[4]);
        assert_eq!((reader.text(), reader.i64()), (Some("ab"), Some(-5)));
        assert_eq!(reader.u32(), None);
    }
}
