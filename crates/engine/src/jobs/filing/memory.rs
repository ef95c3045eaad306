//! Memory of the job that files names between its steps.

/// State of the job between its steps.
#[derive(Default)]
pub(crate) struct FilingMemory {
    /// Number of the next names file. `None` before the first.
    pub next: Option<u64>,
    /// True if the names and tags in memory exceeded their part, and not all of them were filed since.
    pub is_under_way: bool,
}
