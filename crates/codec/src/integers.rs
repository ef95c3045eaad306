//! Integer columns: times, mantissas, indices, counters.
//!
//! A column is stored as its first value and residuals. Residuals are differences of order 0, 1 or 2
//! from the first value, divided by their common divisor. They are constant (no bytes), packed, or
//! tokens. All arithmetic wraps, so every column decodes exactly, extremes included.

use std::cell::RefCell;

use crate::reader::Reader;
use crate::varint::{put_i64, put_u64, zigzag};
use crate::{DecodeError, Effort, binned, bits, packed, tokens};

/// Units by their code in the header: powers of a thousand, in which clocks tick.
const UNITS: [i64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

/// Number of residuals from which on the write path tries tokens; in a shorter section the description
/// would outweigh the saving.
const WORTH_TOKENS: usize = 48;

/// Number of stretches of the column over which the orders are compared.
const STRETCHES: usize = 8;
/// Number of values in a stretch.
const STRETCH: usize = 48;
/// Number of values sampled for a median.
const PROBES: usize = 64;

const CONSTANT: u8 = 0;
const PACKED: u8 = 1;
const TOKENS: u8 = 2;
const BINNED: u8 = 3;

/// First byte of a column. Bits 0–2: form of the residuals; 3–4: their order; 5: whether a divisor
/// follows; 6–7: the unit.
#[derive(Clone, Copy)]
struct Header {
    residuals: u8,
    order: u8,
    divided: bool,
    unit: u8,
}

impl Header {
    fn byte(self) -> u8 {
        self.residuals | self.order << 3 | u8::from(self.divided) << 5 | self.unit << 6
    }

    fn from_byte(byte: u8) -> Option<Header> {
        let (residuals, order) = (byte & 7, byte >> 3 & 3);
        let header = Header {
            residuals,
            order,
            divided: byte & 32 != 0,
            unit: byte >> 6,
        };
        (residuals <= BINNED && order <= 2).then_some(header)
    }
}

/// Buffers that are reused between calls.
#[derive(Default)]
struct Scratch {
    offsets: Vec<i64>,
    residuals: Vec<i64>,
    plan: tokens::TokenPlan,
    values: Vec<i64>,
    candidate: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Appends integers; an empty column takes no bytes.
pub(crate) fn encode(values: &[i64], effort: Effort, out: &mut Vec<u8>) {
    if let Some(&first) = values.first() {
        SCRATCH.with_borrow_mut(|scratch| scratch.encode(first, values, effort, out));
    }
}

/// Reads `count` integers and passes them to `receive`, which must not call this function again.
pub(crate) fn decode_with<T>(
    reader: &mut Reader<'_>,
    count: usize,
    receive: impl FnOnce(&[i64]) -> T,
) -> Result<T, DecodeError> {
    if count == 0 {
        return Ok(receive(&[]));
    }
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.decode(reader, count)?;
        Ok(receive(&scratch.values))
    })
}

impl Scratch {
    fn encode(&mut self, first: i64, values: &[i64], effort: Effort, out: &mut Vec<u8>) {
        let step = values.get(1).map_or(0, |second| second.wrapping_sub(first));
        if is_steady(values, step) {
            return encode_constant(first, step, out);
        }
        let divisor = self.offset(first, values);
        let unit = unit_of(first, divisor);
        let divisor = divisor / UNITS[usize::from(unit)];
        let order = choose_order(&self.offsets);
        let header = Header {
            residuals: PACKED,
            order,
            divided: divisor > 1,
            unit,
        };
        let start = out.len();
        out.push(header.byte());
        put_i64(first / UNITS[usize::from(unit)], out);
        if header.divided {
            put_u64(divisor as u64, out);
        }
        if order == 2 {
            put_i64(self.offsets[1], out);
        }
        self.differentiate(order);
        let residuals = self.encode_residuals(effort, out);
        out[start] = Header {
            residuals,
            ..header
        }
        .byte();
        if effort == Effort::Best {
            self.try_bins(values, start, out);
        }
    }

