//! Numbers of the values of a source: the first value, and distances of the others by the order of their
//! kind.

use seiner_codec::bits::width;
use seiner_codec::varint::{unzigzag, zigzag};

use crate::histogram::Histogram;
use crate::model::Order;

/// Values of the sample from which an order is chosen.
const SAMPLE_VALUES: usize = 2048;
/// Values of one source in the sample.
const PREFIX: usize = 128;
/// Part of the bits by which an order must be smaller than a simpler one: one in this many.
const WORTH: f32 = 64.0;

/// Bits of the fraction of a mean.
const FRACTION: u32 = 8;
/// Largest number of values of a mean.
const WINDOW: usize = 32;
/// 2^16 / n, for the mean of n values.
const RECIPROCALS: [i64; WINDOW + 1] = {
    let mut reciprocals = [0; WINDOW + 1];
    let mut count = 1;
    while count <= WINDOW {
        reciprocals[count] = (1 << 16) / count as i64;
        count += 1;
    }
    reciprocals
};

/// Mean of the values so far. Of more values than the window, newer ones count more.
///
/// Arithmetic wraps: the mean of values beyond 2^55 is poor, but the same for writer and reader.
struct Mean {
    value: i64,
    count: usize,
    window: usize,
}

impl Mean {
    fn new(first: i64, window: usize) -> Mean {
        Mean {
            value: first << FRACTION,
            count: 1,
            window,
        }
    }

    /// Returns the mean, rounded.
    #[inline(always)]
    fn rounded(&self) -> i64 {
        self.value.wrapping_add(1 << (FRACTION - 1)) >> FRACTION
    }

    #[inline(always)]
    fn add(&mut self, value: i64) {
        self.count = (self.count + 1).min(self.window);
        let distance = (value << FRACTION).wrapping_sub(self.value);
        let step = distance.wrapping_mul(RECIPROCALS[self.count]) >> 16;
        self.value = self.value.wrapping_add(step);
    }
}

/// Returns the number of a value behind `before`, by the order [`Order::Repeat`].
#[inline(always)]
fn repeat_number(value: i64, before: i64, base: i64) -> u64 {
    let distance = value.wrapping_sub(base) as u64;
    match distance.cmp(&(before.wrapping_sub(base) as u64)) {
        std::cmp::Ordering::Less => distance.wrapping_add(1),
        std::cmp::Ordering::Equal => 0,
        // The value before is not among the numbers from 1 on.
        std::cmp::Ordering::Greater => distance,
    }
}

/// Returns the value of a number; inverts [`repeat_number`].
#[inline(always)]
fn repeat_value(number: u64, before: i64, base: i64) -> i64 {
    if number == 0 {
        return before;
    }
    let is_less = number - 1 < before.wrapping_sub(base) as u64;
    let distance = number - u64::from(is_less);
    base.wrapping_add(distance as i64)
}

impl Order {
    /// Returns the number of values of a mean.
    fn window(self) -> usize {
        match self {
            Order::Near => 4,
            _ => WINDOW,
        }
    }

    /// Replaces the values of a source behind the first by their numbers, as i64 of the same bits.
    pub(crate) fn replace(self, values: &mut [i64], base: i64) {
        match self {
            Order::Plain => {
                for value in values.iter_mut().skip(1) {
                    *value = value.wrapping_sub(base);
                }
            }
            Order::First => {
                for index in (1..values.len()).rev() {
                    let step = values[index].wrapping_sub(values[index - 1]);
                    values[index] = zigzag(step) as i64;
                }
            }
            Order::Second => {
                for index in (2..values.len()).rev() {
                    let step = values[index].wrapping_sub(values[index - 1]);
                    let before = values[index - 1].wrapping_sub(values[index - 2]);
                    values[index] = zigzag(step.wrapping_sub(before)) as i64;
                }
                if let [first, second, ..] = values {
                    *second = zigzag(second.wrapping_sub(*first)) as i64;
                }
            }
            Order::Repeat => {
                for index in (1..values.len()).rev() {
                    values[index] = repeat_number(values[index], values[index - 1], base) as i64;
                }
            }
            Order::Near | Order::Mean => {
                let Some((&mut first, rest)) = values.split_first_mut() else {
                    return;
                };
                let mut mean = Mean::new(first, self.window());
                for place in rest {
                    let value = *place;
                    *place = zigzag(value.wrapping_sub(mean.rounded())) as i64;
                    mean.add(value);
                }
            }
        }
    }

