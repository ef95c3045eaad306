//! Decoders without checksums, for tests with hostile bytes and for fuzz targets.

use crate::Directory;

/// Parses a directory without its checksum and decodes all of its chunks from `data`, without their
/// checksums. A chunk that exceeds the data ends with it. Returns whether there was no error.
pub fn bundle(directory: &[u8], data: &[u8]) -> bool {
    let Ok(directory) = Directory::parse_body(directory) else {
        return false;
    };
    let mut is_whole = true;
    for chunk in directory.chunks() {
        let start = chunk.start.min(data.len());
        let bytes = &data[start..chunk.end.min(data.len())];
        match directory.decode_unchecked(chunk.index, bytes) {
            Ok(rows) => {
                for source in rows.sources() {
                    assert_eq!(source.rows.fields.len(), source.layout.len());
                }
            }
            Err(_) => is_whole = false,
        }
    }
    is_whole
}
