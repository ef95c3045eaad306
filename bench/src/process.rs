//! Server as a child process, and the kernel's counters of that process.

use anyhow::{Context, Result, bail, ensure};
use procfs::WithCurrentSystemInfo;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time until a server answers its first request, or stops.
const PATIENCE: Duration = Duration::from_secs(120);

/// Running server. Dropping it kills the process.
pub struct Server {
    child: Child,
    /// Address on which the server listens.
    pub address: SocketAddr,
    log: PathBuf,
}

/// The kernel's counters of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all its threads, in seconds.
    pub cpu_s: f64,
    /// Maximum resident memory of the process in bytes (VmHWM).
    pub peak_rss: u64,
    /// Resident memory in bytes (VmRSS).
    pub rss: u64,
    /// Bytes that the process wrote to block devices (`write_bytes` of
    /// /proc/PID/io).
    pub written: u64,
}

impl Usage {
    /// Reads the counters of a process.
    pub fn of(pid: i32) -> Result<Usage> {
        let process = Process::new(pid)?;
        let (stat, status) = (process.stat()?, process.status()?);
        Ok(Usage {
            cpu_s: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
            peak_rss: status.vmhwm.unwrap_or_default() * 1024,
            rss: stat.rss_bytes().get(),
            written: process.io()?.write_bytes,
        })
    }

    /// Reads the counters of this process.
    pub fn own() -> Result<Usage> {
        Usage::of(std::process::id() as i32)
    }
}

/// Runs one case of a benchmark in a process of its own: this program with the benchmark's name, the flag of a case,
/// and the case. Returns what it printed.
///
/// # Errors
/// If the process fails, with its messages, or prints no JSON.
pub fn in_own_process<T: DeserializeOwned>(
    output: &Path,
    [benchmark, flag, case]: [&str; 3],
    scale: f64,
) -> Result<T> {
    let done = Command::new(std::env::current_exe()?)
        .arg("--output")
        .arg(output)
        .args([benchmark, flag, case, "--scale", &scale.to_string()])
        .output()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{case} failed: {errors}");
    serde_json::from_slice(&done.stdout).with_context(|| format!("{case} printed no JSON"))
}

/// Returns the bytes of the files in a directory whose names begin with `prefix`.
pub fn bytes_of(directory: &Path, prefix: &str) -> Result<u64> {
    let mut bytes = 0;
    for file in fs::read_dir(directory)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(prefix) {
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}

impl Server {
    /// Starts a command. Its output goes to a log file.
    pub fn start(mut command: Command, address: SocketAddr, log: &Path) -> Result<Server> {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        Ok(Server {
            child,
            address,
            log: log.to_path_buf(),
        })
    }

    /// Returns the number of the process.
    pub fn process(&self) -> i32 {
        self.child.id() as i32
    }

    /// Returns the kernel's counters of the server.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.child.id() as i32)
    }

    /// Calls `ready` repeatedly until it returns true.
    pub fn wait_until(&mut self, mut ready: impl FnMut(SocketAddr) -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready(self.address) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once ({status}): {}", self.log_tail());
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "the server does not answer: {}",
                self.log_tail()
            );
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns true if the server has exited without a signal of this process.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Returns the last lines of the server's log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// Requests a stop (SIGTERM) and waits until the process has ended.
    pub fn stop(mut self) -> Result<()> {
        kill_process(self.pid(), Signal::TERM)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(
                start.elapsed() < PATIENCE,
                "the server does not stop on SIGTERM"
            );
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Kills the server (SIGKILL) and waits until the process has ended.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free port on loopback.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Disk usage of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of the blocks that the file system allocated to the files.
    pub allocated: u64,
    /// Sum of the file lengths in bytes.
    pub apparent: u64,
    /// Number of files.
    pub files: u64,
}

impl DiskUse {
    /// Adds up the files of a directory. Files that are deleted during the scan do not count.
    pub fn of(directory: &Path) -> DiskUse {
        let mut sum = DiskUse::default();
        each_file(directory, &mut |_, facts| {
            sum.allocated += facts.blocks() * 512;
            sum.apparent += facts.len();
            sum.files += 1;
        });
        sum
    }

    /// Returns a lower bound of the bytes allocated at one moment: between two scans of the
    /// directory. A single scan takes a while. If a file is deleted after the scan has passed it,
    /// the scan counts that file and the file that takes its space. Here, a file counts if both
    /// scans found it, with the smaller of its two sizes.
    pub fn allocated_at_once(directory: &Path) -> u64 {
        let (first, second) = (allocations(directory), allocations(directory));
        in_both(&first, &second)
    }

    /// Waits until the directory has not changed for `quiet`. Returns false if that does not happen
    /// within `limit`.
    pub fn wait_until_stable(directory: &Path, quiet: Duration, limit: Duration) -> bool {
        let start = Instant::now();
        let mut last = (DiskUse::of(directory), Instant::now());
        while start.elapsed() < limit {
            thread::sleep(Duration::from_millis(250));
            let now = DiskUse::of(directory);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed() >= quiet {
                return true;
            }
        }
        false
    }
}

/// Path and inode of a file. A later file may get the path or the inode of a deleted file, but
/// rarely both.
type FileId = (PathBuf, u64);

/// Calls `work` with every file under a directory. Files that are deleted meanwhile are left out.
fn each_file(directory: &Path, work: &mut dyn FnMut(PathBuf, fs::Metadata)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(facts) if facts.is_dir() => each_file(&entry.path(), work),
            Ok(facts) => work(entry.path(), facts),
            Err(_) => {}
        }
    }
}

