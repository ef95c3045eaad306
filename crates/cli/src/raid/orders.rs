//! Subcommands that send requests to a serving array.

use super::control::{Order, ask, status};
use crate::failure::Failure;
use anyhow::anyhow;
use clap::Args;
use seiner_server::array::{MemberReport, Report, TaskReport};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Take a working member out of use, for example before it is pulled or because it is slow.
///
/// The array records the member as lost. The device can return only as a new device, with a whole
/// rebuild. Rejected if data would be lost.
#[derive(Args)]
pub struct Fail {
    /// Control socket of the serving process.
    socket: PathBuf,
    /// Number of the member, as in `status`.
    member: usize,
}

/// Rebuild a lost member on another device, while the volume is in use.
#[derive(Args)]
pub struct Replace {
    /// Control socket of the serving process.
    socket: PathBuf,
    /// Number of the member, as in `status`.
    member: usize,
    /// Device that takes the place of the member.
    device: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
    /// Wait until the rebuild is complete.
    #[arg(long)]
    wait: bool,
}

/// Add a spare device. It automatically replaces the next member that is lost.
#[derive(Args)]
pub struct Spare {
    /// Control socket of the serving process.
    socket: PathBuf,
    /// Device to add.
    device: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

// Not a doc comment: it would replace the description of the command.
#[derive(Args)]
struct Overwriting {
    /// Allow the loss of data on the device. Requires --yes as well.
    #[arg(long)]
    overwrite: bool,
    /// Confirm --overwrite.
    #[arg(long, requires = "overwrite")]
    yes: bool,
}

/// Read all blocks, compare data with syndromes, and repair errors.
///
/// An unreadable block is computed from the others and written again. On RAID 6, a single wrong
/// block of a row is also found and repaired. If the wrong block cannot be determined, the stripe
/// is reported and stays unchanged, and the exit status is 1. With --wait, the command lists the
/// members whose blocks were repaired. The scrub first retries stripes that a rebuild could not
/// complete. If a member still lacks some, the exit status is 1 too.
#[derive(Args)]
pub struct Scrub {
    /// Control socket of the serving process.
    socket: PathBuf,
    /// Stop a running scrub before it has read everything.
    #[arg(long)]
    stop: bool,
    /// Wait until the scrub ends.
    #[arg(long, conflicts_with = "stop")]
    wait: bool,
}

/// Flush everything and end the serving process.
#[derive(Args)]
pub struct Stop {
    /// Control socket of the serving process.
    socket: PathBuf,
}

impl Fail {
    /// Sends the request.
    pub fn run(self) -> Result<(), Failure> {
        let member = self.member;
        ask(&self.socket, &Order::Fail { member }).map(drop)
    }
}

impl Replace {
    /// Sends the request to rebuild a member.
    pub fn run(self) -> Result<(), Failure> {
        let member = self.member;
        let order = Order::Replace {
            member,
            device: std::path::absolute(&self.device)?,
            overwrite: self.overwriting.is_allowed()?,
        };
        ask(&self.socket, &order)?;
        match self.wait {
            true => wait(&self.socket, |task| {
                task.task == "rebuild" && task.member == Some(member)
            }),
            false => Ok(()),
        }
    }
}

impl Spare {
    /// Sends the request to add a spare device.
    pub fn run(self) -> Result<(), Failure> {
        let order = Order::Spare {
            device: std::path::absolute(&self.device)?,
            overwrite: self.overwriting.is_allowed()?,
        };
        ask(&self.socket, &order).map(drop)
    }
}

impl Overwriting {
    fn is_allowed(&self) -> Result<bool, Failure> {
        match (self.overwrite, self.yes) {
            (true, false) => Err(Failure::Usage(
                "what the device holds will be lost: say --yes as well".to_string(),
            )),
            (overwrite, _) => Ok(overwrite),
        }
    }
}

impl Scrub {
    /// Sends the request to start or stop a scrub.
    pub fn run(self) -> Result<(), Failure> {
        let before = match self.wait {
            true => status(&self.socket)?.members,
            false => Vec::new(),
        };
        ask(&self.socket, &Order::Scrub { stop: self.stop })?;
        if !self.wait {
            return Ok(());
        }
        let done = wait(&self.socket, |task| task.task == "scrub");
        let report = status(&self.socket)?;
        for text in repairs(&before, &report.members) {
            println!("{text}");
        }
        done?;
        match unfilled(&report) {
            Some(text) => Err(Failure::Failed(anyhow!(text))),
            None => Ok(()),
        }
    }
}

/// Returns one line for each member with blocks repaired between two reports.
fn repairs(before: &[MemberReport], after: &[MemberReport]) -> Vec<String> {
    let members = before.iter().zip(after).enumerate();
    let lines = members.filter_map(|(number, (before, after))| {
        let blocks = after.repaired_blocks.saturating_sub(before.repaired_blocks);
        let device = after.device.as_deref().unwrap_or("no device");
        (blocks > 0).then(|| format!("{blocks} blocks of member {number} repaired: {device}"))
    });
    lines.collect()
}

/// Returns the remedy for a member that lacks stripes and is not being rebuilt, if there is one.
fn unfilled(report: &Report) -> Option<String> {
    let number = report
        .members
        .iter()
        .enumerate()
        .position(|(number, member)| {
            let filling = |task: &TaskReport| {
                task.task == "rebuild" && task.member == Some(number) && !task.over
            };
            member.state == "filling" && !report.tasks.iter().any(filling)
        })?;
    Some(format!(
        "member {number} lacks stripes that could not be filled: write those whole that `seiner raid status` names, or restore \
         them from a copy"
    ))
}

impl Stop {
    /// Sends the request to stop, and waits until the process has ended.
    pub fn run(self) -> Result<(), Failure> {
        ask(&self.socket, &Order::Stop)?;
        while self.socket.exists() {
            crate::time::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Waits until the tasks are complete and prints their failures.
fn wait(socket: &Path, which: impl Fn(&TaskReport) -> bool) -> Result<(), Failure> {
    loop {
        let report = status(socket)?;
        let tasks: Vec<&TaskReport> = report.tasks.iter().filter(|task| which(task)).collect();
        if tasks.iter().all(|task| task.over) {
            let failed: u64 = tasks.iter().map(|task| task.failed).sum();
            for failure in tasks.iter().flat_map(|task| &task.failures) {
                eprintln!("{failure}");
            }
            return match failed {
                0 => Ok(()),
                failed => Err(Failure::Failed(anyhow!(
                    "{failed} stripes are not in order"
                ))),
            };
        }
        crate::time::sleep(Duration::from_millis(100));
    }
}
