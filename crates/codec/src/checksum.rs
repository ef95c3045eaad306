//! Checksum of blocks, footers and journal records.

use crc_fast::CrcAlgorithm;

/// Returns the CRC-32C (Castagnoli, as in iSCSI) of the bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(super::checksum(b"123456789"), 0xe306_9283);
    }
}
