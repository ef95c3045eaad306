//! Status of a store, as a dictionary of Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seiner_engine::{Durability, Status};

/// Returns the figures of a status by name.
pub fn status_dict<'py>(
    py: Python<'py>,
    status: &Status,
    durability: Durability,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item(
        "durability",
        match durability {
            Durability::Sync => "sync",
            Durability::Interval(_) => "interval",
            Durability::Memory => "memory",
        },
    )?;
    macro_rules! figures {
        ($($name:ident)*) => { $(dict.set_item(stringify!($name), &status.$name)?;)* };
    }
    figures!(
        sources series rows_accepted samples_accepted rows_rejected rows_too_old unsynced_samples unsynced_bytes unsynced_age_ns
        buffered_rows buffer_bytes dictionary_bytes memory_used memory_budget journal_bytes journal_files
        journal_written journal_syncs segments segment_bytes segment_written blocks_sealed block_bytes_sealed
        samples_sealed damaged_segments losses lost_rows losses_unacknowledged segments_dropped segments_merged merge_written extra_written
        extra_left coalesced_blocks overwritten_rows recompressed_bytes merge_read shed_bytes
        sources_filed sources_dormant sources_recalled names_bytes
        disk_used disk_budget live_bytes clock_held_ns clock_behind_ns poisoned
    );
    // Deprecated names, for one version.
    dict.set_item("gathered_blocks", status.coalesced_blocks)?;
    dict.set_item("squeezed_bytes", status.recompressed_bytes)?;
    Ok(dict)
}
