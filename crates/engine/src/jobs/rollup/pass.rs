//! State of a roll-up pass between its steps.

/// Roll-up pass that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RollupPass {
    /// Number of the class whose rows go into the next level.
    pub(super) class: u8,
    /// Start of the interval, ns.
    pub(super) from: i64,
    /// Exclusive end of the interval, ns.
    pub(super) to: i64,
    /// Length of a step, ns.
    pub(super) step: u64,
    /// Number of the next source.
    pub(super) cursor: u32,
}
