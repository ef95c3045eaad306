//! Entry point of this program as the first process of a guest. It prepares the system, measures
//! the cell of its order, writes the answer and switches the machine off.

use super::machine::Answer;
use crate::bench::Bench;
use crate::error::{Error, Result, refuse};
use crate::experiment::Task;
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::registry::Registry;
use anyhow::Context;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// File with the order.
pub const ORDER: &str = "/guest/order.json";
/// Directory of the kernel modules.
pub const MODULES: &str = "/guest/modules";
/// Directory of inputs, in memory.
pub const WORK: &str = "/work";
/// File of the disk, in memory. It is sparse: only written parts use memory.
const DISK: &str = "/work/disk";
/// Serial line for the answer.
const LINE: &str = "/dev/ttyS1";

/// Task of a guest.
#[derive(Serialize, Deserialize)]
pub struct GuestTask {
    /// Modules to load, in this order.
    pub modules: Vec<String>,
    /// Bytes of the disk.
    pub medium_bytes: u64,
    /// Job and cell to measure. `None` only tests that the guest starts.
    pub work: Option<(Job, Task)>,
}

/// Runs as the first process of a guest, up to the power-off.
///
/// # Errors
/// [`Error::Rejected`] in any other process, before anything is changed; or the answer cannot be
/// written.
pub fn run() -> Result<()> {
    if std::process::id() != 1 || !Path::new(ORDER).exists() {
        return refuse(
            "`lab inside` is the first process of a guest; use `lab files --backend guest`",
        );
    }
    let answer = measure().unwrap_or_else(|error| Answer::Failed(error.to_string()));
    let mut line = serde_json::to_string(&answer).map_err(std::io::Error::from)?;
    line.push('\n');
    let mut out = fs::OpenOptions::new().write(true).open(LINE)?;
    out.write_all(line.as_bytes())?;
    out.flush()?;
    rustix::termios::tcdrain(&out).map_err(std::io::Error::from)?;
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).map_err(std::io::Error::from)?;
    Ok(())
}

fn measure() -> Result<Answer> {
    let file_systems: [(&str, &str, &CStr); 4] = [
        ("proc", "/proc", c""),
        ("sysfs", "/sys", c""),
        ("devtmpfs", "/dev", c""),
        ("tmpfs", WORK, c"size=90%"),
    ];
    for (kind, point, options) in file_systems {
        fs::create_dir_all(point)?;
        mount(kind, point, kind, MountFlags::empty(), options)
            .with_context(|| format!("{kind} was not mounted"))?;
    }
    fs::create_dir_all("/tmp")?;
    fs::create_dir_all("/etc")?;
    // `mkfs.nilfs2` reads the mounted file systems from `/etc/mtab`.
    std::os::unix::fs::symlink("/proc/self/mounts", "/etc/mtab")?;
    let text = fs::read(ORDER)?;
    let order: GuestTask = serde_json::from_slice(&text).context("the order was not understood")?;
    for module in &order.modules {
        load(module)?;
    }
    let Some((job, task)) = order.work else {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        return Ok(Answer::Ready {
            kernel: kernel.trim().to_string(),
        });
    };
    File::create(DISK)?.set_len(order.medium_bytes)?;
    let registry = Registry::on_medium(Path::new("/tmp/state"), Path::new(DISK))?;
    let bench = Bench::silent(registry, Interrupt::default());
    let mut session = job.open(&bench)?;
    let cell = session.run(&task, &bench)?;
    Ok(Answer::Cell(Box::new(cell)))
}

fn load(module: &str) -> Result<()> {
    let file = File::open(Path::new(MODULES).join(format!("{module}.ko")))
        .with_context(|| format!("the module {module} was not opened"))?;
    match finit_module(&file, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(Error::Failed(
            anyhow::Error::from(error).context(format!("the module {module} was not loaded")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_outside_a_guest_is_rejected() {
        assert!(matches!(run(), Err(Error::Rejected(_))));
    }
}
