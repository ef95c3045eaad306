//! Columns of few distinct values: a dictionary of the values, and an index per value.
//!
//! Values are compared and sorted by their bits. So similar values have neighbouring indices, and the
//! differences of the indices stay small.

use crate::reader::Reader;
use crate::varint::put_u64;
use crate::{DecodeError, Effort, integers};

/// Maximum number of entries that the encoder collects.
const MAX_ENTRIES: usize = 4096;
/// Empty place of the hash table; indices of entries are smaller.
const EMPTY: u16 = u16::MAX;

/// Distinct values of a column, and the index of each value.
#[derive(Default)]
pub(crate) struct Dictionary {
    /// Bits of the values, ascending as signed integers.
    pub(crate) entries: Vec<u64>,
    indices: Vec<i64>,
    places: Vec<u16>,
    ranks: Vec<(u64, u16)>,
}

impl Dictionary {
    /// Collects the values of a column. Returns false, and stops, if more than a third are distinct.
    pub(crate) fn collect(&mut self, count: usize, bits: impl Iterator<Item = u64>) -> bool {
        let most = (count / 3).min(MAX_ENTRIES);
        let places = (most * 4).next_power_of_two().max(16);
        self.entries.clear();
        self.indices.clear();
        self.places.clear();
        self.places.resize(places, EMPTY);
        let shift = 64 - places.trailing_zeros();
        for bits in bits {
            let mut place = (bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
            let index = loop {
                let entry = self.places[place];
                if entry == EMPTY {
                    if self.entries.len() == most {
                        return false;
                    }
                    self.places[place] = self.entries.len() as u16;
                    self.entries.push(bits);
                    break self.entries.len() as u16 - 1;
                }
                if self.entries[usize::from(entry)] == bits {
                    break entry;
                }
                place = (place + 1) & (places - 1);
            };
            self.indices.push(i64::from(index));
        }
        self.sort();
        true
    }

    /// Sorts the entries and renumbers the indices.
    fn sort(&mut self) {
        self.ranks.clear();
        self.ranks.extend(
            (0u16..)
                .zip(&self.entries)
                .map(|(index, &bits)| (bits, index)),
        );
        self.ranks.sort_unstable_by_key(|&(bits, _)| bits as i64);
        self.places.clear();
        self.places.resize(self.entries.len(), 0);
        for (rank, &(bits, index)) in self.ranks.iter().enumerate() {
            self.entries[rank] = bits;
            self.places[usize::from(index)] = rank as u16;
        }
        self.indices
            .iter_mut()
            .for_each(|index| *index = i64::from(self.places[*index as usize]));
    }

    /// Appends the number of entries, the entries (through `encode_entries`) and the indices.
    pub(crate) fn encode(
        &self,
        effort: Effort,
        out: &mut Vec<u8>,
        encode_entries: impl FnOnce(&[u64], &mut Vec<u8>),
    ) {
        put_u64(self.entries.len() as u64, out);
        encode_entries(&self.entries, out);
        integers::encode(&self.indices, effort, out);
    }
}

/// Reads `count` values of a dictionary; `decode_entries` reads the entries.
pub(crate) fn decode<'a, T: Copy>(
    reader: &mut Reader<'a>,
    count: usize,
    decode_entries: impl FnOnce(&mut Reader<'a>, usize) -> Result<Vec<T>, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let length = reader.length(
        count,
        "a dictionary has more entries than the column values",
    )?;
    let entries = decode_entries(reader, length)?;
    let values = integers::decode_with(reader, count, |indices| {
        indices
            .iter()
            .map(|&index| {
                usize::try_from(index)
                    .ok()
                    .and_then(|index| entries.get(index))
                    .copied()
            })
            .collect::<Option<Vec<T>>>()
    })?;
    values.ok_or_else(|| reader.invalid("an index exceeds its dictionary"))
}
