//! The pace of a store: when the block of a number was begun.
//!
//! A few hundred marks of block number and time, closer together the younger they are needed;
//! between two marks, blocks are taken to have begun at an even pace. So a source needs no memory
//! of its own for the time that its blocks take to fill.

/// Marks kept at most.
const MARKS: usize = 512;

/// See the module.
pub struct Pace {
    /// Block numbers and times, ascending.
    marks: Vec<(u64, i64)>,
    /// Blocks between marks.
    step: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            marks: Vec::new(),
            step: 1,
        }
    }
}

impl Pace {
    /// At this time, this was the next block's number.
    pub fn note(&mut self, number: u64, time: i64) {
        if let Some(&(last, _)) = self.marks.last()
            && number < last + self.step
        {
            return;
        }
        self.marks.push((number, time));
        if self.marks.len() == MARKS {
            let mut odd = false;
            self.marks.retain(|_| {
                odd = !odd;
                odd
            });
            self.step *= 2;
        }
    }

    /// When the block of a number was begun, about; the earliest known time for blocks before it.
    pub fn time_of(&self, number: u64) -> i64 {
        let after = self.marks.partition_point(|&(mark, _)| mark <= number);
        match (self.marks[..after].last(), self.marks.get(after)) {
            (Some(&(low, from)), Some(&(high, to))) => {
                let share = (number - low) as f64 / (high - low) as f64;
                from + ((to - from) as f64 * share) as i64
            }
            (Some(&(_, time)), None) | (None, Some(&(_, time))) => time,
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_about_however_many_marks_there_were() {
        let mut pace = Pace::default();
        for number in 0..100_000u64 {
            pace.note(number, number as i64 * 1000);
        }
        for number in [0, 1, 77, 5_000, 99_000] {
            let off = (pace.time_of(number) - number as i64 * 1000).abs();
            assert!(off <= pace.step as i64 * 1000, "{number}: {off}");
        }
        assert!(pace.marks.len() < MARKS);
    }
}
