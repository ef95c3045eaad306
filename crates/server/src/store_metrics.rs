//! Metrics of a store, as one table that `/status` and `/metrics` share.

use seiner_store::Status;

/// Kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Counter: the value only grows while the server runs.
    Counter,
    /// Gauge: the value goes up and down.
    Gauge,
}

/// Metric of a store.
pub struct StoreMetric {
    /// Key in `/status`. The name in `/metrics` is in base units.
    pub key: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Description for `/metrics`.
    pub help: &'static str,
    /// Function that reads the value.
    pub of: fn(&Status) -> u64,
}

macro_rules! metrics {
    ($($key:ident $field:ident $kind:ident $help:literal;)*) => {
        &[$(StoreMetric {
            key: stringify!($key),
            kind: MetricKind::$kind,
            help: $help,
            of: |status| status.$field,
        }),*]
    };
}

/// Table of every number in [`Status`]: key, field of the status, kind, description.
pub const STORE_METRICS: &[StoreMetric] = metrics! {
    sources sources Gauge "Registered sources";
    series series Gauge "Registered series, the fields of sources";
    rows_accepted rows_accepted Counter "Accepted rows";
    samples_accepted samples_accepted Counter "Accepted samples";
    rows_rejected rows_rejected Counter "Rows rejected by the store";
    rows_too_old rows_too_old Counter "Rows rejected because they were older than their retention class keeps";
    unsynced_samples unsynced_samples Gauge "Accepted samples that a crash now would lose";
    unsynced_bytes unsynced_bytes Gauge "Bytes of the accepted samples that a crash now would lose";
    unsynced_age_ns unsynced_age_ns Gauge "Age of the oldest accepted sample that a crash now would lose";
    buffered_rows buffered_rows Gauge "Rows in buffers, not yet in a block";
    buffer_bytes buffer_bytes Gauge "Bytes of memory in buffers";
    dictionary_bytes dictionary_bytes Gauge "Bytes of memory for names, tags and the look-up of sources";
    memory_used_bytes memory_used Gauge "Bytes of memory that the store accounts for";
    memory_budget_bytes memory_budget Gauge "Bytes of memory that the store may use";
    journal_bytes journal_bytes Gauge "Bytes of journal files on disk";
    journal_files journal_files Gauge "Journal files on disk";
    journal_written_bytes journal_written Counter "Bytes written to the journal";
    journal_syncs journal_syncs Counter "Syncs of the journal";
    segments segments Gauge "Sealed segments";
    segment_bytes segment_bytes Gauge "Bytes of sealed segments";
    segment_written_bytes segment_written Counter "Bytes written to segments";
    blocks_sealed blocks_sealed Counter "Sealed blocks";
    sealed_block_bytes block_bytes_sealed Counter "Bytes of sealed blocks";
    samples_sealed samples_sealed Counter "Samples in sealed blocks";
    damaged_segments damaged_segments Gauge "Damaged segments that were set aside, and damaged blocks that merges found";
    losses losses Gauge "Places with lost data, including acknowledged losses";
    lost_rows lost_rows Gauge "Lost rows, as far as their number is known, including acknowledged losses";
    losses_unacknowledged losses_unacknowledged Gauge "Places with lost data, without acknowledged losses";
    sources_forgotten sources_forgotten Counter "Sources that lost their names because they had no data left";
    numbers_reused numbers_reused Counter "Sources that got the number of a forgotten one";
    sources_filed sources_filed Gauge "Sources whose tags are in names files, and no longer in memory";
    sources_dormant sources_dormant Gauge "Sources whose names are in names files, and no longer in memory";
    sources_recalled sources_recalled Counter "Dormant sources that were used again, and were found in names files";
    names_bytes names_bytes Gauge "Bytes of names files on disk";
    segments_dropped segments_dropped Counter "Dropped segments, including merged segments";
    segments_merged segments_merged Counter "Merged segments";
    merge_written_bytes merge_written Counter "Bytes of blocks that merges rewrote";
    extra_written_bytes extra_written Counter "Bytes of blocks that were rewritten only to speed up reads";
    extra_left_bytes extra_left Gauge "Bytes that may be rewritten now only to speed up reads";
    coalesced_blocks coalesced_blocks Counter "Blocks that merges coalesced into larger blocks";
    overwritten_rows overwritten_rows Counter "Rows that merges removed because later rows overwrite them";
    recompressed_bytes recompressed_bytes Counter "Bytes that merges saved by stronger compression";
    merge_read_bytes merge_read Counter "Bytes that merges read";
    shed_bytes shed_bytes Counter "Bytes of blocks that were shed because the disk budget was used up, approximately";
    waited_ns waited_ns Counter "Time for which writers waited for disk space";
    levels levels Gauge "Registered levels: roll-ups of sources, one per step length";
    rolled_up_samples aged_samples Counter "Samples that rows of a roll-up replaced";
    rollup_rows level_rows Counter "Rows that the roll-up wrote";
    open_segments open_segments Gauge "Segments that are being written";
    open_segment_bytes open_segment_bytes Gauge "Bytes of the segments that are being written";
    disk_used_bytes disk_used Gauge "Bytes of disk space in use: files, and space allotted to future files";
    disk_file_bytes disk_files Gauge "Bytes of the store's files, including space that journal files and open segments reserved";
    disk_allotted_bytes disk_allotted Gauge "Bytes allotted to future files, mostly to the journal up to its maximum";
    disk_budget_bytes disk_budget Gauge "Bytes of disk space that the store may use; 18446744073709551615 if unknown";
    live_bytes live_bytes Gauge "Bytes of live blocks, in sealed and open segments";
    clock_held_ns clock_held_ns Gauge "Time by which the host's clock jumped ahead without being accepted; 0 if the clock is accepted";
    clock_behind_ns clock_behind_ns Gauge "Time by which the store's clock is ahead of the host's clock";
};
