//! Entropy coding by an asymmetric numeral system (rANS), each token by the table of its context.
//!
//! One stream has the tokens of all contexts of a chunk. The remainders' bits are a second stream. A
//! context with a single token takes no bits.

use seiner_codec::DecodeError;
use seiner_codec::bits::{self, BitWriter, PADDING, bytes_for};
use seiner_codec::reader::Reader;
use seiner_codec::varint::put_u64;

use crate::table::{MOST_TOKENS, SHARE_BITS, SHARES, Table};
use crate::token::{Division, FINE};

/// Lower bound of a state. Two bytes at a time move out of or into a state.
const FLOOR: u32 = 1 << 16;
/// Number of tokens of a chunk from which on four states are used.
const MANY: usize = 1024;

/// Precomputed values for the encoding of one token.
#[derive(Clone, Copy, Default)]
struct Step {
    /// 2^64 divided by the share: a multiplication replaces the division. Exact for 32-bit states.
    reciprocal: u64,
    /// Largest state that encodes the token directly; a state above it first emits its low half.
    most: u32,
    /// Sum of the other shares.
    others: u32,
    /// Start of the token's share; for a share of 1, whose reciprocal does not fit, plus `others`.
    start: u32,
}

impl Step {
    fn new(share: u32, start: u32) -> Step {
        let others = SHARES - share;
        let (reciprocal, correction) = match share {
            1 => (u64::MAX, others),
            _ => (u64::MAX / u64::from(share) + 1, 0),
        };
        Step {
            reciprocal,
            most: ((u64::from(share) << (32 - SHARE_BITS)) - 1) as u32,
            others,
            start: start + correction,
        }
    }
}

/// Place of a table's steps.
struct TableSteps {
    division: Division,
    /// Index of the step of token 0, which may lie before all steps.
    origin: isize,
    /// True if tokens take bits.
    is_coded: bool,
    /// True if numbers take no bits at all.
    is_free: bool,
}

/// Precomputed values of all tables of a group.
pub(crate) struct Steps {
    tables: Vec<TableSteps>,
    steps: Vec<Step>,
}

impl Steps {
    /// Computes the steps of all tables.
    pub(crate) fn new(tables: &[Table]) -> Steps {
        let mut all = Steps {
            tables: Vec::with_capacity(tables.len()),
            steps: Vec::new(),
        };
        for table in tables {
            let Table::Counted(counts) = table else {
                let is_free = match table {
                    Table::Constant(token) => FINE.start(usize::from(*token)).1 == 0,
                    _ => false,
                };
                all.tables.push(TableSteps {
                    division: FINE,
                    origin: 0,
                    is_coded: false,
                    is_free,
                });
                continue;
            };
            let shares = counts.shares();
            let first = shares.first().map_or(0, |&(token, _)| token);
            let base = all.steps.len();
            let mut start = 0;
            for (token, share) in shares {
                let place = base + usize::from(token - first);
                all.steps.resize(place, Step::default());
                all.steps.push(Step::new(share, start));
                start += share;
            }
            all.tables.push(TableSteps {
                division: counts.division(),
                origin: base as isize - first as isize,
                is_coded: true,
                is_free: false,
            });
        }
        all
    }
}

/// Buffers that are reused between chunks.
#[derive(Default)]
pub(crate) struct Scratch {
    places: Vec<u32>,
    bits: Vec<u8>,
    words: Vec<u16>,
}

/// Numbers of one chunk, collected in the order of decoding.
pub(crate) struct NumberWriter<'a> {
    steps: &'a Steps,
    places: &'a mut Vec<u32>,
    bits: BitWriter<'a>,
}

impl Scratch {
    /// Encodes the numbers that `fill` writes, and appends the bytes.
    pub(crate) fn encode(
        &mut self,
        steps: &Steps,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut NumberWriter<'_>),
    ) {
        self.places.clear();
        self.bits.clear();
        let mut writer = NumberWriter {
            steps,
            places: &mut self.places,
            bits: BitWriter::new(&mut self.bits),
        };
        fill(&mut writer);
        writer.bits.finish();
        let states = match self.places.len() {
            0 => 0,
            count if count < MANY => 1,
            _ => 4,
        };
        out.push(states);
        match states {
            0 => {}
            1 => self.encode_states::<1>(&steps.steps, out),
            _ => self.encode_states::<4>(&steps.steps, out),
        }
        put_u64(self.bits.len() as u64, out);
        out.extend_from_slice(&self.bits);
    }