    /// Computes the offsets from the first value, divided by their common divisor; returns the divisor.
    fn offset(&mut self, first: i64, values: &[i64]) -> i64 {
        self.offsets.clear();
        self.offsets
            .extend(values.iter().map(|value| value.wrapping_sub(first)));
        // The divisor is mostly 1, and that is found before the bounds of all values are.
        let divisor = match common_divisor(&self.offsets) {
            1 => 1,
            divisor if fits(values) => divisor,
            _ => 1,
        };
        if divisor > 1 {
            self.offsets
                .iter_mut()
                .for_each(|offset| *offset /= divisor);
        }
        divisor
    }

    /// Computes the residuals of the given order from the offsets.
    fn differentiate(&mut self, order: u8) {
        let Scratch {
            offsets, residuals, ..
        } = self;
        residuals.clear();
        match order {
            0 => residuals.extend_from_slice(&offsets[1..]),
            1 => residuals.extend(offsets.windows(2).map(|two| two[1].wrapping_sub(two[0]))),
            _ => residuals.extend(offsets.windows(3).map(second_difference)),
        }
    }

    /// Appends the residuals in the smallest form and returns the code of that form.
    fn encode_residuals(&mut self, effort: Effort, out: &mut Vec<u8>) -> u8 {
        let Scratch {
            residuals, plan, ..
        } = self;
        let (packed, bounds) = packed::size(residuals);
        if residuals.len() >= WORTH_TOKENS || effort == Effort::Best {
            let expected = plan.prepare(residuals, bounds);
            if (expected < packed || effort == Effort::Best)
                && plan.encode(effort, packed.saturating_sub(1), out)
            {
                return TOKENS;
            }
        }
        packed::encode(residuals, out);
        PACKED
    }

    /// Replaces the bytes from `start` on by a pco section if that is smaller.
    fn try_bins(&mut self, values: &[i64], start: usize, out: &mut Vec<u8>) {
        let Scratch { candidate, .. } = self;
        candidate.clear();
        candidate.push(
            Header {
                residuals: BINNED,
                order: 0,
                divided: false,
                unit: 0,
            }
            .byte(),
        );
        if binned::encode(values, Effort::Best, candidate) && candidate.len() < out.len() - start {
            out.truncate(start);
            out.extend_from_slice(candidate);
        }
    }

    /// Decodes `count` values into `values`.
    fn decode(&mut self, reader: &mut Reader<'_>, count: usize) -> Result<(), DecodeError> {
        let byte = reader.byte("a header of integers")?;
        let Some(header) = Header::from_byte(byte) else {
            return Err(reader.unknown("integers", byte));
        };
        if header.residuals == BINNED {
            self.values = binned::decode::<i64>(reader, count)?;
            return Ok(());
        }
        let unit = UNITS[usize::from(header.unit)];
        let first = reader.signed("a first value")?.wrapping_mul(unit);
        let divisor = if header.divided {
            reader.varint("a divisor")? as i64
        } else {
            1
        };
        let divisor = divisor.wrapping_mul(unit);
        self.values.clear();
        self.values.push(first);
        if header.residuals == CONSTANT {
            let step = if header.order == 0 {
                0
            } else {
                reader.signed("a step")?
            };
            let step = step.wrapping_mul(divisor);
            self.values.extend(
                (1..count as i64).map(|index| first.wrapping_add(step.wrapping_mul(index))),
            );
            return Ok(());
        }
        let delta = if header.order == 2 {
            reader.signed("a first step")?
        } else {
            0
        };
        let Some(left) = count.checked_sub(1 + usize::from(header.order == 2)) else {
            return Err(reader.invalid("differences of order 2 need two values"));
        };
        self.residuals.clear();
        self.residuals.resize(left, 0);
        match header.residuals {
            PACKED => packed::decode(reader, &mut self.residuals)?,
            _ => tokens::decode(reader, &mut self.plan, &mut self.residuals)?,
        }
        self.integrate(header.order, first, delta, divisor);
        Ok(())
    }

    /// Computes the values after the first from the residuals.
    fn integrate(&mut self, order: u8, first: i64, mut delta: i64, divisor: i64) {
        let Scratch {
            residuals, values, ..
        } = self;
        let residuals = residuals.iter();
        let mut value = first;
        match order {
            0 => values.extend(residuals.map(|sum| first.wrapping_add(sum.wrapping_mul(divisor)))),
            1 => values.extend(residuals.map(|delta| {
                value = value.wrapping_add(delta.wrapping_mul(divisor));
                value
            })),
            _ => {
                value = value.wrapping_add(delta.wrapping_mul(divisor));
                values.push(value);
                values.extend(residuals.map(|change| {
                    delta = delta.wrapping_add(*change);
                    value = value.wrapping_add(delta.wrapping_mul(divisor));
                    value
                }));
            }
        }
    }
}

