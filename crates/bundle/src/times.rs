//! Times as numbers: ticks of a list or of a grid, and distances from them.
//!
//! All arithmetic wraps at 64 bits, so each time returns exactly, however badly a model fits.

use seiner_codec::varint::{unzigzag, zigzag};

use crate::model::{TimeForm, TimeModel, UNITS, shared};
use crate::sink::NumberSink;

/// Last source that had times of its own: the context of the next.
#[derive(Default)]
pub(crate) struct Before {
    /// Times of its rows, as T; empty at the start of a chunk.
    pub(crate) times: Vec<u64>,
    first_tick: u64,
}

impl Before {
    /// Forgets the source, at the start of a chunk.
    pub(crate) fn clear(&mut self) {
        self.times.clear();
        self.first_tick = 0;
    }
}

/// Ticks between rows, as distances from the smallest step of the source so far.
#[derive(Default)]
struct Steps {
    least: Option<i64>,
}

impl Steps {
    fn table(&self) -> usize {
        match self.least {
            None => shared::FIRST_STEP,
            Some(_) => shared::STEP,
        }
    }

    fn number(&mut self, step: i64) -> u64 {
        let least = self.least.unwrap_or(1);
        self.least = Some(self.least.map_or(step, |least| least.min(step)));
        zigzag(step.wrapping_sub(least))
    }

    fn step(&mut self, number: u64) -> i64 {
        let step = unzigzag(number).wrapping_add(self.least.unwrap_or(1));
        self.least = Some(self.least.map_or(step, |least| least.min(step)));
        step
    }
}

/// Bound of a distance below which the sum of those of all rows of a chunk does not overflow.
const SURELY_SUMMED: u64 = 1 << 40;

/// Mean distance of a source's times from their ticks, in the form phase.
#[derive(Default)]
struct Mean {
    sum: i64,
    count: i64,
    /// Sum divided by count, rounded towards zero; 0 without times.
    value: i64,
}

impl Mean {
    #[inline(always)]
    fn add(&mut self, distance: i64) {
        self.sum = self.sum.wrapping_add(distance);
        self.count += 1;
        // A division takes longer than all else, and an exact clock needs none.
        if self.value.checked_mul(self.count) != Some(self.sum) {
            self.value = self.sum / self.count;
        }
    }

    /// Adds the distance to which the mean is equal, some times.
    fn add_repeated(&mut self, distance: i64, count: usize) {
        let sum = distance.wrapping_mul(count as i64);
        self.sum = self.sum.wrapping_add(sum);
        self.count += count as i64;
    }

    /// Returns whether the mean is exactly this distance, and stays so if the distance repeats.
    fn is_always(&self, distance: i64) -> bool {
        distance.unsigned_abs() < SURELY_SUMMED
            && self.value == distance
            && self.sum == distance * self.count
    }
}

/// Returns how many times the step between the first two times repeats behind them, if it is `step`.
fn repeats(times: &[u64], step: i64) -> usize {
    let has_step = |pair: &&[u64]| pair[1].wrapping_sub(pair[0]) as i64 == step;
    let mut pairs = times.windows(2);
    match pairs.next().filter(has_step) {
        Some(_) => pairs.take_while(has_step).count(),
        None => 0,
    }
}

impl TimeModel {
    /// Returns the model with first ticks relative to those of the source before.
    pub(crate) fn relative(self) -> TimeModel {
        TimeModel {
            is_relative: true,
            ..self
        }
    }

    /// Returns a time as T.
    #[inline(always)]
    pub(crate) fn reduced(&self, time: i64) -> u64 {
        let distance = time.wrapping_sub(self.base) as u64;
        // A division by a constant takes a fraction of the time.
        match self.unit {
            0 => distance,
            1 => distance / UNITS[1],
            2 => distance / UNITS[2],
            _ => distance / UNITS[3],
        }
    }

    /// Returns the time of a T.
    #[inline(always)]
    pub(crate) fn time(&self, reduced: u64) -> i64 {
        let distance = reduced.wrapping_mul(UNITS[usize::from(self.unit)]);
        self.base.wrapping_add(distance as i64)
    }

