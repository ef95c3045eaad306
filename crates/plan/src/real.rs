//! Sizes of real samples, as a correction of generated samples.
//!
//! Generated samples compress better than real ones. Without samples of the user, a plan therefore states a range,
//! from a table of real data sets.

use crate::demand::Values;

/// A real data set.
struct RealSet {
    values: &'static [Values],
    /// Bytes of a sample in the store, after an import with blocks of 4 KiB.
    real: f64,
    /// Bytes of a generated sample of the first kind in [`RealSet::values`], with the same number of fields, interval
    /// and regularity.
    generated: f64,
}

/// Sets, measured by `seiner import csv` and `seiner plan`. `docs/plan.md` describes them.
const SETS: [RealSet; 8] = [
    // Weather, every minute, 21 fields.
    RealSet {
        values: &[Values::Decimals],
        real: 0.421,
        generated: 0.279,
    },
    // Air quality, every hour, 13 fields.
    RealSet {
        values: &[Values::Decimals],
        real: 1.06,
        generated: 0.28,
    },
    // Servers in a cloud, every 5 minutes, 1 field.
    RealSet {
        values: &[Values::Decimals],
        real: 1.38,
        generated: 0.271,
    },
    // Counters and gauges of a host, every second, late by milliseconds, 1 field.
    RealSet {
        values: &[Values::Decimals, Values::Counters],
        real: 2.30,
        generated: 0.934,
    },
    // Solar plant, every 1 to 15 minutes, 1 field.
    RealSet {
        values: &[Values::Decimals],
        real: 2.54,
        generated: 0.271,
    },
    // Wind turbine, every 10 minutes, 7 fields: 32-bit floats, printed as 64-bit floats.
    RealSet {
        values: &[Values::Decimals],
        real: 3.19,
        generated: 0.291,
    },
    // Accelerometers of phones, 200 to 400 a second, 4 fields: 32-bit floats.
    RealSet {
        values: &[Values::Floats],
        real: 2.46,
        generated: 5.68,
    },
    // Positions of vehicles, every 5 s, times in ns, 2 fields: computed 64-bit floats.
    RealSet {
        values: &[Values::Floats],
        real: 9.35,
        generated: 6.0,
    },
];

/// Factor of the largest difference, for sets that differ more than those of the table.
const MARGIN: f64 = 1.2;

/// Difference between real and generated samples, in bytes per sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Smallest difference.
    pub low: f64,
    /// Median of the differences.
    pub middle: f64,
    /// Largest difference.
    pub high: f64,
}

impl Spread {
    /// Returns the differences for samples of a kind.
    pub fn of(values: Values) -> Spread {
        let sets = SETS.iter().filter(|set| set.values.contains(&values));
        let mut all: Vec<f64> = sets.map(|set| set.real - set.generated).collect();
        all.sort_by(f64::total_cmp);
        let (first, last) = (all[0], all[all.len() - 1]);
        let (below, above) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
        Spread {
            // Samples as regular as generated ones exist.
            low: first.min(0.0) * MARGIN,
            middle: (below + above) / 2.0,
            high: last * MARGIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_sets_are_inside_the_range_of_their_kind() {
        for set in &SETS {
            let spread = Spread::of(set.values[0]);
            let difference = set.real - set.generated;
            assert!(spread.low <= difference && difference <= spread.high);
            assert!(spread.low <= spread.middle && spread.middle <= spread.high);
        }
        assert!(Spread::of(Values::Counters).high > 0.0);
    }
}
