//! `seiner raid assemble`: repairs an array without serving it.

use super::monitor::report;
use super::report::text;
use super::running::RunningFlags;
use crate::failure::Failure;
use crate::progress;
use anyhow::anyhow;
use clap::Args;
use indicatif::ProgressBar;
use seiner_raid::{Array, TaskKind};
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::time::Duration;

/// Repair an array without serving it.
///
/// Recomputes syndromes that do not match after a crash or a creation, rebuilds members with
/// missing stripes, and then stops the array. `serve` does the same while clients use the volume.
/// This command completes the work before.
#[derive(Args)]
pub struct Assemble {
    #[command(flatten)]
    running: RunningFlags,
}

impl Assemble {
    /// Runs until all tasks are complete.
    pub fn run(self) -> Result<(), Failure> {
        let array = self.running.assemble()?;
        wait(&array);
        let status = array
            .status()
            .ok_or_else(|| anyhow!("the array ended unexpectedly"))?;
        let failed = status.tasks.iter().any(|task| task.failed > 0);
        write!(stdout(), "{}", text(&report(&array, status, &[])))?;
        array
            .stop()
            .map_err(|failure| anyhow!("the last flush failed: {failure}"))?;
        match failed {
            true => Err(Failure::Rejected),
            false => Ok(()),
        }
    }
}

const BAR: &str = "{msg} {bar:30} {pos}/{len} stripes {eta} left";

/// Waits until no task is left. Shows a bar per task on a terminal.
fn wait(array: &Array) {
    let mut bars: BTreeMap<String, ProgressBar> = BTreeMap::new();
    while let Some(status) = array.status() {
        for task in &status.tasks {
            let name = match task.kind {
                TaskKind::Resync => "resync".to_string(),
                TaskKind::Rebuild(member) => format!("rebuild of member {member}"),
                TaskKind::Scrub => "scrub".to_string(),
            };
            let bar = bars
                .entry(name.clone())
                .or_insert_with(|| progress::over(task.stripes, BAR).with_message(name));
            bar.set_position(task.done);
        }
        if status.tasks.iter().all(|task| task.over) {
            break;
        }
        crate::time::sleep(Duration::from_millis(100));
    }
    bars.values().for_each(ProgressBar::finish);
}