    /// Passes the numbers of a source's times to `sink`, with their tables.
    pub(crate) fn visit(
        &self,
        before: &mut Before,
        times: &[u64],
        sink: &mut (impl NumberSink + ?Sized),
    ) {
        match self.form {
            TimeForm::Before => self.visit_before(before, times, sink),
            _ => self.visit_ticks(before, times, sink),
        }
        before.times.clear();
        before.times.extend_from_slice(times);
    }

    fn visit_before(&self, before: &Before, times: &[u64], sink: &mut (impl NumberSink + ?Sized)) {
        let mut last = self.origin.wrapping_sub(self.period);
        for (row, &time) in times.iter().enumerate() {
            let (table, expected) = self.expected(before, row, last);
            sink.put(table, zigzag(time.wrapping_sub(expected) as i64));
            last = time;
        }
    }

    /// Returns table and expectation of a row: the time of the source before, if it has this row.
    fn expected(&self, before: &Before, row: usize, last: u64) -> (usize, u64) {
        match before.times.get(row) {
            Some(&time) => (shared::FIRST_RESIDUAL, time),
            None => (shared::RESIDUAL, last.wrapping_add(self.period)),
        }
    }

    fn visit_ticks(
        &self,
        before: &mut Before,
        times: &[u64],
        sink: &mut (impl NumberSink + ?Sized),
    ) {
        let (mut steps, mut mean, mut last_tick) = (Steps::default(), Mean::default(), 0u64);
        let mut row = 0;
        while let Some(&time) = times.get(row) {
            let tick = self.tick(time, last_tick, &mean);
            let step = tick.wrapping_sub(last_tick) as i64;
            if row == 0 {
                let number = if self.is_relative {
                    zigzag(tick.wrapping_sub(before.first_tick) as i64)
                } else {
                    tick
                };
                sink.put(shared::FIRST_TICK, number);
                before.first_tick = tick;
            } else {
                let table = steps.table();
                sink.put(table, steps.number(step));
            }
            last_tick = tick;
            row += 1;
            if self.form == TimeForm::List {
                continue;
            }
            let distance = time.wrapping_sub(self.tick_time(tick)) as i64;
            let (table, number) = self.residual(row - 1, distance, &mean);
            sink.put(table, number);
            self.add(&mut mean, distance);
            if row >= 2 && self.is_steady(&mean, distance) {
                let repeats = repeats(&times[row - 2..], step.wrapping_mul(self.period as i64));
                if repeats > 0 {
                    let numbers = [
                        (steps.table(), steps.number(step)),
                        self.residual(row, distance, &mean),
                    ];
                    sink.put_repeated(&numbers, repeats);
                    if self.form == TimeForm::Phase {
                        mean.add_repeated(distance, repeats);
                    }
                    last_tick = last_tick.wrapping_add(repeats as u64 * step as u64);
                    row += repeats;
                }
            }
        }
    }

    fn add(&self, mean: &mut Mean, distance: i64) {
        if self.form == TimeForm::Phase {
            mean.add(distance);
        }
    }

    /// Returns whether a time with the same distance from its tick leaves the mean as it is.
    fn is_steady(&self, mean: &Mean, distance: i64) -> bool {
        self.form == TimeForm::Grid || mean.is_always(distance)
    }

    /// Returns table and number of a distance from a tick.
    fn residual(&self, row: usize, distance: i64, mean: &Mean) -> (usize, u64) {
        match (row, self.form) {
            (0, _) => (shared::FIRST_RESIDUAL, distance as u64),
            (_, TimeForm::Phase) => (shared::RESIDUAL, zigzag(distance.wrapping_sub(mean.value))),
            _ => (shared::RESIDUAL, distance as u64),
        }
    }

    fn tick_time(&self, tick: u64) -> u64 {
        self.origin.wrapping_add(tick.wrapping_mul(self.period))
    }

