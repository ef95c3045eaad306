//! Data points of all types: their fields in one structure, whose memory is used again.

use super::attributes::Attributes;
use super::messages::{BUCKETS, EXPONENTIAL, HISTOGRAM, NUMBER, QUANTILE, SUMMARY};
use crate::protobuf::{Content, Fault, Fields, Malformed};

/// Maximum number of buckets or quantiles of a point.
pub(super) const MAX_BUCKETS: usize = 4096;

/// Flag of a point without a value: its series ends.
const NO_RECORDED_VALUE: u64 = 1;

/// Buckets of one sign of an exponential histogram.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    /// Index of the first bucket.
    pub offset: i32,
    /// Counts of consecutive buckets.
    pub counts: Vec<u64>,
}

/// Fields of a data point.
#[derive(Debug, Default)]
pub(super) struct Point<'a> {
    pub attributes: Attributes<'a>,
    /// Time in ns since 1970; 0 if it is not stated.
    pub time: u64,
    flags: u64,
    /// Number of exemplars.
    pub exemplars: u64,
    /// Value of a number.
    pub value: Option<f64>,
    pub count: u64,
    pub sum: Option<f64>,
    /// Counts of the buckets of a histogram.
    pub counts: Vec<u64>,
    /// Upper bounds of these buckets, except for the last.
    pub bounds: Vec<f64>,
    /// Quantiles of a summary with their values.
    pub quantiles: Vec<(f64, f64)>,
    pub scale: i32,
    pub zero_count: u64,
    pub zero_threshold: f64,
    pub positive: Buckets,
    pub negative: Buckets,
    /// True if a list is longer than [`MAX_BUCKETS`].
    pub is_too_long: bool,
}

impl<'a> Point<'a> {
    /// Returns whether the point states that its series has no value.
    pub fn is_stale(&self) -> bool {
        self.flags & NO_RECORDED_VALUE != 0
    }

    fn clear(&mut self) {
        self.attributes.clear();
        (self.time, self.flags, self.exemplars) = (0, 0, 0);
        self.value = None;
    }

    fn clear_lists(&mut self) {
        self.clear();
        (self.count, self.sum, self.is_too_long) = (0, None, false);
        self.counts.clear();
        self.bounds.clear();
        self.quantiles.clear();
        (self.scale, self.zero_count, self.zero_threshold) = (0, 0, 0.0);
        for buckets in [&mut self.positive, &mut self.negative] {
            buckets.offset = 0;
            buckets.counts.clear();
        }
    }

