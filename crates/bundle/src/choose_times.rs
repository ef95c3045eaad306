//! Choice of the form of a group's times, by the entropy of the numbers on a sample of its sources.

use crate::histogram::Histogram;
use crate::lists::{MAX_LIST, is_permitted};
use crate::model::{TimeForm, TimeModel, UNITS, shared};
use crate::times::Before;

/// Rows of the sample.
const SAMPLE_ROWS: usize = 4096;
/// Number of rows per bit from which on no other model is tried.
const ENOUGH: f32 = 32.0;
/// Approximate bits that an entry of the list takes in the directory.
const LISTED_BITS: f32 = 12.0;
/// Steps of the rounding of a period: it is a multiple of one of these in its unit.
const ROUND: [u64; 10] = [
    1_000_000_000,
    100_000_000,
    10_000_000,
    1_000_000,
    100_000,
    10_000,
    1_000,
    100,
    10,
    1,
];
/// Smallest gap between the phases of the sources, relative to the period, below which they have no
/// common phase: one part in this many.
const COMMON_PHASE: u64 = 8;

/// Sources that have times of their own, as T. The others have the times of the source before.
pub(crate) struct OwnTimes {
    /// End of the times of each source in `times`.
    pub(crate) ends: Vec<usize>,
    /// Index of the chunk of each source.
    pub(crate) chunks: Vec<usize>,
    pub(crate) times: Vec<u64>,
}

impl OwnTimes {
    /// Returns the times of a source.
    pub(crate) fn of(&self, source: usize) -> &[u64] {
        let start = source.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.times[start..self.ends[source]]
    }

    /// Returns the sources of the sample: all of some chunks.
    fn sample(&self) -> Vec<usize> {
        let stride = self.times.len() / SAMPLE_ROWS + 1;
        let is_taken = |source: &usize| self.chunks[*source].is_multiple_of(stride);
        (0..self.ends.len()).filter(is_taken).collect()
    }
}

/// Returns the code of the largest unit that divides all distances from `base`.
pub(crate) fn common_unit(times: &[i64], base: i64) -> u8 {
    let mut code = UNITS.len() - 1;
    let (mut before, mut step) = (0u64, 0u64);
    for &time in times {
        let distance = time.wrapping_sub(base) as u64;
        // The units of a repeated step divide the distance without another division.
        let repeats = distance.wrapping_sub(before) == step;
        (before, step) = (distance, distance.wrapping_sub(before));
        while !repeats && !distance.is_multiple_of(UNITS[code]) {
            code -= 1;
        }
        if code == 0 {
            break;
        }
    }
    code as u8
}

/// Returns the model with the smallest estimate.
pub(crate) fn choose(own: &OwnTimes, base: i64, unit: u8) -> TimeModel {
    let sample = own.sample();
    let rows: usize = sample.iter().map(|&source| own.of(source).len()).sum();
    let scale = own.times.len() as f32 / rows.max(1) as f32;
    let enough = own.times.len() as f32 / ENOUGH;
    let period = period(own, &sample);
    let grid = TimeModel {
        form: TimeForm::Grid,
        unit,
        base,
        period,
        origin: origin(own, &sample, period),
        ..TimeModel::default()
    };
    // Of equal estimates the first counts, so equal steps need no list.
    let mut best: Option<(f32, TimeModel)> = None;
    let grids = [grid.clone(), grid.clone().relative()];
    let others = std::iter::once_with(|| others(own, &sample, &grid)).flatten();
    for model in grids.into_iter().chain(others) {
        let (bits, tables) = estimate(own, &sample, &model);
        let all = bits * scale + tables + model.list.len() as f32 * LISTED_BITS;
        if best.as_ref().is_none_or(|(least, _)| all < *least) {
            best = Some((all, model));
        }
        if all <= enough {
            break;
        }
    }
    best.map(|(_, model)| model).unwrap_or(grid)
}

/// Returns the models other than grids.
fn others(own: &OwnTimes, sample: &[usize], grid: &TimeModel) -> Vec<TimeModel> {
    let list = list(own, sample).map(|list| TimeModel {
        form: TimeForm::List,
        period: 0,
        origin: 0,
        list,
        ..grid.clone()
    });
    let of_form = |form| TimeModel {
        form,
        ..grid.clone()
    };
    let mut models = Vec::new();
    models.extend(list);
    models.push(of_form(TimeForm::Phase));
    let relative: Vec<TimeModel> = models.iter().cloned().map(TimeModel::relative).collect();
    models.extend(relative);
    models.push(of_form(TimeForm::Before));
    models
}

