//! Store in memory for samples that are about to be recorded.

use crate::trial::in_memory;
use seiner_engine::Durability;
use seiner_platform::sim::SimDisk;
use seiner_store::Store;
use std::sync::Arc;

/// Returns an empty store in memory.
///
/// # Errors
/// Errors of the engine in memory. Such an error is a bug.
pub fn scratch_store() -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(in_memory(&SimDisk::new(1), Durability::Memory)?))
}
