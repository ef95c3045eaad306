//! Memory of the search for idle sources between its steps.

/// Number of ticks without a row after which a source is idle.
pub const IDLE_TICKS: u16 = 8;

/// Memory of the job.
#[derive(Default)]
pub struct IdleMemory {
    /// Next source to examine.
    pub(super) cursor: u32,
    /// Tick at which all sources had been examined.
    pub(super) tick: u16,
    /// Number of accepted rows at that tick.
    pub(super) rows: u64,
}
