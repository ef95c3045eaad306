//! Values as integers, source by source, each source with its kind.
//!
//! The kind of a source is the narrowest that expresses its values. Values that it cannot express
//! (*strays*: NaN, −0.0, values with more digits) are kept apart if they are few.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use seiner_codec::Real;
use seiner_codec::decimals::{mantissa_at, scale_of};
use seiner_model::{Column, Strings};

use crate::buffer::FieldBuffer;
use crate::limits::MAX_ENTRIES;
use crate::model::{Kind, row_state};
use crate::states::States;

/// Mantissas of 32-bit floats from which on decimals are as long as the bits.
const LONG_MANTISSA: u64 = 1 << 23;
/// Part of the values of a source that may be strays: one in this many.
const FEW_STRAYS: usize = 4;

/// Values of one field as integers.
#[derive(Default)]
pub(crate) struct Integers {
    /// Values of all sources, without strays.
    pub(crate) values: Vec<i64>,
    /// End of the values of each source.
    pub(crate) ends: Vec<u32>,
    pub(crate) states: States,
    /// Kind of each source, as an index into `kinds`.
    pub(crate) kind_of: Vec<u8>,
    /// Kinds in the order of their first occurrence.
    pub(crate) kinds: Vec<Kind>,
    /// Distinct texts.
    pub(crate) texts: Strings,
}

impl Integers {
    /// Converts the values of a field; `None` if texts have too many distinct values. `rows` are the
    /// numbers of rows of the sources.
    pub(crate) fn new(field: &FieldBuffer, rows: impl Iterator<Item = usize>) -> Option<Integers> {
        let mut all = Integers::default();
        all.values.reserve(field.values.len());
        match &field.values {
            Column::F64(values) => all.take_floats(field, values, rows),
            Column::F32(values) => all.take_floats(field, values, rows),
            Column::I64(values) => all.take_integers(field, rows, values.iter().copied()),
            Column::U64(values) => {
                all.take_integers(field, rows, values.iter().map(|&value| value as i64));
            }
            Column::Bool(values) => {
                all.take_integers(field, rows, values.iter().map(|&value| i64::from(value)));
            }
            Column::Str(texts) => {
                let indices = all.distinct(texts)?;
                all.take_integers(field, rows, indices.into_iter());
                all.kinds = vec![Kind::Text];
            }
        }
        Some(all)
    }

    /// Returns the range of values of a source.
    pub(crate) fn range(&self, source: usize) -> std::ops::Range<usize> {
        let start = source.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[source] as usize
    }

    fn take_integers(
        &mut self,
        field: &FieldBuffer,
        rows: impl Iterator<Item = usize>,
        values: impl Iterator<Item = i64>,
    ) {
        self.kinds.push(Kind::Integer);
        self.values.extend(values);
        let (mut present, mut end) = (field.present.iter(), 0);
        for (&count, rows) in field.counts.iter().zip(rows) {
            end += count;
            self.ends.push(end);
            self.kind_of.push(0);
            self.states.push(count as usize, rows, &mut present);
        }
    }

    fn take_floats<T: Real>(
        &mut self,
        field: &FieldBuffer,
        values: &[T],
        rows: impl Iterator<Item = usize>,
    ) {
        let mut present = field.present.iter();
        let (mut hints, mut start) = ([1u8, 2], 0);
        for (&count, rows) in field.counts.iter().zip(rows) {
            let values = &values[start..start + count as usize];
            start += count as usize;
            if values.is_empty() {
                self.ends.push(self.values.len() as u32);
                self.kind_of.push(0);
                self.states.push(0, rows, &mut present);
                continue;
            }
            let before = self.values.len();
            let kind = self.push_floats(values, &mut hints);
            self.ends.push(self.values.len() as u32);
            let index = self.index_of(kind);
            self.kind_of.push(index);
            let strays = values.len() - (self.values.len() - before);
            if strays == 0 {
                self.states.push(values.len(), rows, &mut present);
                continue;
            }
            self.push_strays(values, rows, kind, &mut present);
        }
    }

