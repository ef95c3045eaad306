//! Shelves and periods: the division of all samples into partitions of the distributed store.
//!
//! A *shelf* is a part of the sources, by a hash of the source's number (the papers' imperfect hashing with F shelves,
//! 1 ≤ F ≤ S; *FS* §2). A *period* is an interval of sample times. The samples of a shelf and a period are in one
//! partition. Both are properties of a *grid*. Grids are stored; a later grid holds for later bundles, and readers look
//! at all grids.

use crate::rows::{Level, Range, Rows, RowsError, Swap};
use seiner_model::Interval;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Name of the table.
pub(crate) const TABLE: &str = "grids";
const PARTITION: &[u8] = b"grids";
/// Consecutive numbers of sources that share a shelf, so that a bundle has dense numbers.
const RUN: u32 = 256;

/// Division of samples into partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// F, the number of shelves, at least 1. More shelves spread the load over more nodes; bundles become smaller.
    pub shelves: u32,
    /// Length of a period in ns, at least a second. Longer periods need fewer reads for a long interval.
    pub period_ns: u64,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid {
            shelves: 4,
            period_ns: Duration::from_secs(86_400).as_nanos() as u64,
        }
    }
}

impl Grid {
    /// Checks the values.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Grid { shelves: 0, .. } => Err("0 shelves hold nothing; give 1 or more".to_string()),
            Grid { shelves, .. } if *shelves > 1 << 16 => {
                Err(format!("{shelves} shelves are more than 65536"))
            }
            Grid { period_ns, .. } if !(1_000_000_000..1 << 60).contains(period_ns) => {
                Err("a period is between 1 s and 36 years".to_string())
            }
            _ => Ok(()),
        }
    }

    /// Returns the shelf of a source.
    pub(crate) fn shelf(&self, number: u32) -> u32 {
        let run = u64::from(number / RUN);
        // Multiplicative hashing (Fibonacci), then scaled to the number of shelves.
        let hash = run.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * u64::from(self.shelves)) >> 32) as u32
    }

    /// Returns the number of the period of a time.
    pub(crate) fn period(&self, time: i64) -> i64 {
        time.div_euclid(self.period_ns as i64)
    }

    /// Returns the times of a period.
    pub(crate) fn times(&self, period: i64) -> Interval {
        let start = i128::from(period) * i128::from(self.period_ns);
        let end = start + i128::from(self.period_ns) - 1;
        // The first and last periods end at the limits of times.
        let time = |time: i128| time.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        Interval::new(time(start), time(end))
    }
}

/// Reads all grids, oldest first; creates the first one if there is none.
///
/// # Errors
/// If too few replicas answer, or a row is not a grid.
pub(crate) fn open(rows: &dyn Rows, first: Grid) -> Result<Vec<Grid>, RowsError> {
    let found = read(rows)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let value = serde_json::to_vec(&first).expect("a grid consists of numbers");
    let key = 0_u16.to_be_bytes();
    match rows.swap(TABLE, PARTITION, &key, None, &value)? {
        Swap::Done => Ok(vec![first]),
        Swap::Found(_) => read(rows),
    }
}

fn read(rows: &dyn Rows) -> Result<Vec<Grid>, RowsError> {
    let range = Range::whole(TABLE, PARTITION);
    let found = rows.range(&range, Level::Quorum)?.into_iter();
    let grids = found.map(|(_, value)| {
        let grid = serde_json::from_slice::<Grid>(&value).map_err(|error| error.to_string());
        grid.and_then(|grid| grid.check().map(|()| grid))
            .map_err(|error| RowsError::Rejected(format!("a stored grid is invalid: {error}")))
    });
    grids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_spread_evenly_over_shelves_in_runs() {
        let grid = Grid {
            shelves: 7,
            ..Grid::default()
        };
        let mut counts = [0; 7];
        for number in 0..256 * 7000 {
            counts[grid.shelf(number) as usize] += 1;
            assert_eq!(grid.shelf(number), grid.shelf(number / 256 * 256));
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least < most / 50, "{counts:?}");
    }

    #[test]
    fn every_time_is_in_its_period() {
        let grid = Grid::default();
        for time in [0, -1, 1, i64::MAX, i64::MIN, 86_400_000_000_000] {
            let period = grid.period(time);
            assert!(grid.times(period).contains(time));
        }
        assert_eq!(grid.times(0).end + 1, grid.times(1).start);
    }
}
