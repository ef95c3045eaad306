//! Shelves and periods: the division of all samples into partitions of the distributed store.
//!
//! A *shelf* is a part of the sources, by a hash of the source's number (the papers' imperfect hashing with F shelves,
//! 1 ≤ F ≤ S; *FS* §2). A *period* is an interval of sample times. The samples of a shelf and a period are in one
//! partition. Both are properties of a *grid*. Grids are stored; a later grid holds for later bundles, and readers look
//! at all grids.
//!
//! A grid is added while ports run:
//!
//! 1. A conditional write stores the grid under the next number. Stored grids never change.
//! 2. Each port reads the next number before each handover. The port may write into a grid as soon as it has read it.
//! 3. Each query reads the next number after the ports have answered and before it reads periods. A row that a port no
//!    longer has is in a bundle whose grid was stored before, so the query finds the grid.

use crate::locks::{read as locked_for_reading, written};
use crate::rows::{Found, Level, Range, Reading, Rows, RowsError, Selection, Swap};
use seiner_model::Interval;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// Name of the table.
pub(crate) const TABLE: &str = "grids";
const PARTITION: &[u8] = b"grids";
/// Maximum number of grids. Each grid adds requests to each query.
const MOST: usize = 64;
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

/// Grids of a cluster, as far as a port knows them.
pub(crate) struct Grids(RwLock<Arc<[Grid]>>);

impl Grids {
    /// Reads all grids; creates the first one if there is none.
    ///
    /// # Errors
    /// If too few replicas answer, or a row is not a grid.
    pub fn open(rows: &dyn Rows, first: Grid) -> Result<Grids, RowsError> {
        let grids = open(rows, first)?;
        Ok(Grids(RwLock::new(grids.into())))
    }

    /// Returns the grids that are known, oldest first.
    pub fn known(&self) -> Arc<[Grid]> {
        locked_for_reading(&self.0).clone()
    }

    /// Returns all grids, oldest first. Costs a request.
    ///
    /// # Errors
    /// If too few replicas answer, or a row is not a grid.
    pub fn refresh(&self, rows: &dyn Rows) -> Result<Arc<[Grid]>, RowsError> {
        let found = rows.read_all(vec![self.reading()])?;
        self.refresh_by(rows, found.into_iter().flatten().collect())
    }

    /// Returns the request for the first grid that is not known.
    pub fn reading(&self) -> Reading {
        Reading {
            rows: Selection::One(key(self.known().len()).to_vec()),
            ..Reading::whole(TABLE, PARTITION)
        }
    }

    /// Returns all grids, oldest first. `found` answers a [`Grids::reading`].
    ///
    /// # Errors
    /// If too few replicas answer, or a row is not a grid.
    pub fn refresh_by(&self, rows: &dyn Rows, found: Vec<Found>) -> Result<Arc<[Grid]>, RowsError> {
        let known = self.known();
        if found.is_empty() {
            return Ok(known);
        }
        let all: Arc<[Grid]> = read(rows)?.into();
        let mut known = written(&self.0);
        // Another thread may have read later.
        if all.len() > known.len() {
            *known = all;
        }
        Ok(known.clone())
    }
}

/// Outcome of [`change_grid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridChange {
    /// The grid is stored under this number. Each port uses it from its next handover on.
    Stored(u16),
    /// The grid is the present one. Nothing was written.
    Unchanged,
}

/// Returns the grids of a cluster, oldest first. The last one is used for new bundles.
///
/// # Errors
/// If too few replicas answer, or the keyspace has no grid: no port was started yet.
pub fn grids(rows: &dyn Rows) -> Result<Vec<Grid>, RowsError> {
    let is_there = rows.tables()?.iter().any(|table| table == TABLE);
    let found = if is_there { read(rows)? } else { Vec::new() };
    if found.is_empty() {
        let text = "the keyspace has no grid, because no port was started on it; start the first port with the \
                    settings shelves and period";
        return Err(RowsError::Rejected(text.to_string()));
    }
    Ok(found)
}

/// Stores a grid for later bundles. Earlier bundles stay where they are, and readable.
///
/// # Errors
/// If the grid is invalid, too few replicas answer, no port was started yet, or another process stores a grid at the
/// same time. If too few replicas answer, the grid may be stored or not; repeating the call is safe.
pub fn change_grid(rows: &dyn Rows, next: Grid) -> Result<GridChange, RowsError> {
    next.check().map_err(RowsError::Rejected)?;
    let known = grids(rows)?;
    if known.last() == Some(&next) {
        return Ok(GridChange::Unchanged);
    }
    let number = known.len();
    if number >= MOST {
        let text = format!(
            "the keyspace has had {number} grids, and each adds requests to each query; import the data into a new \
             keyspace"
        );
        return Err(RowsError::Rejected(text));
    }
    match rows.swap(TABLE, PARTITION, &key(number), None, &encode(&next))? {
        Swap::Done => Ok(GridChange::Stored(number as u16)),
        Swap::Found(_) => {
            let text = "another process has stored a grid at the same time; look at the present grid and try again";
            Err(RowsError::Rejected(text.to_string()))
        }
    }
}

fn key(number: usize) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

fn encode(grid: &Grid) -> Vec<u8> {
    serde_json::to_vec(grid).expect("a grid consists of numbers")
}

/// Reads all grids, oldest first; creates the first one if there is none.
fn open(rows: &dyn Rows, first: Grid) -> Result<Vec<Grid>, RowsError> {
    let found = read(rows)?;
    if !found.is_empty() {
        return Ok(found);
    }
    match rows.swap(TABLE, PARTITION, &key(0), None, &encode(&first))? {
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
    use crate::memory::MemoryRows;
    use crate::rows::TableSpec;

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
    fn a_grid_is_added_once_and_found_by_a_refresh() {
        let rows = MemoryRows::new();
        let error = grids(&rows).unwrap_err();
        assert!(error.to_string().contains("no port was started"), "{error}");
        rows.create(&[TableSpec::lasting(TABLE)]).unwrap();
        assert!(grids(&rows).is_err(), "an empty table");
        let first = Grid::default();
        let known = Grids::open(&rows, first).unwrap();
        assert_eq!(change_grid(&rows, first), Ok(GridChange::Unchanged));
        let next = Grid {
            shelves: 9,
            ..first
        };
        assert_eq!(change_grid(&rows, next), Ok(GridChange::Stored(1)));
        assert_eq!(known.known()[..], [first]);
        assert_eq!(known.refresh(&rows).unwrap()[..], [first, next]);
        assert_eq!(known.known()[..], [first, next]);
        let none = Grid {
            shelves: 0,
            ..first
        };
        assert!(change_grid(&rows, none).is_err());
        // Back to the first one: a grid of its own.
        assert_eq!(change_grid(&rows, first), Ok(GridChange::Stored(2)));
        assert_eq!(grids(&rows).unwrap(), [first, next, first]);
    }

    #[test]
    fn the_number_of_grids_is_bounded() {
        let rows = MemoryRows::new();
        rows.create(&[TableSpec::lasting(TABLE)]).unwrap();
        let grid = |shelves: usize| Grid {
            shelves: shelves as u32,
            ..Grid::default()
        };
        open(&rows, grid(1)).unwrap();
        for shelves in 2..=MOST {
            assert!(change_grid(&rows, grid(shelves)).is_ok(), "{shelves}");
        }
        let error = change_grid(&rows, grid(MOST + 1)).unwrap_err();
        assert!(error.to_string().contains("new keyspace"), "{error}");
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
