//! Resources that the operating system reports: those of this process and of a file system.

use procfs::process::Stat;
use procfs::{CurrentSI, KernelStats};
use rustix::process::{Resource, getrlimit};

/// Resources of this process, as the operating system counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessStats {
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
    /// Virtual memory, bytes.
    pub virtual_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Start of the process, seconds since 1970; 0 if unknown.
    pub started_s: f64,
}

impl ProcessStats {
    /// Returns the present figures; zeros where `/proc` cannot be read.
    pub fn now() -> ProcessStats {
        let Ok(process) = procfs::process::Process::myself() else {
            return ProcessStats::default();
        };
        let stat = process.stat().ok();
        let ticks_per_s = procfs::ticks_per_second() as f64;
        let boot_s = KernelStats::current().map_or(0, |kernel| kernel.btime) as f64;
        let started_s = |stat: &Stat| boot_s + stat.starttime as f64 / ticks_per_s;
        let stat = stat.as_ref();
        let ticks = stat.map_or(0, |stat| stat.utime + stat.stime);
        ProcessStats {
            rss_bytes: stat.map_or(0, |stat| stat.rss * procfs::page_size()),
            virtual_bytes: stat.map_or(0, |stat| stat.vsize),
            threads: stat.map_or(0, |stat| stat.num_threads.max(0) as u64),
            started_s: stat.map_or(0.0, started_s),
            cpu_s: ticks as f64 / ticks_per_s,
            written_bytes: process.io().map_or(0, |io| io.write_bytes),
            open_files: process.fd_count().map_or(0, |count| count as u64),
            open_files_limit: getrlimit(Resource::Nofile).current.unwrap_or(0),
        }
    }
}

/// Space of the file system that holds a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem {
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

impl FileSystem {
    /// Returns the file system that holds `path`; zeros if the system call fails.
    pub fn of(path: &std::path::Path) -> FileSystem {
        rustix::fs::statvfs(path).map_or_else(
            |_| FileSystem::default(),
            |stat| FileSystem {
                total_bytes: stat.f_blocks * stat.f_frsize,
                free_bytes: stat.f_bavail * stat.f_frsize,
                files: stat.f_files,
                free_files: stat.f_favail,
                read_only: stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            },
        )
    }
}
