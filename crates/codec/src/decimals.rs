//! Floats that were printed with a few decimals: integers over a power of ten.
//!
//! A value belongs if dividing its mantissa by the power gives the very same bits. The others (NaN,
//! −0.0, strays) are listed with their positions; in their places the mantissa before is repeated.

use crate::integers;
use crate::reader::Reader;
use crate::real::Real;
use crate::varint::put_u64;
use crate::{DecodeError, Effort};

/// The largest power of ten looked for. Beyond 15 digits a double's decimals are noise.
const MAX_SCALE: u8 = 15;

/// Powers of ten that are exact as doubles, as many as the format admits.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// How many scales the format admits.
pub(crate) const SCALES: u8 = POWERS.len() as u8;

/// Adding and subtracting it rounds to an integer, which then stands in the lowest bits; holds for
/// magnitudes below 2^51 and needs no instruction that old processors lack.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
const LIMIT: f64 = 2_251_799_813_685_248.0;

/// Mantissas below this are certain to be found again: half of [`LIMIT`], so that rounding a value
/// times its power errs by less than a half.
const PLAIN: i64 = 1 << 50;

/// How many values are looked at to guess the scale.
const PROBES: usize = 24;

/// Mantissas of a column under its scale.
#[derive(Default)]
pub(crate) struct Decimals {
    /// The power of ten that the mantissas are divided by.
    pub(crate) scale: u8,
    mantissas: Vec<i64>,
    strays: Vec<u32>,
}

/// The mantissa of a value, and whether it gives the value back.
#[inline(always)]
fn mantissa<T: Real>(value: T, power: f64) -> (i64, bool) {
    let shifted = value.wide() * power + ROUNDER;
    let rounded = shifted - ROUNDER;
    let returns = T::narrow(rounded / power).same(value) & (rounded.abs() < LIMIT);
    (
        (shifted.to_bits().wrapping_sub(ROUNDER.to_bits())) as i64,
        returns,
    )
}

/// The smallest scale, from `start` on, under which the value returns.
fn scale_of<T: Real>(value: T, start: u8) -> Option<u8> {
    (start..=MAX_SCALE).find(|&scale| mantissa(value, POWERS[usize::from(scale)]).1)
}

impl Decimals {
    /// Looks for a scale; answers whether all but a few values return under it.
    pub(crate) fn find<T: Real>(&mut self, values: &[T]) -> bool {
        let few = values.len() / 16 + 1;
        let Some(scale) = probe(values) else {
            return false;
        };
        self.scale = scale;
        for _ in 0..4 {
            let strays = self.convert(values);
            if strays == 0 {
                return true;
            }
            self.list_strays(values);
            let higher = self
                .strays
                .iter()
                .find_map(|&stray| scale_of(values[stray as usize], self.scale + 1));
            match higher {
                Some(scale) if strays > few => self.scale = scale,
                _ => return strays <= few,
            }
        }
        false
    }

    /// Fills the mantissas and answers how many values do not return.
    fn convert<T: Real>(&mut self, values: &[T]) -> usize {
        let power = POWERS[usize::from(self.scale)];
        self.strays.clear();
        self.mantissas.clear();
        self.mantissas.resize(values.len(), 0);
        let mut strays = 0u64;
        for (place, &value) in self.mantissas.iter_mut().zip(values) {
            let (mantissa, returns) = mantissa(value, power);
            *place = mantissa;
            strays += u64::from(!returns);
        }
        strays as usize
    }

    /// Lists the values that do not return and fills their places.
    fn list_strays<T: Real>(&mut self, values: &[T]) {
        let power = POWERS[usize::from(self.scale)];
        let returns = |value: &T| mantissa(*value, power).1;
        let mut last = values
            .iter()
            .position(returns)
            .map_or(0, |index| self.mantissas[index]);
        for (index, value) in values.iter().enumerate() {
            if returns(value) {
                last = self.mantissas[index];
            } else {
                self.mantissas[index] = last;
                self.strays.push(index as u32);
            }
        }
    }

    /// Whether some values are listed apart.
    pub(crate) fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// Appends the strays, if any, and the mantissas.
    pub(crate) fn encode<T: Real>(&self, values: &[T], effort: Effort, out: &mut Vec<u8>) {
        if self.has_strays() {
            put_u64(self.strays.len() as u64, out);
            let (mut next, mut last) = (0, T::NAN);
            for &stray in &self.strays {
                let value = values[stray as usize];
                let repeats = value.same(last);
                put_u64(u64::from(stray - next) << 1 | u64::from(repeats), out);
                if !repeats {
                    value.put(out);
                }
                (next, last) = (stray + 1, value);
            }
        }
        integers::encode(&self.mantissas, effort, out);
    }
}

/// Whether the values that are these mantissas over a power of ten are found under that scale and no
/// smaller one, without strays: it is so if a probe ends in a digit that is not zero, as distinct
/// ratios of mantissas so small are distinct doubles.
pub(crate) fn are_found(mantissas: &[i64], scale: u8) -> bool {
    let wide = mantissas
        .iter()
        .fold(0, |all, &mantissa| all | (mantissa ^ mantissa >> 63));
    let probes = mantissas.iter().step_by(stride(mantissas.len()));
    wide < PLAIN && (scale == 0 || probes.clone().any(|mantissa| mantissa % 10 != 0))
}

/// The value of a mantissa.
pub(crate) fn value(mantissa: i64, scale: u8) -> f64 {
    mantissa as f64 / POWERS[usize::from(scale)]
}

/// The distance of probes.
fn stride(count: usize) -> usize {
    count.div_ceil(PROBES).max(1)
}

/// The scale of a few values spread over the column, if they are decimals.
fn probe<T: Real>(values: &[T]) -> Option<u8> {
    let (mut scale, mut fails, mut probes) = (0, 0, 0);
    for &value in values.iter().step_by(stride(values.len())) {
        probes += 1;
        match scale_of(value, scale) {
            Some(found) => scale = found,
            None => fails += 1,
        }
    }
    (fails * 4 <= probes || probes < 4).then_some(scale)
}

/// Reads `count` values.
pub(crate) fn decode<T: Real>(
    reader: &mut Reader<'_>,
    scale: u8,
    with_strays: bool,
    count: usize,
) -> Result<Vec<T>, DecodeError> {
    let power = POWERS[usize::from(scale)];
    let mut strays = Vec::new();
    if with_strays {
        let listed = reader.length(count, "more strays than values")?;
        let (mut next, mut last) = (0, T::NAN);
        for _ in 0..listed {
            let gap = reader.varint("a stray's position")?;
            let index = gap >> 1;
            if index >= (count - next) as u64 {
                return Err(reader.invalid("a stray lies outside the column"));
            }
            if gap & 1 == 0 {
                last = T::take(reader)?;
            }
            let position = next + index as usize;
            strays.push((position, last));
            next = position + 1;
        }
    }
    let mut values = integers::decode_with(reader, count, |mantissas| {
        mantissas
            .iter()
            .map(|&mantissa| T::narrow(mantissa as f64 / power))
            .collect::<Vec<T>>()
    })?;
    for (position, value) in strays {
        values[position] = value;
    }
    Ok(values)
}
