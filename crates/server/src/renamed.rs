//! Old names of metrics and of keys of `/status`. Both names are sent for one version.

/// New and old names, without prefix and without the suffix of counters.
const RENAMED: [(&str, &str); 30] = [
    ("memory_used_bytes", "memory_used"),
    ("memory_budget_bytes", "memory_budget"),
    ("journal_written_bytes", "journal_written"),
    ("segment_written_bytes", "segment_written"),
    ("sealed_block_bytes", "block_bytes_sealed"),
    ("merge_written_bytes", "merge_written"),
    ("extra_written_bytes", "extra_written"),
    ("extra_left_bytes", "extra_left"),
    ("coalesced_blocks", "gathered_blocks"),
    ("recompressed_bytes", "squeezed_bytes"),
    ("merge_read_bytes", "merge_read"),
    ("rolled_up_samples", "aged_samples"),
    ("rollup_rows", "level_rows"),
    ("disk_used_bytes", "disk_used"),
    ("disk_file_bytes", "disk_files"),
    ("disk_allotted_bytes", "disk_allotted"),
    ("disk_budget_bytes", "disk_budget"),
    ("writes_rejected", "writes_refused"),
    ("new_sources_rejected", "new_sources_refused"),
    ("rejected_requests", "turned_away"),
    ("ingest_rejected_rows", "ingest_rejected_lines"),
    ("log_used_ratio", "log_used_share"),
    ("log_live_ratio", "log_live_share"),
    ("log_merge_ratio", "log_merge_share"),
    ("log_dead_ratio", "log_dead_share"),
    ("log_merged_dead_ratio", "log_merged_dead_share"),
    ("log_write_amplification_ratio", "log_written_per_byte"),
    ("member_filled_ratio", "member_filled_share"),
    ("outstanding_operations", "outstanding"),
    ("dirty_regions", "unsettled_regions"),
];

/// Returns the old name of a metric or key that was renamed.
pub fn old_name(name: &str) -> Option<&'static str> {
    let renamed = RENAMED.iter().find(|(new, _)| *new == name);
    renamed.map(|(_, old)| *old)
}
