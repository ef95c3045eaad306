//! Clients and peers of network block devices: fio, and nbdkit's memory plugin.

use crate::process::Usage;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time until a server listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Result of a run of fio.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Number of reads and writes.
    pub requests: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Seconds of the longest job.
    pub seconds: f64,
    /// True if fio detected wrong data.
    pub failed: bool,
}

/// Returns the version that a program prints.
pub fn version(program: &str) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next().unwrap_or_default().trim();
    let name = version.strip_prefix(program).unwrap_or(version);
    Ok(name.trim_start_matches(['-', ' ']).to_string())
}

/// Runs fio with a job file on the export behind a socket. The output goes to a file in `folder`.
pub fn fio(folder: &Path, socket: &Path, jobs: &str, more: &[&str]) -> Result<Done> {
    let (input, output) = (folder.join("jobs.fio"), folder.join("fio.json"));
    let head = format!(
        "[global]\nioengine=nbd\nuri=nbd+unix:///?socket={}\n",
        socket.display()
    );
    fs::write(&input, head + jobs)?;
    let said = Command::new("fio")
        .args(more)
        .arg("--output-format=json")
        .arg("--output")
        .arg(&output)
        .arg(&input)
        .current_dir(folder)
        .output()
        .context("fio cannot be run")?;
    let text = fs::read_to_string(&output)?;
    let begin = text.find('{').with_context(|| {
        format!(
            "fio printed no result: {}{text}",
            String::from_utf8_lossy(&said.stderr)
        )
    })?;
    let answer: Value = serde_json::from_str(&text[begin..]).context("fio's answer")?;
    let jobs = answer["jobs"].as_array().context("fio's jobs")?;
    let mut done = Done {
        failed: !said.status.success(),
        ..Done::default()
    };
    for job in jobs {
        let number = |side: &str, name: &str| job[side][name].as_u64().unwrap_or(0);
        done.requests += number("read", "total_ios") + number("write", "total_ios");
        done.bytes_read += number("read", "io_bytes");
        done.bytes_written += number("write", "io_bytes");
        done.failed |= job["error"].as_i64() != Some(0);
        let milliseconds = number("read", "runtime").max(number("write", "runtime"));
        done.seconds = done.seconds.max(milliseconds as f64 / 1e3);
    }
    Ok(done)
}

/// Process of nbdkit with its memory plugin. Dropping it kills the process.
pub struct Nbdkit {
    child: Child,
    /// Path of the socket.
    pub socket: PathBuf,
}

impl Nbdkit {
    /// Starts nbdkit with `bytes` bytes.
    pub fn start(folder: &Path, bytes: u64) -> Result<Nbdkit> {
        let socket = folder.join("nbdkit.socket");
        let child = Command::new("nbdkit")
            .args(["--foreground", "--unix"])
            .arg(&socket)
            .args(["memory", &bytes.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .context("nbdkit cannot be run")?;
        let nbdkit = Nbdkit { child, socket };
        let start = Instant::now();
        while !nbdkit.socket.exists() {
            ensure!(start.elapsed() < PATIENCE, "nbdkit does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(nbdkit)
    }

    /// Returns the kernel's counters of the process.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.child.id() as i32)
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
