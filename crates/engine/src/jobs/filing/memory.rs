//! Memory of the job that files names between its steps.

/// State of the job between its steps.
#[derive(Default)]
pub(crate) struct FilingMemory {
    /// Number of the next names file. `None` before the first.
    pub next: Option<u64>,
}