    /// Reads a `NumberDataPoint`.
    pub fn read_number(&mut self, mut fields: Fields<'a>) -> Result<(), Malformed> {
        self.clear();
        while let Some(field) = fields.next()? {
            match field {
                (NUMBER::ATTRIBUTES, Content::Bytes(bytes)) => {
                    self.attributes.push(fields.inner(bytes))?;
                }
                (NUMBER::TIME, Content::Fixed(time)) => self.time = time,
                (NUMBER::AS_DOUBLE, Content::Fixed(bits)) => {
                    self.value = Some(f64::from_bits(bits));
                }
                (NUMBER::AS_INT, Content::Fixed(int)) => self.value = Some(int as i64 as f64),
                (NUMBER::EXEMPLARS, Content::Bytes(_)) => self.exemplars += 1,
                (NUMBER::FLAGS, Content::Number(flags)) => self.flags = flags,
                (3..=8, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a `HistogramDataPoint`.
    pub fn read_histogram(&mut self, mut fields: Fields<'a>) -> Result<(), Malformed> {
        self.clear_lists();
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (HISTOGRAM::ATTRIBUTES, Content::Bytes(bytes)) => {
                    self.attributes.push(fields.inner(bytes))?;
                }
                (HISTOGRAM::TIME, Content::Fixed(time)) => self.time = time,
                (HISTOGRAM::COUNT, Content::Fixed(count)) => self.count = count,
                (HISTOGRAM::SUM, Content::Fixed(bits)) => self.sum = Some(f64::from_bits(bits)),
                (HISTOGRAM::COUNTS, content) => {
                    let counts = &mut self.counts;
                    self.is_too_long |= fixed(&fields, content, |bits| push(counts, bits))?;
                }
                (HISTOGRAM::BOUNDS, content) => {
                    let bounds = &mut self.bounds;
                    let take = |bits| push(bounds, f64::from_bits(bits));
                    self.is_too_long |= fixed(&fields, content, take)?;
                }
                (HISTOGRAM::EXEMPLARS, Content::Bytes(_)) => self.exemplars += 1,
                (HISTOGRAM::FLAGS, Content::Number(flags)) => self.flags = flags,
                (3..=10, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads an `ExponentialHistogramDataPoint`.
    pub fn read_exponential(&mut self, mut fields: Fields<'a>) -> Result<(), Malformed> {
        self.clear_lists();
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (EXPONENTIAL::ATTRIBUTES, Content::Bytes(bytes)) => {
                    self.attributes.push(fields.inner(bytes))?;
                }
                (EXPONENTIAL::TIME, Content::Fixed(time)) => self.time = time,
                (EXPONENTIAL::COUNT, Content::Fixed(count)) => self.count = count,
                (EXPONENTIAL::SUM, Content::Fixed(bits)) => {
                    self.sum = Some(f64::from_bits(bits));
                }
                (EXPONENTIAL::SCALE, Content::Number(scale)) => self.scale = signed(scale),
                (EXPONENTIAL::ZERO_COUNT, Content::Fixed(count)) => self.zero_count = count,
                (EXPONENTIAL::ZERO_THRESHOLD, Content::Fixed(bits)) => {
                    self.zero_threshold = f64::from_bits(bits);
                }
                (EXPONENTIAL::POSITIVE, Content::Bytes(bytes)) => {
                    self.is_too_long |= self.positive.read(fields.inner(bytes))?;
                }
                (EXPONENTIAL::NEGATIVE, Content::Bytes(bytes)) => {
                    self.is_too_long |= self.negative.read(fields.inner(bytes))?;
                }
                (EXPONENTIAL::EXEMPLARS, Content::Bytes(_)) => self.exemplars += 1,
                (EXPONENTIAL::FLAGS, Content::Number(flags)) => self.flags = flags,
                (1 | 3..=11 | 14, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a `SummaryDataPoint`.
    pub fn read_summary(&mut self, mut fields: Fields<'a>) -> Result<(), Malformed> {
        self.clear_lists();
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (SUMMARY::ATTRIBUTES, Content::Bytes(bytes)) => {
                    self.attributes.push(fields.inner(bytes))?;
                }
                (SUMMARY::TIME, Content::Fixed(time)) => self.time = time,
                (SUMMARY::COUNT, Content::Fixed(count)) => self.count = count,
                (SUMMARY::SUM, Content::Fixed(bits)) => self.sum = Some(f64::from_bits(bits)),
                (SUMMARY::QUANTILES, Content::Bytes(bytes)) => {
                    let quantile = quantile(fields.inner(bytes))?;
                    self.is_too_long |= push(&mut self.quantiles, quantile);
                }
                (SUMMARY::FLAGS, Content::Number(flags)) => self.flags = flags,
                (3..=8, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Buckets {
    /// Reads `Buckets`. Returns whether the list of counts is too long.
    fn read(&mut self, mut fields: Fields<'_>) -> Result<bool, Malformed> {
        let mut is_too_long = false;
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (BUCKETS::OFFSET, Content::Number(offset)) => self.offset = signed(offset),
                (BUCKETS::COUNTS, Content::Number(count)) => {
                    is_too_long |= push(&mut self.counts, count);
                }
                (BUCKETS::COUNTS, Content::Bytes(packed)) => {
                    let mut numbers = fields.inner(packed);
                    while !numbers.is_empty() {
                        is_too_long |= push(&mut self.counts, numbers.number()?);
                    }
                }
                (BUCKETS::OFFSET | BUCKETS::COUNTS, _) => {
                    return Err(fields.error(Fault::FieldType));
                }
                _ => {}
            }
        }
        Ok(is_too_long)
    }
}

fn quantile(mut fields: Fields<'_>) -> Result<(f64, f64), Malformed> {
    let (mut quantile, mut value) = (0.0, 0.0);
    while let Some(field) = fields.next()? {
        match field {
            (QUANTILE::QUANTILE, Content::Fixed(bits)) => quantile = f64::from_bits(bits),
            (QUANTILE::VALUE, Content::Fixed(bits)) => value = f64::from_bits(bits),
            (QUANTILE::QUANTILE | QUANTILE::VALUE, _) => {
                return Err(fields.error(Fault::FieldType));
            }
            _ => {}
        }
    }
    Ok((quantile, value))
}

/// Appends an item unless the list is full. Returns whether it is.
#[inline]
fn push<T>(list: &mut Vec<T>, item: T) -> bool {
    let is_full = list.len() >= MAX_BUCKETS;
    if !is_full {
        list.push(item);
    }
    is_full
}

/// Calls `take` with the bits of all numbers of a field with eight bytes each, packed or not. Returns whether one of
/// the calls returned true.
fn fixed(
    fields: &Fields<'_>,
    content: Content<'_>,
    mut take: impl FnMut(u64) -> bool,
) -> Result<bool, Malformed> {
    match content {
        Content::Fixed(bits) => Ok(take(bits)),
        Content::Bytes(packed) => {
            let (numbers, rest) = packed.as_chunks::<8>();
            if !rest.is_empty() {
                return Err(fields.error(Fault::CutField));
            }
            let mut is_full = false;
            for number in numbers {
                is_full |= take(u64::from_le_bytes(*number));
            }
            Ok(is_full)
        }
        _ => Err(fields.error(Fault::FieldType)),
    }
}

/// Decodes a zigzag number of 32 bits.
fn signed(number: u64) -> i32 {
    let number = number as u32;
    (number >> 1) as i32 ^ -((number & 1) as i32)
}
