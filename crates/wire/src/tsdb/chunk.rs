//! Chunks: about 120 samples of one series each, in the files of the folder `chunks`.

use super::TsdbError;
use super::bits::Bits;
use super::cursor::Cursor;

/// Bytes at the begin of a file with chunks.
pub const HEADER_BYTES: usize = 8;

/// Begin of a file with chunks: a magic number, and version 1.
const HEADER: [u8; 5] = [0x85, 0xbd, 0x40, 0xdd, 1];

/// Maximum bytes of a chunk's data. Prometheus writes some 1000 bytes.
const MAX_DATA_BYTES: u64 = 16 << 20;

/// Maximum bytes of the length of a chunk.
pub const MAX_LENGTH_BYTES: usize = 5;

/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 4;

/// Minimum bits of a sample after the second one.
const MIN_SAMPLE_BITS: usize = 2;

/// Encoding of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Floats, each as the difference to the one before.
    Xor,
    /// Native histograms with integers.
    Histogram,
    /// Native histograms with floats.
    FloatHistogram,
    /// Another encoding, by its number.
    Other(u8),
}

impl Encoding {
    fn of(number: u8) -> Encoding {
        match number {
            1 => Encoding::Xor,
            2 => Encoding::Histogram,
            3 => Encoding::FloatHistogram,
            other => Encoding::Other(other),
        }
    }
}

/// A chunk with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Encoding of the samples.
    pub encoding: Encoding,
    /// Samples.
    pub data: &'a [u8],
    /// Bytes that the checksum covers: the encoding and the samples.
    pub covered: &'a [u8],
    /// CRC-32C that the file states.
    pub checksum: u32,
}

/// Checks the first [`HEADER_BYTES`] of a file with chunks.
///
/// # Errors
/// If they are others.
pub fn check_header(bytes: &[u8]) -> Result<(), TsdbError> {
    let what = match bytes {
        bytes if bytes.starts_with(&HEADER) => return Ok(()),
        bytes if bytes.starts_with(&HEADER[..4]) => "the file has another version than 1",
        _ => "the file does not begin as a file with chunks",
    };
    Err(TsdbError { at: 0, what })
}

/// Returns the number of bytes of the chunk that begins with these bytes. [`MAX_LENGTH_BYTES`] are sufficient.
///
/// # Errors
/// If the length is impossible.
pub fn chunk_bytes(begin: &[u8]) -> Result<usize, TsdbError> {
    let mut cursor = Cursor::new(&begin[..begin.len().min(MAX_LENGTH_BYTES)]);
    let data = cursor.uvarint()?;
    if data > MAX_DATA_BYTES {
        return Err(cursor.error("a chunk of this length is impossible"));
    }
    Ok(cursor.at() + 1 + data as usize + CHECKSUM_BYTES)
}

/// Divides the bytes of a chunk into its parts.
///
/// # Errors
/// If the bytes end too early, or the length is impossible.
pub fn parse(bytes: &[u8]) -> Result<Chunk<'_>, TsdbError> {
    chunk_bytes(bytes)?;
    let mut cursor = Cursor::new(bytes);
    let length = cursor.uvarint()? as usize;
    let covered = cursor.take(1 + length)?;
    Ok(Chunk {
        encoding: Encoding::of(covered[0]),
        data: &covered[1..],
        covered,
        checksum: cursor.be32()?,
    })
}

/// Returns the number of samples of a chunk of Prometheus, in any encoding.
pub fn sample_count(data: &[u8]) -> u16 {
    Cursor::new(data).be16().unwrap_or(0)
}

/// Appends the samples of the encoding [`Encoding::Xor`]: times in ms since 1970, and values.
///
/// # Errors
/// If the bytes end too early, or a bit width is impossible. The samples before the error are appended.
pub fn decode_xor(data: &[u8], samples: &mut Vec<(i64, f64)>) -> Result<(), TsdbError> {
    let mut cursor = Cursor::new(data);
    let count = usize::from(cursor.be16()?);
    samples.reserve(count.min(data.len() * 8 / MIN_SAMPLE_BITS));
    if count == 0 {
        return Ok(());
    }
    let mut time = cursor.varint()?;
    let mut value = Value::new(cursor.be64()?);
    samples.push((time, value.get()));
    if count == 1 {
        return Ok(());
    }
    let mut step = cursor.uvarint()? as i64;
    let mut bits = Bits::new(data, cursor.at());
    time = time.wrapping_add(step);
    value.read(&mut bits)?;
    samples.push((time, value.get()));
    for _ in 2..count {
        step = step.wrapping_add(step_change(&mut bits)?);
        time = time.wrapping_add(step);
        value.read(&mut bits)?;
        samples.push((time, value.get()));
    }
    Ok(())
}

