//! Reader of Protocol Buffers: the fields of a message, borrowed from its bytes.

use std::fmt;

/// Error of bytes that are not valid Protocol Buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {fault}")]
pub struct Malformed {
    /// Offset of the fault in the request, from 0.
    pub offset: usize,
    /// Kind of the fault.
    pub fault: Fault,
}

/// Kind of a fault in the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message ends within a number.
    CutNumber,
    /// A number has more than 64 bits.
    LongNumber,
    /// The content of a field is longer than the rest of its message.
    CutField,
    /// A field has the number 0, or a number above 2²⁹ - 1.
    FieldNumber,
    /// A field has an unknown wire type, or that of a group.
    WireType,
    /// A known field has the wire type of another type.
    FieldType,
    /// The table of symbols is larger than a sender needs.
    Symbols,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::CutNumber => "the message ends within a number",
            Fault::LongNumber => "a number has more than 64 bits",
            Fault::CutField => "a field is longer than its message",
            Fault::FieldNumber => "a field has an invalid number",
            Fault::WireType => "a field has an unknown wire type",
            Fault::FieldType => "a field has the wrong type",
            Fault::Symbols => "the table of symbols is longer than 4 GiB",
        })
    }
}

/// Content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content<'a> {
    /// Number of variable length.
    Number(u64),
    /// Eight bytes.
    Fixed(u64),
    /// Four bytes, which no message of remote write or of OTLP metrics contains.
    Short,
    /// Text, message or packed list.
    Bytes(&'a [u8]),
}

/// Fields of a message, in their order.
///
/// Offsets count from the begin of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes` in the request.
    base: usize,
}

impl<'a> Fields<'a> {
    /// Reads a message that begins at an offset of the request.
    pub fn new(bytes: &'a [u8], base: usize) -> Fields<'a> {
        Fields { bytes, at: 0, base }
    }

    /// Continues at an offset of the message.
    pub fn from(self, at: usize) -> Fields<'a> {
        Fields { at, ..self }
    }

    /// Returns the offset of the next field in the message.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the bytes of the next fields.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns the bytes of the message between two offsets.
    pub fn between(&self, from: usize, to: usize) -> &'a [u8] {
        &self.bytes[from..to]
    }

    /// Returns the fields of the content that was read last, which has this length.
    pub fn inner(&self, content: &'a [u8]) -> Fields<'a> {
        Fields::new(content, self.base + self.at - content.len())
    }

    /// Returns an error at the present position.
    pub fn error(&self, fault: Fault) -> Malformed {
        Malformed {
            offset: self.base + self.at,
            fault,
        }
    }

    /// Returns the number and content of the next field; `None` at the end of the message.
    ///
    /// # Errors
    /// If the bytes are not a field.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u32, Content<'a>)>, Malformed> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let key = self.number()?;
        let number = match u32::try_from(key >> 3) {
            Ok(number @ 1..=0x1fff_ffff) => number,
            _ => return Err(self.error(Fault::FieldNumber)),
        };
        let content = match key & 7 {
            0 => Content::Number(self.number()?),
            1 => Content::Fixed(self.fixed()?),
            2 => {
                let len = self.number()?;
                let left = self.bytes.len() - self.at;
                match usize::try_from(len) {
                    Ok(len) if len <= left => Content::Bytes(self.take(len)),
                    _ => return Err(self.error(Fault::CutField)),
                }
            }
            5 if self.bytes.len() - self.at >= 4 => {
                self.take(4);
                Content::Short
            }
            5 => return Err(self.error(Fault::CutField)),
            _ => return Err(self.error(Fault::WireType)),
        };
        Ok(Some((number, content)))
    }

    /// Returns the next number of variable length: of a packed list, or of a field.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (nth, &byte) in self.bytes[self.at..].iter().take(10).enumerate() {
            // The tenth byte has the last bit.
            if nth == 9 && byte > 1 {
                return Err(self.error(Fault::LongNumber));
            }
            number |= u64::from(byte & 0x7f) << (7 * nth);
            if byte < 0x80 {
                self.at += nth + 1;
                return Ok(number);
            }
        }
        Err(self.error(Fault::CutNumber))
    }

    fn fixed(&mut self) -> Result<u64, Malformed> {
        match self.bytes[self.at..].first_chunk::<8>() {
            Some(bytes) => {
                self.at += 8;
                Ok(u64::from_le_bytes(*bytes))
            }
            None => Err(self.error(Fault::CutField)),
        }
    }

    /// Returns the next bytes. The caller has checked that they exist.
    #[inline]
    fn take(&mut self, len: usize) -> &'a [u8] {
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        taken
    }

    /// Returns whether the message has no more bytes.
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

/// Appends a number of variable length.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Option<(u32, Content<'_>)>, Fault> {
        let found = Fields::new(bytes, 0).next();
        found.map_err(|malformed| malformed.fault)
    }

    #[test]
    fn fields_have_four_types() {
        assert_eq!(first(&[]), Ok(None));
        assert_eq!(first(&[8, 0x96, 1]), Ok(Some((1, Content::Number(150)))));
        let fixed = [0x11, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(first(&fixed), Ok(Some((2, Content::Fixed(1)))));
        assert_eq!(first(&[0x1d, 1, 0, 0, 0]), Ok(Some((3, Content::Short))));
        let text = [0x22, 2, b'h', b'i'];
        assert_eq!(first(&text), Ok(Some((4, Content::Bytes(b"hi")))));
        let most = [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(first(&most), Ok(Some((1, Content::Number(u64::MAX)))));
    }

    #[test]
    fn faults_are_found() {
        for (bytes, fault) in [
            (&[8][..], Fault::CutNumber),
            (&[8, 0x80], Fault::CutNumber),
            (
                &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
                Fault::LongNumber,
            ),
            (&[0x12, 3, b'h', b'i'], Fault::CutField),
            (
                &[0x12, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
                Fault::CutField,
            ),
            (&[0x11, 1, 2], Fault::CutField),
            (&[0x1d, 1, 2], Fault::CutField),
            (&[2, 0], Fault::FieldNumber),
            (&[0x0b], Fault::WireType),
            (&[0x0f], Fault::WireType),
        ] {
            assert_eq!(first(bytes), Err(fault), "{bytes:?}");
        }
    }

    #[test]
    fn numbers_survive() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            let mut fields = Fields::new(&bytes, 0);
            assert_eq!(fields.number(), Ok(number));
            assert!(fields.is_empty());
        }
    }
}
