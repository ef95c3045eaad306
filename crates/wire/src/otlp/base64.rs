//! Base64 with padding, for attributes of bytes.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes as text.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for nth in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * nth)) as usize & 63];
            out.push(if nth <= group.len() { letter } else { b'=' });
        }
    }
}

/// Appends the bytes of a text. Both alphabets are read, with and without padding. Returns `None` for other letters.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let end = text
        .iter()
        .rposition(|&byte| byte != b'=')
        .map_or(0, |last| last + 1);
    for group in text[..end].chunks(4) {
        let mut bits = 0;
        for &byte in group {
            bits = bits << 6 | value(byte)?;
        }
        bits <<= 6 * (4 - group.len());
        let bytes = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        out.extend_from_slice(&bytes[..group.len() - 1]);
    }
    Some(())
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_return() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfb", "//77"),
        ] {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(bytes, &mut encoded);
            assert_eq!(encoded, text.as_bytes());
            assert_eq!(decode(text.as_bytes(), &mut decoded), Some(()));
            assert_eq!(decoded, bytes);
        }
        let mut decoded = Vec::new();
        assert_eq!(decode(b"__77", &mut decoded), Some(()));
        assert_eq!(decoded, b"\xff\xfe\xfb");
        assert_eq!(decode(b"a*", &mut decoded), None);
    }
}
