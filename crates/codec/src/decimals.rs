//! Decimals: floats that were printed with a few digits, encoded as integers over a power of ten.
//!
//! A value is a decimal if its mantissa divided by the power gives the same bits. Other values
//! (*strays*: NaN, −0.0, values with more digits) are listed with their positions; their places in the
//! column repeat the mantissa before.

use crate::integers;
use crate::reader::Reader;
use crate::real::Real;
use crate::varint::put_u64;
use crate::{DecodeError, Effort};

/// Largest scale that the encoder tries. Beyond 15 digits the decimals of a double are noise.
pub const MAX_SCALE: u8 = 15;

/// Powers of ten that are exact as doubles; the format admits each of them.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Number of scales that the format admits.
pub const SCALES: u8 = POWERS.len() as u8;

/// Constant that rounds by addition and subtraction; the integer then stands in the lowest bits of the
/// sum. Valid for magnitudes below 2^51, and needs no instruction that old processors lack.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
const LIMIT: f64 = 2_251_799_813_685_248.0;

/// Mantissas below this are always recovered. Half of [`LIMIT`], so that the product of a value and its
/// power is off by less than a half.
const PLAIN: i64 = 1 << 50;

/// Number of values that are sampled to guess the scale.
const PROBES: usize = 24;

/// Mantissas of a column under its scale.
#[derive(Default)]
pub(crate) struct Decimals {
    /// Exponent of the power of ten that divides the mantissas.
    pub(crate) scale: u8,
    mantissas: Vec<i64>,
    strays: Vec<u32>,
}

/// Returns the mantissa of a value, and whether the mantissa reproduces the value.
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

/// Returns the mantissa that reproduces the value at a scale (at most 22); `None` if there is none below
/// 2^51 by magnitude.
///
/// # Panics
/// If the scale exceeds 22.
#[inline(always)]
pub fn mantissa_at<T: Real>(value: T, scale: u8) -> Option<i64> {
    let (mantissa, returns) = mantissa(value, POWERS[usize::from(scale)]);
    returns.then_some(mantissa)
}

/// Returns the smallest scale from `start` on that reproduces the value; `None` beyond [`MAX_SCALE`].
pub fn scale_of<T: Real>(value: T, start: u8) -> Option<u8> {
    (start..=MAX_SCALE).find(|&scale| mantissa(value, POWERS[usize::from(scale)]).1)
}

impl Decimals {
    /// Searches a scale for `values`. Returns whether it reproduces all but a few of them.
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

    /// Computes the mantissas and returns the number of values that they do not reproduce.
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

    /// Lists the values that the scale does not reproduce, and fills their places in the mantissas.
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

    /// Returns whether some values are strays.
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

/// Returns whether [`Decimals::find`] would choose exactly this scale, without strays, for the values
/// `mantissas[i] / 10^scale`.
///
/// That holds if a sampled mantissa ends in a digit other than zero: ratios of mantissas this small are
/// distinct doubles, so no smaller scale reproduces the value.
pub(crate) fn are_found(mantissas: &[i64], scale: u8) -> bool {
    let wide = mantissas
        .iter()
        .fold(0, |all, &mantissa| all | (mantissa ^ mantissa >> 63));
    let probes = mantissas.iter().step_by(stride(mantissas.len()));
    wide < PLAIN && (scale == 0 || probes.clone().any(|mantissa| mantissa % 10 != 0))
}

/// Returns the value of a mantissa, `mantissa / 10^scale`.
///
/// # Panics
/// If the scale exceeds 22.
#[inline(always)]
pub fn value(mantissa: i64, scale: u8) -> f64 {
    mantissa as f64 / POWERS[usize::from(scale)]
}

/// Returns the distance between samples.
fn stride(count: usize) -> usize {
    count.div_ceil(PROBES).max(1)
}

/// Returns the scale of a few values spread over the column, if they are decimals.
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