/// Returns whether all values follow each other by `step`. Compares a stretch at a time, so that the
/// comparisons do not depend on each other.
fn is_steady(values: &[i64], step: i64) -> bool {
    values.chunks(STRETCH).enumerate().all(|(index, stretch)| {
        let before = &values[(index * STRETCH).saturating_sub(1)..];
        let after = if index == 0 { &stretch[1..] } else { stretch };
        let differing = before.iter().zip(after).fold(0, |differing, (one, next)| {
            differing | (next.wrapping_sub(*one) ^ step)
        });
        differing == 0
    })
}

/// Appends a column of equal values or equal steps.
fn encode_constant(first: i64, step: i64, out: &mut Vec<u8>) {
    let unit = unit_of(first, step);
    let order = u8::from(step != 0);
    out.push(
        Header {
            residuals: CONSTANT,
            order,
            divided: false,
            unit,
        }
        .byte(),
    );
    put_i64(first / UNITS[usize::from(unit)], out);
    if step != 0 {
        put_i64(step / UNITS[usize::from(unit)], out);
    }
}

/// Returns whether no difference of two of the values overflows.
fn fits(values: &[i64]) -> bool {
    let (low, high) = values
        .iter()
        .fold((i64::MAX, i64::MIN), |(low, high), &value| {
            (low.min(value), high.max(value))
        });
    high.checked_sub(low).is_some()
}

/// Returns the greatest common divisor of the numbers. At least one number must not be zero. The
/// divisor is usually 1, which a few numbers show.
fn common_divisor(numbers: &[i64]) -> i64 {
    let mut divisor = 0;
    for number in numbers {
        let (mut a, mut b) = (number.unsigned_abs(), divisor);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        divisor = a;
        if divisor == 1 {
            break;
        }
    }
    // Offsets of values whose span fits are above i64::MIN. For other values the result is not used.
    divisor as i64
}

/// Returns the code of the largest unit that divides both numbers.
fn unit_of(first: i64, divisor: i64) -> u8 {
    let divides = |unit: &i64| first % unit == 0 && divisor % unit == 0;
    UNITS.iter().rposition(divides).unwrap_or(0) as u8
}

fn second_difference(three: &[i64]) -> i64 {
    three[2]
        .wrapping_sub(three[1])
        .wrapping_sub(three[1].wrapping_sub(three[0]))
}

/// Returns the order with the shortest residuals, by their summed widths over a few stretches.
fn choose_order(offsets: &[i64]) -> u8 {
    let level = middle(offsets.iter().copied());
    let slope = middle(offsets.windows(2).map(|two| two[1].wrapping_sub(two[0])));
    let mut bits = [0; 3];
    for stretch in offsets.chunks(offsets.len().div_ceil(STRETCHES).max(STRETCH)) {
        for three in stretch.windows(3).take(STRETCH) {
            bits[0] += bits::width(zigzag(three[2].wrapping_sub(level)));
            bits[1] += bits::width(zigzag(three[2].wrapping_sub(three[1]).wrapping_sub(slope)));
            bits[2] += bits::width(zigzag(second_difference(three)));
        }
    }
    match bits {
        [order0, order1, order2] if order2 < order1 && order2 < order0 => 2,
        [order0, order1, _] => u8::from(order1 < order0),
    }
}

/// Returns the median of numbers sampled evenly, so that single gaps do not affect it.
pub(crate) fn middle(mut numbers: impl ExactSizeIterator<Item = i64>) -> i64 {
    let stride = numbers.len() / PROBES;
    let mut probes = [0; PROBES];
    let mut count = 0;
    for (probe, number) in probes
        .iter_mut()
        .zip(std::iter::from_fn(|| numbers.nth(stride)))
    {
        *probe = number;
        count += 1;
    }
    match &mut probes[..count] {
        [] => 0,
        probes => *probes.select_nth_unstable(count / 2).1,
    }
}