/// Reads the difference between two steps of times. Its first bits state its width.
fn step_change(bits: &mut Bits<'_>) -> Result<i64, TsdbError> {
    for width in [0, 14, 17, 20] {
        if bits.bit()? {
            continue;
        }
        if width == 0 {
            return Ok(0);
        }
        let change = bits.bits(width)? as i64;
        // Half of the range is positive, unlike in two's complement.
        let is_negative = change > 1 << (width - 1);
        return Ok(if is_negative {
            change - (1 << width)
        } else {
            change
        });
    }
    Ok(bits.bits(64)? as i64)
}

/// Value of the last sample, and the place of the bits that differ from the value before.
struct Value {
    value: u64,
    leading: u32,
    /// Number of bits that may differ.
    width: u32,
}

impl Value {
    fn new(value: u64) -> Value {
        Value {
            value,
            leading: 0,
            width: 64,
        }
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.value)
    }

    /// Reads the next value.
    fn read(&mut self, bits: &mut Bits<'_>) -> Result<(), TsdbError> {
        if !bits.bit()? {
            return Ok(());
        }
        if bits.bit()? {
            self.leading = bits.bits(5)? as u32;
            self.width = match bits.bits(6)? as u32 {
                // 64 does not fit into 6 bits.
                0 => 64,
                width => width,
            };
        }
        let trailing = 64u32.checked_sub(self.leading + self.width);
        let trailing = trailing.ok_or_else(|| bits.error("a value has more than 64 bits"))?;
        self.value ^= bits.bits(self.width)? << trailing;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writer of bits, the highest first.
    #[derive(Default)]
    struct BitWriter {
        bytes: Vec<u8>,
        used: u32,
    }

    impl BitWriter {
        fn put(&mut self, value: u64, count: u32) {
            for at in (0..count).rev() {
                if self.used == 0 {
                    self.bytes.push(0);
                }
                let bit = (value >> at & 1) as u8;
                *self.bytes.last_mut().unwrap() |= bit << (7 - self.used);
                self.used = (self.used + 1) % 8;
            }
        }

        fn put_uvarint(&mut self, mut value: u64) {
            while value >= 0x80 {
                self.put(value & 0x7f | 0x80, 8);
                value >>= 7;
            }
            self.put(value, 8);
        }
    }

    /// Encodes samples as the format page of Prometheus describes it. `reuse` permits the place of the bits before.
    fn encode(samples: &[(i64, u64)], reuse: bool) -> Vec<u8> {
        let mut out = BitWriter::default();
        out.put(samples.len() as u64, 16);
        let (mut step, mut place) = (0i64, None);
        for (n, &(time, value)) in samples.iter().enumerate() {
            if n == 0 {
                out.put_uvarint((time << 1 ^ time >> 63) as u64);
                out.put(value, 64);
                continue;
            }
            let next = time.wrapping_sub(samples[n - 1].0);
            let change = next.wrapping_sub(step);
            step = next;
            let fits =
                |width: u32| change >= -((1 << (width - 1)) - 1) && change <= 1 << (width - 1);
            match change {
                _ if n == 1 => out.put_uvarint(next as u64),
                0 => out.put(0, 1),
                _ if fits(14) => (out.put(0b10, 2), out.put(change as u64, 14)).1,
                _ if fits(17) => (out.put(0b110, 3), out.put(change as u64, 17)).1,
                _ if fits(20) => (out.put(0b1110, 4), out.put(change as u64, 20)).1,
                _ => (out.put(0b1111, 4), out.put(change as u64, 64)).1,
            }
            let differs = value ^ samples[n - 1].1;
            let (leading, trailing) = (differs.leading_zeros().min(31), differs.trailing_zeros());
            match place {
                _ if differs == 0 => out.put(0, 1),
                Some((first, last)) if reuse && leading >= first && trailing >= last => {
                    out.put(0b10, 2);
                    out.put(differs >> last, 64 - first - last);
                }
                _ => {
                    place = Some((leading, trailing));
                    let width = 64 - leading - trailing;
                    out.put(0b11, 2);
                    out.put(u64::from(leading), 5);
                    out.put(u64::from(width % 64), 6);
                    out.put(differs >> trailing, width);
                }
            }
        }
        out.bytes
    }

    fn decoded(data: &[u8]) -> Result<Vec<(i64, u64)>, TsdbError> {
        let mut samples = Vec::new();
        decode_xor(data, &mut samples)?;
        let samples = samples.into_iter();
        Ok(samples.map(|(ms, value)| (ms, value.to_bits())).collect())
    }

    #[test]
    fn samples_of_prometheus_are_read() {
        // The first chunk of a block that promtool 2.42 wrote: 1.5 at 1000, 2 at 61000, -0.25 at 121500, NaN at 181500.
        let bytes: &[u8] = &[
            0x23, 0x1, 0x0, 0x4, 0xd0, 0xf, 0x3f, 0xf8, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0xe0, 0xd4,
            0x3, 0xc2, 0x67, 0xff, 0xc0, 0xfa, 0x60, 0x33, 0xff, 0x6f, 0x83, 0x30, 0x1, 0x80, 0x50,
            0x0, 0x0, 0x0, 0x0, 0x0, 0x2, 0x12, 0x1e, 0xd9, 0x81,
        ];
        let size = chunk_bytes(&bytes[..MAX_LENGTH_BYTES]).unwrap();
        assert_eq!(size, bytes.len());
        let chunk = parse(bytes).unwrap();
        assert_eq!(chunk.encoding, Encoding::Xor);
        assert_eq!(sample_count(chunk.data), 4);
        let wanted = [
            (1000, 1.5f64.to_bits()),
            (61_000, 2f64.to_bits()),
            (121_500, (-0.25f64).to_bits()),
            (181_500, 0x7ff8_0000_0000_0001),
        ];
        assert_eq!(decoded(chunk.data).unwrap(), wanted);
        for length in 0..chunk.data.len() {
            assert!(decoded(&chunk.data[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn impossible_chunks_are_errors() {
        let chunk = |bytes: &[u8]| chunk_bytes(bytes).map_err(|error| error.what);
        assert_eq!(chunk(&[0x80, 1]), Ok(2 + 1 + 128 + 4));
        assert_eq!(chunk(&[0x80]), Err("the bytes end within a number"));
        assert!(chunk(&[0xff; 5]).is_err());
        assert!(chunk(&[0xff, 0xff, 0xff, 0x7f]).is_err());
        assert!(parse(&[2, 1, 0, 0, 1, 2, 3]).is_err());
        // 31 leading bits and 63 others.
        let mut out = BitWriter::default();
        out.put(2, 16);
        out.put_uvarint(0);
        out.put(0, 64);
        out.put_uvarint(1);
        out.put(0b11, 2);
        out.put(31 << 6 | 63, 11);
        out.put(0, 64);
        let error = decoded(&out.bytes).unwrap_err();
        assert_eq!(error.what, "a value has more than 64 bits");
        assert!(check_header(b"\x85\xbd\x40\xdd\x01\0\0\0").is_ok());
        assert!(check_header(b"\x85\xbd\x40\xdd\x02\0\0\0").is_err());
        assert!(check_header(b"\x85\xbd").is_err());
    }

    fn times() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            0..100i64,
            (0..40i64).prop_map(|n| 15_000 * n),
            -2_000_000..2_000_000i64
        ]
    }

    fn values() -> impl Strategy<Value = u64> {
        let numbers = prop_oneof![any::<f64>(), (0..1000u32).prop_map(f64::from)];
        prop_oneof![any::<u64>(), numbers.prop_map(f64::to_bits)]
    }

    proptest! {
        #[test]
        fn samples_return_bit_by_bit(samples in prop::collection::vec((times(), values()), 0..150), reuse: bool) {
            prop_assert_eq!(decoded(&encode(&samples, reuse)).unwrap(), samples);
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = chunk_bytes(&bytes);
            if let Ok(chunk) = parse(&bytes) {
                let _ = decoded(chunk.data);
            }
            let mut samples = Vec::new();
            let _ = decode_xor(&bytes, &mut samples);
            prop_assert!(samples.len() <= bytes.len() * 8 / MIN_SAMPLE_BITS);
        }
    }
}
