//! The parts of a forecast that are no arithmetic: merging and the array, run through their own code.

use crate::array::{self, Written};
use crate::demand::Demand;
use crate::forecast::{Choice, FILE_SYSTEM, Forecast};
use crate::merging;

/// The journal is committed this often, s.
const COMMIT_S: f64 = 0.1;
/// A piece of a segment is this part of it, and of an eighth of the memory all lanes have a share.
const PIECES: f64 = 16.0;
const MEMORY_PART: f64 = 8.0;
/// No write is smaller.
const BLOCK: f64 = 4096.0;

/// What simulations say of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// Bytes written to segments for each byte stored; none when the simulated store filled up.
    pub written_per_byte: Option<f64>,
    /// What an array makes of it, where there is one.
    pub array: Option<Streams>,
}

/// What an array makes of both streams.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Bytes of a write to a segment, and what becomes of its bytes.
    pub segment_piece: f64,
    /// See `segment_piece`.
    pub segments: Written,
    /// Bytes of a commit, and what becomes of its bytes.
    pub journal_piece: f64,
    /// See `journal_piece`.
    pub journal: Written,
}

impl Simulated {
    /// Runs them. An array that cannot be was refused before.
    pub fn run(demand: &Demand, choice: &Choice, forecast: &Forecast) -> Simulated {
        Simulated {
            written_per_byte: merging::written_per_byte(demand, choice, forecast),
            array: streams(demand, choice, forecast),
        }
    }

    /// Bytes a second that reach the devices: file system, merges and syndromes included.
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