    /// Replaces the numbers behind the first value by the values; inverts [`Order::replace`].
    pub(crate) fn restore(self, values: &mut [i64], base: i64) {
        let Some((&mut first, rest)) = values.split_first_mut() else {
            return;
        };
        let mut last = first;
        match self {
            Order::Plain => {
                for value in rest {
                    *value = base.wrapping_add(*value);
                }
            }
            Order::First => {
                for value in rest {
                    last = last.wrapping_add(unzigzag(*value as u64));
                    *value = last;
                }
            }
            Order::Second => {
                let mut step = 0i64;
                for value in rest {
                    step = step.wrapping_add(unzigzag(*value as u64));
                    last = last.wrapping_add(step);
                    *value = last;
                }
            }
            Order::Repeat => {
                for value in rest {
                    last = repeat_value(*value as u64, last, base);
                    *value = last;
                }
            }
            Order::Near | Order::Mean => {
                let mut mean = Mean::new(first, self.window());
                for value in rest {
                    *value = mean.rounded().wrapping_add(unzigzag(*value as u64));
                    mean.add(*value);
                }
            }
        }
    }

    /// Returns the number of values in front of those with the class's table.
    pub(crate) fn lead(self) -> usize {
        match self {
            Order::Second => 2,
            _ => 1,
        }
    }

    /// Returns the octave of the movement of a source, by its numbers; `None` if it has no movement.
    pub(crate) fn octave(self, numbers: &[i64]) -> Option<usize> {
        let rest = numbers.get(self.lead()..).filter(|rest| !rest.is_empty())?;
        let count = rest.len() as u64;
        let mean = match self {
            Order::Repeat => {
                rest.iter().filter(|number| **number != 0).count() as u64 * 256 / count
            }
            _ => {
                let sum = rest
                    .iter()
                    .fold(0u64, |sum, &number| sum.saturating_add(number as u64));
                sum / count
            }
        };
        Some(width(mean) as usize)
    }

    /// Returns the order with the fewest bits on a sample of the sources. The sources are given by their
    /// values; `base` is the smallest value.
    pub(crate) fn choose<'a>(sources: &[&'a [i64]], base: i64) -> Order {
        let prefixes = sources
            .iter()
            .map(|values| &values[..values.len().min(PREFIX)]);
        let values: usize = prefixes.clone().map(<[i64]>::len).sum();
        let sample: Vec<&'a [i64]> = prefixes.step_by(values / SAMPLE_VALUES + 1).collect();
        let mut best = (Order::First, Order::First.bits(&sample, base));
        for order in [
            Order::Mean,
            Order::Near,
            Order::Plain,
            Order::Repeat,
            Order::Second,
        ] {
            let bits = order.bits(&sample, base);
            if bits < best.1 - best.1 / WORTH {
                best = (order, bits);
            }
        }
        best.0
    }

    fn bits(self, sample: &[&[i64]], base: i64) -> f32 {
        let (mut lead, mut rest) = (Histogram::default(), Histogram::default());
        let mut numbers = Vec::new();
        for values in sample {
            numbers.clear();
            numbers.extend_from_slice(values);
            self.replace(&mut numbers, base);
            for (index, &number) in numbers.iter().enumerate().skip(1) {
                let histogram = if index < self.lead() {
                    &mut lead
                } else {
                    &mut rest
                };
                histogram.add(number as u64);
            }
        }
        lead.bits() + rest.bits()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_return_from_their_numbers(
            values in prop::collection::vec(prop_oneof![any::<i64>(), -3i64..3], 1..20),
            base in prop_oneof![any::<i64>(), -3i64..0],
        ) {
            for order in Order::ALL {
                let mut numbers = values.clone();
                order.replace(&mut numbers, base);
                prop_assert_eq!(numbers[0], values[0]);
                let mut decoded = numbers;
                order.restore(&mut decoded, base);
                prop_assert_eq!(&decoded, &values);
            }
        }
    }
}