/// Returns the distinct times, unless there are nearly as many as rows.
fn list(own: &OwnTimes, sample: &[usize]) -> Option<Vec<u64>> {
    let mut sampled: Vec<u64> = sample
        .iter()
        .flat_map(|&source| own.of(source).iter().copied())
        .collect();
    let rows = sampled.len();
    sampled.sort_unstable();
    sampled.dedup();
    if sampled.len() > rows / 2 + 16 && own.ends.len() > 1 {
        return None;
    }
    let mut list = own.times.clone();
    list.sort_unstable();
    list.dedup();
    (list.len() <= MAX_LIST && is_permitted(&list)).then_some(list)
}

/// Returns the estimated bits of a sample and of its tables.
fn estimate(own: &OwnTimes, sample: &[usize], model: &TimeModel) -> (f32, f32) {
    let mut histograms: Vec<Histogram> = Vec::new();
    histograms.resize_with(shared::RESIDUAL + 1, Histogram::default);
    let (mut before, mut chunk) = (Before::default(), usize::MAX);
    for &source in sample {
        if own.chunks[source] != chunk {
            before.clear();
            chunk = own.chunks[source];
        }
        model.visit(&mut before, own.of(source), &mut histograms[..]);
    }
    let bits = histograms.iter().map(Histogram::bits).sum();
    let tables = histograms.iter().map(Histogram::table_bits).sum();
    (bits, tables)
}

/// Returns the distance of the ticks: the usual distance of two rows, rounded while that fits as well.
fn period(own: &OwnTimes, sample: &[usize]) -> u64 {
    let pairs = || {
        sample
            .iter()
            .flat_map(|&source| own.of(source).windows(2))
            .map(|pair| pair[1] - pair[0])
    };
    let mut steps: Vec<u64> = pairs().filter(|&step| step > 0).collect();
    if steps.is_empty() {
        return 0;
    }
    let middle = steps.len() / 2;
    let median = *steps.select_nth_unstable(middle).1;
    // Steps near the median are steps of one tick. Their mean is more precise.
    let (sum, count) = steps
        .iter()
        .filter(|&&step| step > median / 2 && step < median.saturating_mul(3) / 2)
        .fold((0u128, 0u128), |(sum, count), &step| {
            (sum + u128::from(step), count + 1)
        });
    let mean = (sum / count.max(1)) as u64;
    let deviation = {
        let sum: u128 = steps
            .iter()
            .filter(|&&step| step < median.saturating_mul(3) / 2)
            .map(|&step| u128::from(step.abs_diff(mean)))
            .sum();
        (sum / count.max(1)) as u64
    };
    // The mean is off by less than the deviation of a step over the root of their number.
    let slack = deviation / (1 + (count as f64).sqrt() as u64 / 4) + 1;
    let rounded = ROUND.iter().map(|&round| {
        let rounded = mean.saturating_add(round / 2) / round * round;
        (rounded, rounded.abs_diff(mean))
    });
    let mut found = rounded.filter(|&(rounded, error)| rounded > 0 && error <= slack);
    found
        .next()
        .map_or(mean.max(1), |(rounded, _)| rounded)
        .min(i64::MAX as u64)
}

/// Returns the time from which on ticks count, so that times lie shortly behind a tick.
fn origin(own: &OwnTimes, sample: &[usize], period: u64) -> u64 {
    let times = sample
        .iter()
        .flat_map(|&source| own.of(source).iter().copied());
    if period == 0 {
        return times.min().unwrap_or(0);
    }
    let mut phases: Vec<u64> = times.map(|time| time % period).collect();
    phases.sort_unstable();
    phases.dedup();
    let (Some(&first), Some(&last)) = (phases.first(), phases.last()) else {
        return 0;
    };
    // The largest gap between phases on the circle; times begin behind it.
    let mut widest = (first + (period - last), first);
    for pair in phases.windows(2) {
        if pair[1] - pair[0] > widest.0 {
            widest = (pair[1] - pair[0], pair[1]);
        }
    }
    let (gap, phase) = widest;
    if gap < period / COMMON_PHASE {
        return 0;
    }
    // Times outside the sample may lie a little before.
    let early = if phases.len() == 1 { 0 } else { gap / 16 };
    (phase + period - early) % period
}
