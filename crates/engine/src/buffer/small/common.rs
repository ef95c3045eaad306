//! Numbers that neighbouring small blocks have in common, stored once for a group of sources.

use crate::buffer::row;
use seiner_codec::varint;

/// Numbers from which the blocks of a group differ: those of the block that was stored first.
#[derive(Clone, Copy)]
pub struct Common {
    pub block: u64,
    pub journal_file: u32,
    pub time: i64,
    /// Distance of the first two rows of a block in ns. 0 if no block had two rows yet.
    pub beat: i64,
}

impl Common {
    pub const BYTES: usize = Common::BEAT + Common::BEAT_BYTES;
    /// Position of the beat.
    const BEAT: usize = 20;
    /// Maximum bytes of the code of a beat: days.
    const BEAT_BYTES: usize = 6;

    pub fn read(string: &[u8]) -> Common {
        let word = |at: usize| u64::from_le_bytes(string[at..at + 8].try_into().expect("8 bytes"));
        Common {
            block: word(0),
            journal_file: word(8) as u32,
            time: word(12) as i64,
            beat: varint::unzigzag(word(Common::BYTES - 8) >> (64 - 8 * Common::BEAT_BYTES)),
        }
    }

    pub fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.block.to_le_bytes());
        out.extend_from_slice(&self.journal_file.to_le_bytes());
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&[0; Common::BEAT_BYTES]);
        let start = out.len() - Common::BYTES;
        Common::set_beat(&mut out[start..], self.beat);
    }

    /// Takes the beat of another group, if this one has none.
    pub fn or_beat_of(self, other: Option<Common>) -> Common {
        let beat = match self.beat {
            0 => other.map_or(0, |other| other.beat),
            beat => beat,
        };
        Common { beat, ..self }
    }

    /// Sets the beat of a group's string.
    pub fn set_beat(string: &mut [u8], beat: i64) {
        let bytes = varint::zigzag(beat).to_le_bytes();
        string[Common::BEAT..Common::BYTES].copy_from_slice(&bytes[..Common::BEAT_BYTES]);
    }
}

/// Returns the bytes of the value of a first row with these codes, 0 if it has none. `first` is the first byte of the
/// value.
pub fn value_bytes(codes: u8, first: u8) -> usize {
    row::number_bytes(codes >> 4, Some(&first)).unwrap_or(0)
}

/// Returns the distance of the first two rows, from the codes and the first bytes of the second row. Returns `None` if it
/// is 0, takes too many bytes, or is not encoded as usual.
pub fn beat_of(codes: u8, payload: &[u8; 8]) -> Option<i64> {
    let bytes = usize::from(codes & 15);
    if !(1..=Common::BEAT_BYTES).contains(&bytes) {
        return None;
    }
    let unused = 64 - 8 * bytes as u32;
    let beat = varint::unzigzag(u64::from_le_bytes(*payload) << unused >> unused);
    (beat_bytes(beat) == bytes).then_some(beat)
}

/// Returns the bytes of the code of a distance.
pub fn beat_bytes(beat: i64) -> usize {
    (64 - varint::zigzag(beat).leading_zeros()).div_ceil(8) as usize
}
