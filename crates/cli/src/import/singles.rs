//! Detection of 32-bit floats in a column of numbers.
//!
//! A column can be stored as `f32` if this loses nothing: every number is exactly a 32-bit float
//! (`0.10000000149011612`), or every number is the shortest text of one (`1.9400482`). In many columns this saves
//! nothing: the codec of doubles stores numbers with few decimals as decimals, and leaves out zeros at the ends of
//! doubles. A sample of the column is therefore encoded both ways by the codecs of the store.

use seiner_codec::{Effort, encode_column};
use seiner_model::{Column, has_text_of};

/// Number of values that are encoded for the comparison.
const SAMPLE: usize = 4096;

/// Share of the bytes that `f32` must save, in percent. For less, a column keeps the usual type.
const LEAST_SAVING: usize = 10;

/// Numbers of a column, for as long as all of them can be 32-bit floats.
pub struct Singles {
    /// True while every number is exactly a 32-bit float.
    exact: bool,
    /// True while every number is the shortest text of a 32-bit float.
    shortest: bool,
    sample: Vec<f64>,
}

impl Default for Singles {
    fn default() -> Singles {
        Singles {
            exact: true,
            shortest: true,
            sample: Vec::new(),
        }
    }
}

impl Singles {
    /// Processes the next number, in Rust's notation.
    pub fn see(&mut self, text: &str) {
        if !self.are_exact() {
            return;
        }
        let value = text.parse().unwrap_or(f64::NAN);
        if value.is_finite() {
            let single = text.parse::<f32>().unwrap_or(f32::NAN);
            let is_exact = f64::from(single).to_bits() == value.to_bits();
            self.exact &= is_exact;
            // The shortest text costs the most, and is the same question if the number is not exact.
            self.shortest = self.shortest && has_text_of(single, value);
        }
        match self.are_exact() {
            true if self.sample.len() < SAMPLE => self.sample.push(value),
            true => {}
            false => self.sample = Vec::new(),
        }
    }

    /// Returns true if all numbers can be stored as 32-bit floats without a loss.
    pub fn are_exact(&self) -> bool {
        self.exact || self.shortest
    }

    /// Returns the share of the bytes that `f32` saves, in percent, if all numbers are 32-bit floats and the saving is
    /// worth it.
    pub fn saving(&self) -> Option<usize> {
        if !self.are_exact() || self.sample.is_empty() {
            return None;
        }
        let singles = self.sample.iter().map(|value| *value as f32).collect();
        let single = encoded_bytes(&Column::F32(singles));
        let double = encoded_bytes(&Column::F64(self.sample.clone()));
        let saving = double.saturating_sub(single) * 100 / double.max(1);
        (saving >= LEAST_SAVING).then_some(saving)
    }
}

fn encoded_bytes(column: &Column) -> usize {
    let mut bytes = Vec::new();
    encode_column(column, Effort::Fast, &mut bytes);
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singles(texts: impl Iterator<Item = String>) -> Singles {
        let mut singles = Singles::default();
        for text in texts {
            singles.see(&text);
        }
        singles
    }

    /// Noise of a sensor with 32-bit floats, of all magnitudes around zero.
    fn noise() -> impl Iterator<Item = f32> {
        (0..2000_u32).map(|row| {
            let unit = (row.wrapping_mul(2_654_435_769) >> 8) as f32 / 16_777_216.0 - 0.5;
            unit * unit * unit * 80.0
        })
    }

    #[test]
    fn noise_of_32_bit_floats_is_found() {
        let shortest = singles(noise().map(|value| value.to_string()));
        assert!(shortest.saving().unwrap() > 25);
        // The codec of doubles leaves out the zeros at their ends itself.
        let exact = singles(noise().map(|value| f64::from(value).to_string()));
        assert!(exact.are_exact() && exact.saving().is_none());
        // A text as numpy prints it: Rust would round the last digit up.
        let halfway = singles(
            noise()
                .map(|value| value.to_string())
                .chain(["-7.4726562".into()]),
        );
        assert!(halfway.saving().unwrap() > 25);
        let odd = singles(noise().map(|value| value.to_string()).chain(["NaN".into()]));
        assert!(odd.are_exact());
    }

    #[test]
    fn numbers_that_are_no_32_bit_floats_end_the_detection() {
        for text in ["0.123456789", "16777217", "1e300", "6.869999900000001"] {
            let one = singles(noise().map(|value| value.to_string()).chain([text.into()]));
            assert!(!one.are_exact() && one.saving().is_none(), "{text}");
        }
        // A column of both notations could not be restored: nothing states the notation of a value.
        let both = ["1.9400482", "0.10000000149011612"].map(String::from);
        assert!(!singles(both.into_iter()).are_exact());
    }

    #[test]
    fn decimals_stay_doubles() {
        let decimals = singles((0..2000).map(|row| format!("{}.{}", row % 37, row % 4)));
        assert!(decimals.are_exact() && decimals.saving().is_none());
        assert!(Singles::default().saving().is_none());
    }
}
