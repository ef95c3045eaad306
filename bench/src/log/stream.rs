//! Rows that a store under load receives.

use super::load::{BATCH, Lifetimes, StoreLoad, TEXTS, Values};
use anyhow::Result;
use seiner_engine::{Engine, Error};
use seiner_model::{Column, Columns, FieldColumn, SourceId, SourceKey, Strings};
use seiner_random::SplitMixRng;

/// Number of random characters from which texts are cut.
const SIGNS: usize = 8 << 20;

/// Source of rows for a store.
pub(super) struct Feed {
    ids: Vec<SourceId>,
    stream: Stream,
}

impl Feed {
    /// Registers the sources of a load.
    pub(super) fn new(load: &StoreLoad, engine: &Engine) -> Result<Feed> {
        let classes = load.class_count();
        let ids = (0..load.sources)
            .map(|n| {
                let measurement = format!("m{}", n % classes);
                let key = SourceKey::new(measurement.as_str(), [("n", n.to_string())])?;
                Ok(engine.register(&key)?)
            })
            .collect::<Result<Vec<SourceId>>>()?;
        let stream = Stream::new(load);
        Ok(Feed { ids, stream })
    }

    /// Returns the number of rows in a batch.
    pub(super) fn batch_rows(&self) -> usize {
        self.stream.values.batch()
    }

    /// Appends a batch: the first row at `time` ns, each further row `step` ns later.
    pub(super) fn batch(&mut self, engine: &Engine, time: i64, step: i64) -> Result<(), Error> {
        let times = (0..self.stream.values.batch() as i64).map(|row| time + row * step);
        let times: Vec<i64> = times.collect();
        match self.stream.values {
            Values::Floats | Values::Fractions => {
                let (sources, values) = self.stream.floats();
                let sources: Vec<SourceId> = sources.into_iter().map(|at| self.ids[at]).collect();
                engine.append_samples("value", &sources, &times, &values)?;
            }
            Values::Texts(bytes) => {
                let source = self.ids[self.stream.source()];
                let fields = vec![self.stream.texts(bytes as usize)];
                engine.append_columns(source, &["value"], &Columns { times, fields })?;
            }
        }
        Ok(())
    }
}

/// Rows of a load in order; the same for every store.
pub struct Stream {
    draw: SourceSampler,
    rng: SplitMixRng,
    values: Values,
    /// Number of successive rows of a source.
    burst: usize,
    /// Source of the present burst, and the number of its rows to come.
    present: (usize, usize),
    /// Random characters, if rows are texts.
    signs: String,
}

impl Stream {
    /// Starts at the first row.
    pub fn new(load: &StoreLoad) -> Stream {
        let mut rng = SplitMixRng::new(0x5e1e_0001);
        let sigma = match load.lifetimes {
            Lifetimes::Rings { sigma } => sigma,
            Lifetimes::Ages { .. } => 0.0,
        };
        let rates: Vec<f64> = (0..load.sources).map(|_| rng.lognormal(sigma)).collect();
        let signs = match load.values {
            Values::Floats | Values::Fractions => String::new(),
            Values::Texts(_) => signs(&mut rng),
        };
        Stream {
            draw: SourceSampler::new(&rates),
            rng,
            values: load.values,
            burst: load.burst,
            present: (0, 0),
            signs,
        }
    }

    /// Returns the number of the next row's source.
    fn source(&mut self) -> usize {
        let bits = self.rng.next_u64();
        self.draw.pick(bits, &mut self.rng)
    }

    /// Returns the sources and values of a batch. The values do not compress.
    pub fn floats(&mut self) -> (Vec<usize>, Vec<f64>) {
        let mut sources = Vec::with_capacity(BATCH);
        let mut values = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            if self.present.1 == 0 {
                self.present = (self.source(), self.burst);
            }
            self.present.1 -= 1;
            sources.push(self.present.0);
            let bits = self.rng.next_u64();
            values.push(f64::from_bits(match self.values {
                Values::Fractions => 1.0f64.to_bits() | bits >> 12,
                _ => bits >> 2,
            }));
        }
        (sources, values)
    }

    fn texts(&mut self, bytes: usize) -> FieldColumn {
        let from = self.rng.next_u64() as usize % (SIGNS - TEXTS * bytes);
        let texts = &self.signs[from..from + TEXTS * bytes];
        let ends = (1..=TEXTS).map(|text| (text * bytes) as u32);
        FieldColumn {
            present: None,
            values: Column::Str(Strings {
                ends: ends.collect(),
                bytes: texts.into(),
            }),
        }
    }
}

/// Returns the 128 ASCII characters in random order, repeated, so that all characters have the same
/// frequency.
fn signs(rng: &mut SplitMixRng) -> String {
    let mut order: Vec<u8> = (0..128).collect();
    let mut signs = String::with_capacity(SIGNS);
    while signs.len() < SIGNS {
        rng.shuffle(&mut order);
        signs.extend(order.iter().map(|&sign| char::from(sign)));
    }
    signs
}

/// Samples sources in proportion to their rates, in constant time (Walker's alias method).
pub struct SourceSampler {
    share: Vec<f64>,
    other: Vec<u32>,
}

impl SourceSampler {
    pub fn new(rates: &[f64]) -> SourceSampler {
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let mut share: Vec<f64> = rates.iter().map(|rate| rate / mean).collect();
        let mut other: Vec<u32> = (0..rates.len() as u32).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..rates.len() as u32).partition(|&at| share[at as usize] < 1.0);
        while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
            other[low as usize] = high;
            share[high as usize] -= 1.0 - share[low as usize];
            if share[high as usize] < 1.0 {
                small.extend(large.pop());
            }
        }
        SourceSampler { share, other }
    }

    pub fn pick(&self, bits: u64, rng: &mut SplitMixRng) -> usize {
        let at = ((u128::from(bits) * self.share.len() as u128) >> 64) as usize;
        match rng.unit() < self.share[at] {
            true => at,
            false => self.other[at] as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_drawn_in_proportion_to_their_rates() {
        let (alias, mut rng) = (SourceSampler::new(&[1.0, 2.0, 5.0]), SplitMixRng::new(1));
        let mut counts = [0u32; 3];
        for _ in 0..80_000 {
            let bits = rng.next_u64();
            counts[alias.pick(bits, &mut rng)] += 1;
        }
        for (count, expected) in counts.iter().zip([10_000u32, 20_000, 50_000]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?}");
        }
    }
}