    /// Appends the states of the rows of a source with strays, and the strays.
    fn push_strays<'a, T: Real>(
        &mut self,
        values: &[T],
        rows: usize,
        kind: Kind,
        present: &mut impl Iterator<Item = &'a bool>,
    ) {
        let Kind::Decimal(scale) = kind else {
            debug_assert!(false, "other kinds express every float");
            return;
        };
        let has_gaps = values.len() < rows;
        let (mut values, mut strays) = (values.iter(), Vec::new());
        let states: Vec<u64> = (0..rows)
            .map(|_| {
                let is_present = !has_gaps || present.next().copied().unwrap_or(true);
                let value = if is_present { values.next() } else { None };
                match value {
                    None => row_state::MISSING,
                    Some(&value) if short_mantissa(value, scale).is_some() => row_state::PRESENT,
                    Some(value) => {
                        strays.push(value.bits());
                        row_state::STRAY
                    }
                }
            })
            .collect();
        self.states
            .push_strays(states.into_iter(), strays.into_iter(), T::BYTES);
    }

    /// Returns the index of a kind.
    fn index_of(&mut self, kind: Kind) -> u8 {
        let found = self.kinds.iter().position(|known| *known == kind);
        let index = found.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        index as u8
    }

    /// Appends the values of a source as integers, without strays. Returns their kind. `hints` are
    /// scales of sources before.
    fn push_floats<T: Real>(&mut self, values: &[T], hints: &mut [u8; 2]) -> Kind {
        let start = self.values.len();
        // The smaller scale first: a wrong small scale fails at the first values, a wrong large one at none.
        for scale in *hints {
            if self.push_decimals(values, scale) {
                return Kind::Decimal(scale);
            }
        }
        if let Some(scale) = common_scale(values) {
            self.values.extend(
                values
                    .iter()
                    .filter_map(|&value| short_mantissa(value, scale)),
            );
            if scale != hints[0] && scale != hints[1] {
                *hints = [hints[1].min(scale), hints[1].max(scale)];
            }
            return Kind::Decimal(scale);
        }
        let is_narrow = |value: &T| {
            let wide = value.wide();
            !wide.is_nan() && f64::from(wide as f32).same(wide)
        };
        if T::BYTES == 8 && values.iter().all(is_narrow) {
            let bits = values
                .iter()
                .map(|value| ordered_32((value.wide() as f32).to_bits()));
            self.values.extend(bits);
            return Kind::Narrow;
        }
        debug_assert_eq!(self.values.len(), start);
        self.values
            .extend(values.iter().map(|value| match T::BYTES {
                8 => ordered_64(value.bits()),
                _ => ordered_32(value.bits() as u32),
            }));
        Kind::Float
    }

    /// Appends the mantissas of a source, if the scale is the smallest that reproduces its values.
    fn push_decimals<T: Real>(&mut self, values: &[T], scale: u8) -> bool {
        let start = self.values.len();
        let mut is_smallest = scale == 0;
        for &value in values {
            match short_mantissa(value, scale) {
                Some(mantissa) => {
                    is_smallest = is_smallest || mantissa % 10 != 0;
                    self.values.push(mantissa);
                }
                None => {
                    is_smallest = false;
                    break;
                }
            }
        }
        if !is_smallest {
            self.values.truncate(start);
        }
        is_smallest
    }

    /// Collects the distinct texts and returns their indices; `None` if most texts are distinct.
    fn distinct(&mut self, texts: &Strings) -> Option<Vec<i64>> {
        let most = (texts.len() / 2).min(MAX_ENTRIES);
        let mut places: HashMap<&str, usize, FixedState> = HashMap::default();
        let mut indices = Vec::with_capacity(texts.len());
        for index in 0..texts.len() {
            let text = texts.get(index);
            let next = places.len();
            let place = *places.entry(text).or_insert(next);
            if place == next {
                if next == most {
                    return None;
                }
                self.texts.push(text);
            }
            indices.push(place as i64);
        }
        Some(indices)
    }
}

/// Returns the mantissa of a value, if it is shorter than the bits of the value.
#[inline(always)]
fn short_mantissa<T: Real>(value: T, scale: u8) -> Option<i64> {
    let mantissa = mantissa_at(value, scale)?;
    (T::BYTES == 8 || mantissa.unsigned_abs() < LONG_MANTISSA).then_some(mantissa)
}

/// Returns the smallest scale that reproduces all values but a few.
fn common_scale<T: Real>(values: &[T]) -> Option<u8> {
    let (mut scale, mut strays) = (0, 0);
    for &value in values {
        let found = scale_of(value, scale);
        match found.filter(|&found| short_mantissa(value, found).is_some()) {
            Some(found) => scale = found,
            None => {
                strays += 1;
                if strays > values.len() / FEW_STRAYS {
                    return None;
                }
            }
        }
    }
    Some(scale)
}

/// Returns an integer that has the order of the float with these bits.
pub(crate) fn ordered_64(bits: u64) -> i64 {
    let bits = bits as i64;
    bits ^ (bits >> 63 & i64::MAX)
}

/// Returns the bits of the float of an integer; inverts [`ordered_64`].
pub(crate) fn bits_64(ordered: i64) -> u64 {
    (ordered ^ (ordered >> 63 & i64::MAX)) as u64
}

/// Returns an integer that has the order of the 32-bit float with these bits.
pub(crate) fn ordered_32(bits: u32) -> i64 {
    let bits = bits as i32;
    i64::from(bits ^ (bits >> 31 & i32::MAX))
}

/// Returns the bits of the 32-bit float of an integer; inverts [`ordered_32`].
pub(crate) fn bits_32(ordered: i64) -> u32 {
    let ordered = ordered as i32;
    (ordered ^ (ordered >> 31 & i32::MAX)) as u32
}
