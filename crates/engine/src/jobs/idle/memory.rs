//! Memory of the search for idle sources between its steps.

/// A source is idle after so many ticks without a row.
pub const IDLE_TICKS: u16 = 8;

/// Memory of the job.
#[derive(Default)]
pub struct Memory {
    /// Source that is looked at next.
    pub(super) hand: u32,
    /// Tick at which all sources were looked at.
    pub(super) tick: u16,
    /// Rows that had been accepted then.
    pub(super) rows: u64,
}
