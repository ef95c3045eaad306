//! Memory of gathering between its steps.

/// Memory of the job.
#[derive(Default)]
pub struct GatheringMemory {
    /// Position of the oldest buffer in the queue, and the idle tick at which the job first found it there.
    pub(super) oldest: Option<(u64, u16)>,
}
