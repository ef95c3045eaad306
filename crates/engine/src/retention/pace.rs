//! The pace of a store: how long a block takes.
//!
//! A few hundred marks of block number and time. As more come, every other one is forgotten, so that
//! they reach back as far as is known.

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
        let (last, latest) = self.marks.last().copied().unwrap_or((0, i64::MIN));
        if !self.marks.is_empty() && (number < last + self.step || time < latest) {
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

    /// How long a block took on average over the latter half of what is known, ns: long enough for
    /// what is quick one moment and slow the next not to look like another store.
    pub fn block_ns(&self) -> Option<f64> {
        let (number, time) = *self.marks.last()?;
        let (before, since) = self.marks[(self.marks.len() - 1) / 2];
        let blocks = number.checked_sub(before).filter(|&blocks| blocks > 0)?;
        Some((time.saturating_sub(since) as f64 / blocks as f64).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_comes_out_however_many_marks_there_were() {
        let mut pace = Pace::default();
        assert_eq!(pace.block_ns(), None);
        pace.note(7, 0);
        assert_eq!(pace.block_ns(), None, "one mark tells of no pace");
        for number in 8..100_000u64 {
            pace.note(number, number as i64 * 1000);
        }
        assert!(pace.marks.len() < MARKS);
        assert!((pace.block_ns().unwrap() - 1000.0).abs() < 1.0);
        for number in 100_000..400_000u64 {
            pace.note(number, 100_000_000 + (number as i64 - 100_000) * 3000);
        }
        let found = pace.block_ns().unwrap();
        assert!(
            (found - 3000.0).abs() < 30.0,
            "the latter half is slower: {found}"
        );
    }
}