    /// Returns the tick of a time, if the row before has the tick `last`. In the list, the tick is at or behind
    /// `last`.
    fn tick(&self, time: u64, last: u64, mean: &Mean) -> u64 {
        if self.form == TimeForm::List {
            let from = self.list.get(last as usize..).unwrap_or_default();
            // The tick behind the last one is the most frequent.
            if from.get(1) == Some(&time) {
                return last + 1;
            }
            return last + from.partition_point(|&listed| listed < time) as u64;
        }
        if self.period == 0 {
            return 0;
        }
        let distance = time.wrapping_sub(self.origin) as i64;
        let period = self.period as i64;
        let from = match self.form {
            TimeForm::Phase if mean.count > 0 => {
                let centred = distance.wrapping_sub(mean.value);
                centred.wrapping_add(period / 2)
            }
            _ => distance,
        };
        // The tick behind the last one is the most frequent.
        let next = (last as i64).wrapping_add(1);
        match from.wrapping_sub(next.wrapping_mul(period)) {
            rest if (0..period).contains(&rest) => next as u64,
            _ => from.div_euclid(period) as u64,
        }
    }

    /// Returns whether the third time of each source and all later ones follow from the first two, because
    /// the numbers of their tables are constant. `constant` returns the only number of a table.
    pub(crate) fn is_regular(&self, constant: impl Fn(usize) -> Option<u64>) -> bool {
        let residual = constant(shared::RESIDUAL);
        constant(shared::STEP) == Some(0)
            && match self.form {
                TimeForm::Grid => residual.is_some(),
                TimeForm::Phase => residual == Some(0),
                TimeForm::List | TimeForm::Before => false,
            }
    }

    /// Reads the times of a source with that many rows, by the table and number source `take`, and leaves
    /// them in `before`. Returns false if a number lies outside the list.
    pub(crate) fn read(
        &self,
        before: &mut Before,
        rows: usize,
        is_regular: bool,
        mut take: impl FnMut(usize) -> u64,
    ) -> bool {
        let mut is_valid = true;
        if self.form == TimeForm::Before {
            let mut last = self.origin.wrapping_sub(self.period);
            for row in 0..rows {
                let (table, expected) = self.expected(before, row, last);
                last = expected.wrapping_add(unzigzag(take(table)) as u64);
                match before.times.get_mut(row) {
                    Some(time) => *time = last,
                    None => before.times.push(last),
                }
            }
            before.times.truncate(rows);
            return true;
        }
        before.times.clear();
        let (mut steps, mut mean, mut tick) = (Steps::default(), Mean::default(), 0u64);
        for row in 0..rows {
            if row == 0 {
                tick = take(shared::FIRST_TICK);
                if self.is_relative {
                    tick = before.first_tick.wrapping_add(unzigzag(tick) as u64);
                }
                before.first_tick = tick;
            } else {
                let table = steps.table();
                tick = tick.wrapping_add(steps.step(take(table)) as u64);
            }
            if self.form == TimeForm::List {
                let time = usize::try_from(tick).ok().and_then(|at| self.list.get(at));
                is_valid &= time.is_some();
                before.times.push(time.copied().unwrap_or(0));
            } else {
                let distance = self.take_residual(row, &mean, &mut take);
                self.add(&mut mean, distance);
                let time = self.tick_time(tick).wrapping_add(distance as u64);
                before.times.push(time);
                if is_regular
                    && row == 1
                    && self.is_steady(&mean, distance)
                    && let Some(step) = steps.least
                {
                    let step = self.period.wrapping_mul(step as u64);
                    let later = 1..=(rows - 2) as u64;
                    let later = later.map(|row| time.wrapping_add(row.wrapping_mul(step)));
                    before.times.extend(later);
                    break;
                }
            }
        }
        is_valid
    }

    fn take_residual(&self, row: usize, mean: &Mean, take: &mut impl FnMut(usize) -> u64) -> i64 {
        match (row, self.form) {
            (0, _) => take(shared::FIRST_RESIDUAL) as i64,
            (_, TimeForm::Phase) => unzigzag(take(shared::RESIDUAL)).wrapping_add(mean.value),
            _ => take(shared::RESIDUAL) as i64,
        }
    }
}
