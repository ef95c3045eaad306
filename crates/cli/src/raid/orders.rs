//! Subcommands that send requests to a serving array.

use super::control::{Order, ask, status};
use super::report::{MemberReport, Report, TaskReport};
use crate::failure::Failure;
use anyhow::anyhow;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Use a member no longer, although it works: before it is pulled, or because it is slow.
///
/// It is put on record as gone, and comes back only as a new device. Refused if data would be lost.
#[derive(Args)]
pub struct Fail {
    /// The control socket of the serving process.
    socket: PathBuf,
    /// The member's number, as `status` tells it.
    member: usize,
}

/// Put a device in the place of a lost member, and fill it while the volume is used.
#[derive(Args)]
pub struct Replace {
    /// The control socket of the serving process.
    socket: PathBuf,
    /// The member's number, as `status` tells it.
    member: usize,
    /// The device.
    device: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
    /// Wait until it is filled.
    #[arg(long)]
    wait: bool,
}

/// Keep a device ready: it takes the place of the next member that is lost, by itself.
#[derive(Args)]
pub struct Spare {
    /// The control socket of the serving process.
    socket: PathBuf,
    /// The device.
    device: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

// Not a doc comment: it would replace the description of the command.
#[derive(Args)]
struct Overwriting {
    /// What the device holds may be lost. Wants --yes as well.
    #[arg(long)]
    overwrite: bool,
    /// Yes, it may.
    #[arg(long, requires = "overwrite")]
    yes: bool,
}

/// Read everything, compare data and syndromes, and repair what can be.
///
/// A block that cannot be read is computed from the others and written again. On RAID 6 a single wrong block of a row is
/// found and repaired as well; where nothing says what is wrong, the stripe is reported and left as it is: status 1. With --wait,
/// the members are named of which blocks were repaired. Stripes that a member lacks because they could not be filled are tried
/// again first; if it still lacks some, the status is 1 too.
#[derive(Args)]
pub struct Scrub {
    /// The control socket of the serving process.
    socket: PathBuf,
    /// End it before everything was read.
    #[arg(long)]
    stop: bool,
    /// Wait until it is over.
    #[arg(long, conflicts_with = "stop")]
    wait: bool,
}

/// Make all durable and end the serving process.
#[derive(Args)]
pub struct Stop {
    /// The control socket of the serving process.
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
    /// Sends the request.
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
    /// Sends the request.
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
    /// Sends the request.
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
    /// Sends the request and waits until the process has ended.
    pub fn run(self) -> Result<(), Failure> {
        ask(&self.socket, &Order::Stop)?;
        while self.socket.exists() {
            std::thread::sleep(Duration::from_millis(10));
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
        std::thread::sleep(Duration::from_millis(100));
    }
}
