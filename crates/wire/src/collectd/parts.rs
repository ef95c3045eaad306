//! Parts of a packet: type, length and content.

/// Bytes of the type and the length of a part.
const HEADER: usize = 4;
/// Maximum length of a text in bytes. collectd sends at most 128.
const MAX_TEXT: usize = 256;

/// Part of a packet.
pub(super) struct Part<'p> {
    /// Type.
    pub kind: u16,
    /// Content.
    pub content: &'p [u8],
    /// Bytes of the packet after the part.
    pub rest: &'p [u8],
}

/// Splits the first part off a packet; `None` at the end of the packet.
///
/// # Errors
/// If the length of the part does not fit into the packet.
pub(super) fn next_part(packet: &[u8]) -> Result<Option<Part<'_>>, String> {
    if packet.is_empty() {
        return Ok(None);
    }
    let cut = || format!("a part is cut off, with {} bytes left", packet.len());
    let (header, _) = packet.split_first_chunk::<HEADER>().ok_or_else(cut)?;
    let [a, b, c, d] = *header;
    let (kind, len) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let part = packet.get(..usize::from(len)).ok_or_else(cut)?;
    let content = part
        .get(HEADER..)
        .ok_or_else(|| format!("a part states the length {len}"))?;
    Ok(Some(Part {
        kind,
        content,
        rest: &packet[usize::from(len)..],
    }))
}

/// Returns a text that ends with a zero.
pub(super) fn text(content: &[u8]) -> Result<&str, String> {
    let (last, text) = content
        .split_last()
        .ok_or("a text in the packet is empty")?;
    let text = std::str::from_utf8(text).map_err(|_| "a text in the packet is not UTF-8")?;
    if text.len() > MAX_TEXT {
        return Err(format!(
            "a text in the packet is longer than {MAX_TEXT} bytes"
        ));
    }
    match *last == 0 && !text.contains('\0') {
        true => Ok(text),
        false => Err("a text in the packet does not end with a zero".to_string()),
    }
}

/// Returns a number of 64 bits in network order.
pub(super) fn number(content: &[u8]) -> Result<u64, String> {
    let bytes = content
        .try_into()
        .map_err(|_| format!("a number in the packet has {} bytes", content.len()))?;
    Ok(u64::from_be_bytes(bytes))
}
