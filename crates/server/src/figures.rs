//! Figures of a store and its process, as one table that
//! `/status`, `/metrics` and the measurement `seiner` share.

use rustix::process::{Resource, getrlimit};
use seiner_store::Status;

/// Kind of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Counter: the value only grows while the server runs.
    Counter,
    /// Gauge: the value goes up and down.
    Gauge,
}

/// Figure of a store.
pub struct Figure {
    /// Name, as in [`Status`].
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Description for `/metrics`.
    pub help: &'static str,
    /// Function that reads the value.
    pub of: fn(&Status) -> u64,
}

macro_rules! figures {
    ($($name:ident $(= $field:ident)? $kind:ident $help:literal;)*) => {
        &[$(Figure {
            name: stringify!($name),
            kind: Kind::$kind,
            help: $help,
            of: |status| figures!(@value status $name $($field)?),
        }),*]
    };
    (@value $status:ident $name:ident) => { $status.$name };
    (@value $status:ident $name:ident $field:ident) => { $status.$field };
}

/// Table of every number in [`Status`].
pub const FIGURES: &[Figure] = figures! {
    sources Gauge "Sources registered";
    series Gauge "Series (source, field) registered";
    rows_accepted Counter "Rows accepted";
    samples_accepted Counter "Samples accepted";
    rows_rejected Counter "Rows refused by the store";
    rows_too_old Counter "Rows refused because they were too old for their retention class as they came";
    unsynced_samples Gauge "Samples accepted that a crash now would lose";
    unsynced_bytes Gauge "Bytes of the samples that a crash now would lose";
    unsynced_age_ns Gauge "Age of the oldest sample that a crash now would lose";
    buffered_rows Gauge "Rows in buffers, not yet in a block";
    buffer_bytes Gauge "Memory that buffers take";
    dictionary_bytes Gauge "Memory that names, tags and the look-up of sources take";
    memory_used Gauge "Memory accounted for";
    memory_budget Gauge "Memory that may be used";
    journal_bytes Gauge "Bytes of journal on disk";
    journal_files Gauge "Journal files on disk";
    journal_written Counter "Bytes written to the journal";
    journal_syncs Counter "Syncs of the journal";
    segments Gauge "Sealed segments";
    segment_bytes Gauge "Bytes of sealed segments";
    segment_written Counter "Bytes written to segments";
    blocks_sealed Counter "Blocks sealed";
    block_bytes_sealed Counter "Bytes of blocks sealed";
    samples_sealed Counter "Samples in blocks sealed";
    damaged_segments Gauge "Segments set aside because they are damaged, and damaged blocks that merges found";
    losses Gauge "Places in which data was lost, ever; acknowledged ones included";
    lost_rows Gauge "Rows that were lost, ever, as far as their number is known; acknowledged ones included";
    losses_unacknowledged Gauge "Places in which data was lost, and whose loss nobody acknowledged";
    segments_dropped Counter "Segments dropped, merged ones included";
    segments_merged Counter "Segments merged";
    merge_written Counter "Bytes of blocks that merges wrote again";
    extra_written Counter "Bytes of blocks that were written again for the sake of reads alone";
    extra_left Gauge "Bytes that may be written again for the sake of reads alone, now";
    coalesced_blocks Counter "Blocks that merges coalesced into larger blocks";
    gathered_blocks = coalesced_blocks Counter "Deprecated name of seiner_coalesced_blocks_total";
    overwritten_rows Counter "Rows that merges left out, for later ones overwrite them";
    recompressed_bytes Counter "Bytes that merges saved by recompression";
    squeezed_bytes = recompressed_bytes Counter "Deprecated name of seiner_recompressed_bytes_total";
    merge_read Counter "Bytes that merges read";
    shed_bytes Counter "Bytes let go because the disk budget was used up, about";
    waited_ns Counter "Time that writers were made to wait for room on the disk";
    levels Gauge "Levels of sources registered: coarser steps that samples became of age";
    aged_samples Counter "Samples that were too old and went into a coarser level";
    level_rows Counter "Rows written to coarser levels";
    open_segments Gauge "Segments that are being written";
    open_segment_bytes Gauge "Bytes in segments that are being written";
    disk_used Gauge "Bytes that the store counts as taken on the disk: in files and allotted";
    disk_files Gauge "Bytes of the store's files, with the room that journal files and open segments were given ahead";
    disk_allotted Gauge "Bytes allotted to files to come, mostly to the journal up to its bound";
    disk_budget Gauge "Bytes that the store may take on the disk; 18446744073709551615 if nobody knows";
    live_bytes Gauge "Bytes of live blocks, sealed and in segments that are being written";
    clock_held_ns Gauge "How far the host's clock jumped ahead and is not believed; 0 when it is";
    clock_behind_ns Gauge "How far the time that the store has seen is ahead of the host's clock";
};

/// Figures of this process, as the operating system counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessFigures {
    /// Resident memory, bytes.
    pub rss_bytes: u64,
    /// Processor time, user and system, seconds.
    pub cpu_s: f64,
    /// Bytes that the kernel wrote to devices for this process.
    pub written_bytes: u64,
    /// Number of open files, including sockets.
    pub open_files: u64,
    /// Maximum number of open files; 0 if unknown.
    pub open_files_limit: u64,
}

impl ProcessFigures {
    /// Returns the present figures; zeros where `/proc` cannot be read.
    pub fn now() -> ProcessFigures {
        let Ok(process) = procfs::process::Process::myself() else {
            return ProcessFigures::default();
        };
        let stat = process.stat().ok();
        let ticks = stat.as_ref().map_or(0, |stat| stat.utime + stat.stime);
        ProcessFigures {
            rss_bytes: stat.map_or(0, |stat| stat.rss * procfs::page_size()),
            cpu_s: ticks as f64 / procfs::ticks_per_second() as f64,
            written_bytes: process.io().map_or(0, |io| io.write_bytes),
            open_files: process.fd_count().map_or(0, |count| count as u64),
            open_files_limit: getrlimit(Resource::Nofile).current.unwrap_or(0),
        }
    }
}

/// File system that holds a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Volume {
    /// Size, bytes.
    pub total_bytes: u64,
    /// Space that an ordinary user may still write, bytes.
    pub free_bytes: u64,
    /// Maximum number of files; 0 without a limit.
    pub files: u64,
    /// Number of files that an ordinary user may still create.
    pub free_files: u64,
    /// True if the file system is read-only.
    pub read_only: bool,
}

impl Volume {
    /// Returns the file system that holds `path`; zeros if the system call fails.
    pub fn of(path: &std::path::Path) -> Volume {
        rustix::fs::statvfs(path).map_or_else(
            |_| Volume::default(),
            |stat| Volume {
                total_bytes: stat.f_blocks * stat.f_frsize,
                free_bytes: stat.f_bavail * stat.f_frsize,
                files: stat.f_files,
                free_files: stat.f_favail,
                read_only: stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            },
        )
    }
}
