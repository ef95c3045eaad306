//! The simulated parts of a forecast: merging and the array, run with their own code.

use crate::array::{self, Written};
use crate::demand::Demand;
use crate::forecast::{Choice, FILE_SYSTEM, Forecast};
use crate::merging;

/// Interval of journal commits in seconds.
const COMMIT_S: f64 = 0.1;
/// Divisor of the segment size that gives the maximum size of a piece.
const PIECES: f64 = 16.0;
/// Divisor of the memory that gives the space for the pieces of all lanes.
const MEMORY_PART: f64 = 8.0;
/// Smallest write in bytes.
const BLOCK: f64 = 4096.0;

/// Results of the simulations for a plan.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// Bytes written to segments per byte stored; `None` if the simulated store filled up.
    pub written_per_byte: Option<f64>,
    /// Effect of the array on both streams; `None` without an array.
    pub array: Option<Streams>,
}

/// Effect of an array on both streams of the store.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Bytes of a write to a segment.
    pub segment_piece: f64,
    /// Bytes that the members write and read per byte of segments.
    pub segments: Written,
    /// Bytes of a commit of the journal.
    pub journal_piece: f64,
    /// Bytes that the members write and read per byte of journal.
    pub journal: Written,
}

impl Simulated {
    /// Runs the simulations. The caller has rejected impossible arrays.
    pub fn run(demand: &Demand, choice: &Choice, forecast: &Forecast) -> Simulated {
        Simulated {
            written_per_byte: merging::written_per_byte(demand, choice, forecast),
            array: streams(demand, choice, forecast),
        }
    }

    /// Returns the bytes per second that reach the devices, with file system, merges and syndromes.
    pub fn device_per_s(&self, forecast: &Forecast) -> f64 {
        let merged = self.written_per_byte.unwrap_or(1.0);
        let (segments, journal) = self.array.map_or((1.0, 1.0), |array| {
            (array.segments.written, array.journal.written)
        });
        (forecast.segments_per_s * merged * segments + forecast.journal_per_s * journal)
            * FILE_SYSTEM
    }
}

fn streams(demand: &Demand, choice: &Choice, forecast: &Forecast) -> Option<Streams> {
    let raid = demand.raid?;
    let share = choice.memory / MEMORY_PART / f64::from(choice.lanes);
    let segment_piece = (choice.segment_bytes / PIECES).min(share).max(BLOCK);
    let commit_s = if demand.is_synced { 0.0 } else { COMMIT_S };
    let journal_piece = (forecast.journal_per_s * commit_s).max(BLOCK);
    Some(Streams {
        segment_piece,
        segments: array::pieces(raid, segment_piece).ok()?,
        journal_piece,
        journal: array::pieces(raid, journal_piece).ok()?,
    })
}
