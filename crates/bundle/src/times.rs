//! Times as numbers: ticks of a list or of a grid, and distances from them.
//!
//! All arithmetic wraps at 64 bits, so each time returns exactly, however badly a model fits.

use seiner_codec::varint::{unzigzag, zigzag};

use crate::model::{TimeForm, TimeModel, UNITS, shared};

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

/// Mean distance of a source's times from their ticks.
#[derive(Default)]
struct Mean {
    sum: i64,
    count: i64,
}

impl Mean {
    fn add(&mut self, distance: i64) {
        self.sum = self.sum.wrapping_add(distance);
        self.count += 1;
    }

    fn value(&self) -> i64 {
        self.sum / self.count.max(1)
    }
}

impl TimeModel {
    /// Returns a time as T.
    #[inline(always)]
    pub(crate) fn reduced(&self, time: i64) -> u64 {
        time.wrapping_sub(self.base) as u64 / UNITS[usize::from(self.unit)]
    }

    /// Returns the time of a T.
    #[inline(always)]
    pub(crate) fn time(&self, reduced: u64) -> i64 {
        let distance = reduced.wrapping_mul(UNITS[usize::from(self.unit)]);
        self.base.wrapping_add(distance as i64)
    }

    /// Passes the numbers of a source's times to `put`, with their tables.
    pub(crate) fn visit(
        &self,
        before: &mut Before,
        times: &[u64],
        mut put: impl FnMut(usize, u64),
    ) {
        match self.form {
            TimeForm::Before => self.visit_before(before, times, &mut put),
            _ => self.visit_ticks(before, times, &mut put),
        }
        before.times.clear();
        before.times.extend_from_slice(times);
    }

    fn visit_before(&self, before: &Before, times: &[u64], put: &mut impl FnMut(usize, u64)) {
        let mut last = self.origin.wrapping_sub(self.period);
        for (row, &time) in times.iter().enumerate() {
            let (table, expected) = self.expected(before, row, last);
            put(table, zigzag(time.wrapping_sub(expected) as i64));
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

    fn visit_ticks(&self, before: &mut Before, times: &[u64], put: &mut impl FnMut(usize, u64)) {
        let (mut steps, mut mean, mut last_tick) = (Steps::default(), Mean::default(), 0u64);
        for (row, &time) in times.iter().enumerate() {
            let tick = self.tick(time, last_tick, &mean);
            if row == 0 {
                let number = if self.is_relative {
                    zigzag(tick.wrapping_sub(before.first_tick) as i64)
                } else {
                    tick
                };
                put(shared::FIRST_TICK, number);
                before.first_tick = tick;
            } else {
                let table = steps.table();
                put(table, steps.number(tick.wrapping_sub(last_tick) as i64));
            }
            last_tick = tick;
            if self.form != TimeForm::List {
                let distance = time.wrapping_sub(self.tick_time(tick)) as i64;
                let (table, number) = self.residual(row, distance, &mean);
                put(table, number);
                mean.add(distance);
            }
        }
    }

    /// Returns table and number of a distance from a tick.
    fn residual(&self, row: usize, distance: i64, mean: &Mean) -> (usize, u64) {
        match (row, self.form) {
            (0, _) => (shared::FIRST_RESIDUAL, distance as u64),
            (_, TimeForm::Phase) => (
                shared::RESIDUAL,
                zigzag(distance.wrapping_sub(mean.value())),
            ),
            _ => (shared::RESIDUAL, distance as u64),
        }
    }

    fn tick_time(&self, tick: u64) -> u64 {
        self.origin.wrapping_add(tick.wrapping_mul(self.period))
    }

    /// Returns the tick of a time. In the list, the tick is at or behind `last`.
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
        let tick = match self.form {
            TimeForm::Phase if mean.count > 0 => {
                let centred = distance.wrapping_sub(mean.value());
                centred.wrapping_add(period / 2).div_euclid(period)
            }
            _ => distance.div_euclid(period),
        };
        tick as u64
    }

    /// Reads the times of a source with that many rows, by the table and number source `take`, and leaves
    /// them in `before`. Returns false if a number lies outside the list.
    pub(crate) fn read(
        &self,
        before: &mut Before,
        rows: usize,
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
                mean.add(distance);
                before
                    .times
                    .push(self.tick_time(tick).wrapping_add(distance as u64));
            }
        }
        is_valid
    }

    fn take_residual(&self, row: usize, mean: &Mean, take: &mut impl FnMut(usize) -> u64) -> i64 {
        match (row, self.form) {
            (0, _) => take(shared::FIRST_RESIDUAL) as i64,
            (_, TimeForm::Phase) => unzigzag(take(shared::RESIDUAL)).wrapping_add(mean.value()),
            _ => take(shared::RESIDUAL) as i64,
        }
    }
}
