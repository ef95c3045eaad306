//! Fields of protobuf messages.

/// Appends a field of bytes, text, or another message.
pub fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    number(message, value.len() as u64);
    message.extend_from_slice(value);
}

/// Appends a field of eight bytes.
pub fn fixed(message: &mut Vec<u8>, field: u8, value: u64) {
    message.push(field << 3 | 1);
    message.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field of a number with variable length.
pub fn varint(message: &mut Vec<u8>, field: u8, value: u64) {
    message.push(field << 3);
    number(message, value);
}

fn number(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
