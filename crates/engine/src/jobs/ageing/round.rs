//! A round of ageing between its steps.

/// A round that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// The class whose rows go into the next level.
    pub(super) class: u8,
    /// From this time on, ns.
    pub(super) from: i64,
    /// Up to before this time.
    pub(super) to: i64,
    /// The length of a step, ns.
    pub(super) step: u64,
    /// The source that is next.
    pub(super) hand: u32,
}
