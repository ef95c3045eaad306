//! Labels `le` and `quantile` of the rows of a point, which repeat from point to point.

use super::attributes::put_double;
use crate::remote_write::notation::put_label;

/// Encoded labels with numbers as values. A label is encoded again only if the number at its place changes.
#[derive(Debug, Default)]
pub(super) struct BoundLabels {
    /// Name of the labels.
    name: &'static str,
    /// Bits of the numbers, and ends of their labels.
    ends: Vec<(u64, usize)>,
    encoded: Vec<u8>,
    text: Vec<u8>,
}

impl BoundLabels {
    /// Sets the name of the labels.
    pub fn set_name(&mut self, name: &'static str) {
        if self.name != name {
            self.name = name;
            self.ends.clear();
            self.encoded.clear();
        }
    }

    /// Prepares the label at a place. The places before it were prepared.
    #[inline]
    pub fn prepare(&mut self, place: usize, bound: f64) {
        let bits = bound.to_bits();
        if self.ends.get(place).is_none_or(|known| known.0 != bits) {
            self.encode(place, bound);
        }
    }

    fn encode(&mut self, place: usize, bound: f64) {
        self.ends.truncate(place);
        self.encoded.truncate(self.begin(place));
        self.text.clear();
        put_double(bound, &mut self.text);
        put_label(self.name.as_bytes(), &self.text, &mut self.encoded);
        self.ends.push((bound.to_bits(), self.encoded.len()));
    }

    /// Returns a prepared label, as a name of a series contains it.
    #[inline]
    pub fn label(&self, place: usize) -> &[u8] {
        &self.encoded[self.begin(place)..self.ends[place].1]
    }

    fn begin(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.ends[before].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_their_numbers() {
        let mut labels = BoundLabels::default();
        labels.set_name("le");
        for bounds in [
            &[0.5, 1.0, f64::INFINITY][..],
            &[0.5, 2.5e-7, 1e21],
            &[-0.0],
        ] {
            for (place, bound) in bounds.iter().enumerate() {
                labels.prepare(place, *bound);
            }
            let expected = bounds.iter().map(|bound| match *bound {
                f64::INFINITY => "+Inf".to_string(),
                bound => format!("{bound}"),
            });
            for (place, text) in expected.enumerate() {
                let mut label = Vec::new();
                put_label(b"le", text.as_bytes(), &mut label);
                assert_eq!(labels.label(place), label);
            }
        }
    }
}