    /// Encodes from the last token to the first, so that decoding runs forwards.
    fn encode_states<const N: usize>(&mut self, steps: &[Step], out: &mut Vec<u8>) {
        self.words.clear();
        self.words.resize(self.places.len() + 1, 0);
        let mut free = self.words.len();
        let mut states = [FLOOR; N];
        let words = &mut self.words;
        let mut push = |state: &mut u32, place: u32| {
            let step = &steps[place as usize];
            let full = *state > step.most;
            // The next word overwrites this one unless `free` moves.
            words[free - 1] = *state as u16;
            free -= usize::from(full);
            let held = if full { *state >> 16 } else { *state };
            let quotient = ((u128::from(step.reciprocal) * u128::from(held)) >> 64) as u32;
            *state = held + quotient * step.others + step.start;
        };
        let (rounds, rest) = self.places.as_chunks::<N>();
        for (state, &place) in states.iter_mut().zip(rest).rev() {
            push(state, place);
        }
        for round in rounds.iter().rev() {
            for (state, &place) in states.iter_mut().zip(round).rev() {
                push(state, place);
            }
        }
        put_u64((self.words.len() - free) as u64, out);
        for state in states {
            out.extend_from_slice(&state.to_le_bytes());
        }
        for word in &self.words[free..] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

impl NumberWriter<'_> {
    /// Returns whether the numbers of a table take no bits.
    pub(crate) fn is_free(&self, table: usize) -> bool {
        self.steps.tables[table].is_free
    }

    /// Appends a number in the context of a table.
    #[inline(always)]
    pub(crate) fn put(&mut self, table: usize, number: u64) {
        let table = &self.steps.tables[table];
        if table.is_free {
            return;
        }
        let (token, remainder) = table.division.token(number);
        if table.is_coded {
            self.places.push((table.origin + token as isize) as u32);
        }
        self.bits.put(number & bits::low_mask(remainder), remainder);
    }
}

impl NumberWriter<'_> {
    /// Appends numbers, given as i64 of the same bits, in the context of one table.
    #[inline(always)]
    pub(crate) fn put_all(&mut self, table: usize, numbers: &[i64]) {
        let table = &self.steps.tables[table];
        if table.is_free {
            return;
        }
        let (division, origin, is_coded) = (table.division, table.origin, table.is_coded);
        self.places.reserve(numbers.len());
        for &number in numbers {
            let number = number as u64;
            let (token, remainder) = division.token(number);
            if is_coded {
                self.places.push((origin + token as isize) as u32);
            }
            self.bits.put(number & bits::low_mask(remainder), remainder);
        }
    }
}

/// Table in the form in which it decodes.
pub(crate) enum DecodeTable {
    /// Context that does not occur.
    Empty,
    /// Context with one token: its smallest number and its remaining bits.
    Constant(u64, u32),
    /// Context with at least two tokens.
    Slots(Box<Slots>),
}

/// Tokens of a table by slot. A byte per slot is filled, and stays in the cache, much faster than all that decoding needs.
pub(crate) struct Slots {
    /// Index of the token of each slot.
    tokens: [u8; SHARES as usize],
    /// First slot of the token, and its share from bit 16 on, by index.
    shares: [u32; MOST_TOKENS],
    /// Smallest number and remaining bits of each token, by index.
    starts: [(u64, u32); MOST_TOKENS],
}

impl DecodeTable {
    /// Bytes of the memory of a large table.
    pub(crate) const LARGE_BYTES: usize = size_of::<Slots>();

    /// Returns whether the table has memory of its own.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, DecodeTable::Slots(_))
    }

    /// Returns the number of a table whose numbers are all the same.
    pub(crate) fn constant(&self) -> Option<u64> {
        match self {
            DecodeTable::Constant(number, 0) => Some(*number),
            _ => None,
        }
    }

    /// Computes the slots of a table.
    pub(crate) fn new(table: &Table) -> DecodeTable {
        let counts = match table {
            Table::Empty => return DecodeTable::Empty,
            Table::Constant(token) => {
                let (start, remainder) = FINE.start(usize::from(*token));
                return DecodeTable::Constant(start, remainder);
            }
            Table::Counted(counts) => counts,
        };
        let mut table = Box::new(Slots {
            tokens: [0; SHARES as usize],
            shares: [0; MOST_TOKENS],
            starts: [(0, 0); MOST_TOKENS],
        });
        let mut first = 0;
        for (index, (token, share)) in counts.shares().into_iter().enumerate().take(MOST_TOKENS) {
            table.starts[index] = counts.division().start(usize::from(token));
            table.shares[index] = share << 16 | first;
            let end = (first + share).min(SHARES);
            table.tokens[first as usize..end as usize].fill(index as u8);
            first = end;
        }
        DecodeTable::Slots(table)
    }
}

