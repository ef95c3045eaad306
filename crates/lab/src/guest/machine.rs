//! The emulated machine: one processor whose clock counts instructions, memory, and two serial
//! lines.

use crate::cell::Cell;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::tool;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const QEMU: &str = "qemu-system-x86_64";
/// Multiple of the limit of processor time that may pass on the wall clock.
const PATIENCE: u32 = 10;
/// Number of last console lines in the error of a guest that failed.
const CONSOLE_LINES: usize = 8;

/// Result of a guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The guest started and had no cell to measure.
    Ready {
        /// Release of the guest's kernel.
        kernel: String,
    },
    /// The measured cell.
    Cell(Box<Cell>),
    /// Text of the error.
    Failed(String),
}

/// Returns the reason why no machine can be emulated here; `None` if one can.
pub fn obstacle() -> Option<String> {
    if std::env::consts::ARCH != "x86_64" {
        return Some(
            "the guest runs this program, but the program is not built for the emulated x86-64"
                .to_string(),
        );
    }
    match tool::find(QEMU) {
        Some(_) => None,
        None => Some(format!("the program {QEMU} is not installed")),
    }
}

/// Parameters of a machine to start.
pub struct Boot {
    /// File of the kernel.
    pub kernel: PathBuf,
    /// File of the initial file system.
    pub archive: PathBuf,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Maximum processor time of the emulator; the machine is then ended. The wall-clock time may
    /// be [`PATIENCE`] times as long, for busy computers.
    pub limit: Duration,
}

impl Boot {
    /// Starts the machine, waits until it switches itself off, and returns its answer.
    ///
    /// # Errors
    /// The emulator fails, the limit is exceeded, the guest ends without an answer, or the user
    /// stopped the run.
    pub fn run(&self, registry: &Arc<Registry>, interrupt: &Interrupt) -> Result<Answer> {
        let beside = self.archive.parent().unwrap_or(Path::new("."));
        let (answer, console) = (beside.join("answer"), beside.join("console"));
        for path in [&answer, &console] {
            fs::write(path, "")?;
        }
        let name = format!("seiner-lab-guest-{}", std::process::id());
        let (guard, mut child) = registry.create(Resource::Guest { name: name.clone() }, || {
            Ok(self.start(&name, &answer, &console)?)
        })?;
        let ended = wait(&mut child, self.limit, interrupt);
        if ended.is_err() {
            child.kill()?;
        }
        child.wait()?;
        guard.release()?;
        ended?;
        let said = fs::read_to_string(&answer)?;
        let line = said.lines().rev().find(|line| line.starts_with('{'));
        match line.map(|line| serde_json::from_str(line.trim())) {
            Some(Ok(answer)) => Ok(answer),
            _ => Err(anyhow!(
                "the guest switched itself off without an answer; its console ends in:\n{}",
                last_lines(&console)
            )
            .into()),
        }
    }

    fn start(&self, name: &str, answer: &Path, console: &Path) -> anyhow::Result<Child> {
        let program = tool::find(QEMU).ok_or_else(|| anyhow!("{QEMU} is not installed"))?;
        let mut command = Command::new(program);
        // -icount: an instruction takes 2 ns, and waiting for a timer takes no time. So nothing in
        // the guest depends on the speed of this computer.
        let fixed = "-nodefaults -no-user-config -display none -no-reboot -machine pc -cpu max \
                     -accel tcg,thread=single -icount shift=1,sleep=off";
        command.args(fixed.split_whitespace());
        command.args(["-name", name]);
        command.args(["-m", &format!("{}M", self.memory_bytes.div_ceil(1 << 20))]);
        for (id, path) in [("console", console), ("answer", answer)] {
            command.args(["-chardev", &format!("file,id={id},path={}", quoted(path))]);
            command.args(["-device", &format!("isa-serial,chardev={id}")]);
        }
        command.arg("-kernel").arg(&self.kernel);
        command.arg("-initrd").arg(&self.archive);
        command.args([
            "-append",
            "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off rdinit=/init -- lab inside",
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
            .spawn()
            .with_context(|| format!("{QEMU} did not start"))
    }
}

/// Doubles commas, because a single comma ends an option of QEMU.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn wait(child: &mut Child, limit: Duration, interrupt: &Interrupt) -> Result<()> {
    let start = crate::time::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            let mut complaint = String::new();
            if let Some(stderr) = &mut child.stderr {
                std::io::Read::read_to_string(stderr, &mut complaint)?;
            }
            return Err(Error::Failed(anyhow!(
                "{QEMU} failed: {}",
                complaint.trim()
            )));
        }
        interrupt.check()?;
        let used = processor_time(child.id());
        if used > limit || start.elapsed() > limit * PATIENCE {
            return Err(Error::Failed(anyhow!(
                "the guest did not end within {} s, including {} s of processor time",
                start.elapsed().as_secs(),
                used.as_secs()
            )));
        }
        crate::time::sleep(Duration::from_millis(50));
    }
}

/// Processor time of a process so far, in user and system mode; zero if it cannot be read.
fn processor_time(process: u32) -> Duration {
    let stat = i32::try_from(process).ok().and_then(|process| {
        let process = procfs::process::Process::new(process).ok()?;
        process.stat().ok()
    });
    stat.map_or(Duration::ZERO, |stat| {
        let ticks = stat.utime + stat.stime;
        Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
    })
}

fn last_lines(console: &Path) -> String {
    let text = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_does_not_end_an_option() {
        assert_eq!(quoted(Path::new("/a,b/c")), "/a,,b/c");
    }
}