/// Returns the files under a directory with their allocated bytes.
fn allocations(directory: &Path) -> BTreeMap<FileId, u64> {
    let mut found = BTreeMap::new();
    each_file(directory, &mut |path, facts| {
        found.insert((path, facts.ino()), facts.blocks() * 512);
    });
    found
}

/// Returns the bytes of the files that are in both lists, with the smaller of their two sizes.
fn in_both<Id: Ord>(first: &BTreeMap<Id, u64>, second: &BTreeMap<Id, u64>) -> u64 {
    let both = first.iter().filter_map(|(file, bytes)| {
        let later = second.get(file)?;
        Some(bytes.min(later))
    });
    both.sum()
}

/// Returns the bytes that all programs wrote to the block device under a directory since the
/// machine started; `None` if the kernel counts no device for this file system.
pub fn device_written(directory: &Path) -> Option<u64> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let disks = procfs::diskstats().ok()?;
    let disk = disks
        .iter()
        .find(|disk| disk.major == major as i32 && disk.minor == minor as i32)?;
    Some(disk.sectors_written * 512)
}

/// Drops the page cache, so that the next read comes from the device. Returns false if not
/// permitted.
pub fn drop_page_cache() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_replacement_are_not_counted_together() {
        let deleted = (1, 500);
        let (first, second) = ((2, 100), (2, 60));
        let created = (3, 500);
        assert_eq!(
            in_both(&[deleted, first].into(), &[second, created].into()),
            60
        );
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("inner/file"), [1; 8192]).unwrap();
        let allocated = DiskUse::of(directory.path()).allocated;
        assert_eq!(DiskUse::allocated_at_once(directory.path()), allocated);
    }

    #[test]
    fn own_usage_grows_with_work() {
        let before = Usage::own().unwrap();
        let start = Instant::now();
        let mut sum = 0_u64;
        while start.elapsed() < Duration::from_millis(100) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let after = Usage::own().unwrap();
        assert!(after.cpu_s > before.cpu_s);
        assert!(after.peak_rss >= after.rss && after.rss > 0);
    }

    #[test]
    fn disk_use_adds_up_folders() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("inner/file"), [1; 5000]).unwrap();
        fs::write(directory.path().join("other"), [1; 10]).unwrap();
        let disk = DiskUse::of(directory.path());
        assert_eq!((disk.apparent, disk.files), (5010, 2));
    }

    #[test]
    fn an_ended_server_is_reported_with_its_output() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such thing; exit 3"]);
        let address = free_address().unwrap();
        let mut server = Server::start(command, address, &directory.path().join("log")).unwrap();
        let error = server.wait_until(|_| false).unwrap_err().to_string();
        assert!(
            error.contains("no such thing") && error.contains('3'),
            "{error}"
        );
    }
}