/// Reader of the numbers of one chunk. Past the end it reads zeros; [`NumberReader::finish`] detects it.
pub(crate) struct NumberReader<'a> {
    states: [u32; 4],
    mask: usize,
    at: usize,
    words: &'a [[u8; 2]],
    read: usize,
    /// Bits of the remainders, with padding.
    bits: Vec<u8>,
    position: usize,
    limit: usize,
    failed: bool,
}

impl<'a> NumberReader<'a> {
    /// Reads the sections of numbers at the front of a chunk.
    pub(crate) fn new(reader: &mut Reader<'a>) -> Result<NumberReader<'a>, DecodeError> {
        let count = reader.byte("the number of states")?;
        let mut states = [FLOOR; 4];
        let mut words: &[[u8; 2]] = &[];
        match count {
            0 => {}
            1 | 4 => {
                let length = reader.length(usize::MAX >> 2, "the number of words")?;
                for state in &mut states[..usize::from(count)] {
                    let bytes = reader.take(4, "the states")?;
                    *state = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
                words = reader.take(2 * length, "the words")?.as_chunks().0;
            }
            found => return Err(reader.unknown("a number of states", found)),
        }
        let length = reader.length(usize::MAX >> 4, "the length of the remainders")?;
        let packed = reader.take(length, "the remainders")?;
        let mut bits = Vec::with_capacity(length + PADDING);
        bits.extend_from_slice(packed);
        bits.extend_from_slice(&[0; PADDING]);
        Ok(NumberReader {
            states,
            mask: usize::from(count.saturating_sub(1)) & 3,
            at: 0,
            words,
            read: 0,
            bits,
            position: 0,
            limit: length * 8,
            failed: false,
        })
    }

    /// Reads a number in the context of a table.
    #[inline(always)]
    pub(crate) fn number(&mut self, table: &DecodeTable) -> u64 {
        let (start, remainder) = match table {
            DecodeTable::Slots(table) => table.starts[self.token(table)],
            // The usual case of an exact clock or dense ids, without remaining bits.
            DecodeTable::Constant(start, 0) => return *start,
            DecodeTable::Constant(start, remainder) => (*start, *remainder),
            DecodeTable::Empty => {
                self.failed = true;
                (0, 0)
            }
        };
        // The position is checked at the end. Until then it must not leave the padding.
        let position = self.position.min(self.limit);
        self.position += remainder as usize;
        start + bits::get(&self.bits, position, remainder)
    }

    #[inline(always)]
    fn token(&mut self, table: &Slots) -> usize {
        let state = &mut self.states[self.at & self.mask & 3];
        self.at += 1;
        pop(state, table, self.words, &mut self.read)
    }

    /// Reads numbers in the context of one table, as i64 of the same bits.
    #[inline(always)]
    pub(crate) fn fill(&mut self, table: &DecodeTable, numbers: &mut [i64]) {
        for place in numbers {
            *place = self.number(table) as i64;
        }
    }

    /// Marks the numbers as damaged.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Checks that all tokens and bits were read, and that no number was invalid.
    pub(crate) fn finish(&self, reader: &Reader<'_>) -> Result<(), DecodeError> {
        if self.read != self.words.len() || self.states != [FLOOR; 4] {
            return Err(reader.invalid("the tokens do not end where they began"));
        }
        if self.limit != bytes_for(self.position) * 8 {
            return Err(reader.invalid("the remainders have another length"));
        }
        if self.failed {
            return Err(reader.invalid("a number lies outside its range"));
        }
        Ok(())
    }
}

/// Takes a token from a state. Returns the index of the token in its table.
#[inline(always)]
fn pop(state: &mut u32, table: &Slots, words: &[[u8; 2]], read: &mut usize) -> usize {
    let slot = *state & (SHARES - 1);
    let token = usize::from(table.tokens[slot as usize]);
    let (share, first) = (table.shares[token] >> 16, table.shares[token] & 0xffff);
    // Cannot overflow: the share is below the sum of all shares, and the token's first slot is at or below this one.
    let next = share * (*state >> SHARE_BITS) + (slot - first);
    let word = words.get(*read).copied().unwrap_or_default();
    let is_low = next < FLOOR;
    *read += usize::from(is_low);
    *state = if is_low {
        next << 16 | u32::from(u16::from_le_bytes(word))
    } else {
        next
    };
    token
}
