//! `seiner lab tour`: runs a short version of several experiments.

use super::{Amount, check, failure, measure};
use crate::failure::Failure;
use anyhow::Context;
use clap::Args;
use seiner_lab::align::Align;
use seiner_lab::check::{Finding, findings};
use seiner_lab::disk::Disk;
use seiner_lab::experiment::Profile;
use seiner_lab::files::Files;
use seiner_lab::job::{Job, Work};
use seiner_lab::location::StorageLocation;
use seiner_lab::machine::Machine;
use seiner_lab::report::tour::{self, TourPart};
use seiner_lab::write::{StoreKind, Write};
use seiner_lab::{Error, Interrupt, runner};
use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::time::Duration;

/// Name of the tour's own page, in the tour's directory.
const PAGE: &str = "report.html";

/// Limit of a part: this factor times its estimate, but at least `LEAST_SECONDS`.
const ALLOWANCE: f64 = 1.5;
const LEAST_SECONDS: f64 = 20.0;

/// Run check, disk, write and files in about five minutes; for root also align.
///
/// For other users than root, everything happens in one directory. For root, the write test gets a
/// new ext4 file system and 256 MiB of memory, so that the page cache cannot absorb the writes of a
/// store, and every file system that can be made on this machine is tested.
#[derive(Args)]
pub struct Tour {
    /// Directory on the disk, with 8 GiB free.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Directory of the reports: one page for the whole tour, and a directory per experiment. An
    /// interrupted tour continues there.
    #[arg(long, value_name = "DIR", default_value = "lab-tour")]
    out: PathBuf,
    /// Size of the experiments. `toy` only shows that the tour works.
    #[arg(long, value_enum, default_value = "safe")]
    profile: Amount,
}

/// Returns the time limit of a part from its estimate in seconds. Limits keep a tour near its announced length
/// on slow machines too. Short parts get a generous minimum.
fn limit(estimate: f64) -> Duration {
    Duration::from_secs_f64((estimate * ALLOWANCE).max(LEAST_SECONDS))
}

/// Jobs to run, and the experiments that cannot run, with reasons.
struct Route {
    jobs: Vec<Job>,
    left_out: Vec<(&'static str, String)>,
}

impl Tour {
    /// Runs the tour.
    pub fn run(self) -> Result<(), Failure> {
        let machine = Machine::this();
        let location = StorageLocation::find(&self.directory)
            .map_err(|error| Failure::Usage(format!("{error:#}")))?;
        let route = self.route(machine.is_root)?;
        writeln!(stdout(), "== check")?;
        check::Check::of(self.directory.clone()).run()?;
        let findings = findings(&location, machine.is_virtual);
        let interrupt = Interrupt::listen().map_err(failure)?;
        let mut parts = Vec::new();
        // Time that the earlier parts did not use.
        let mut left = Duration::ZERO;
        for job in &route.jobs {
            let name = job.work.name();
            writeln!(stdout(), "== {name}")?;
            let limit = limit(runner::estimate(job).map_err(failure)?) + left;
            let clock = crate::time::now();
            let results = measure(job, &self.out.join(name), &interrupt, Some(limit))?;
            left = limit.saturating_sub(clock.elapsed());
            parts.push(TourPart {
                results,
                page: format!("{name}/report.html"),
            });
            // If the tour ends early, the page covers the parts that ran.
            self.write(&findings, &parts, &route.left_out)?;
        }
        writeln!(stdout(), "== the page of the tour")?;
        writeln!(stdout(), "report: {}", self.out.join(PAGE).display())?;
        Ok(())
    }

    fn write(
        &self,
        findings: &[Finding],
        parts: &[TourPart],
        left_out: &[(&'static str, String)],
    ) -> Result<(), Failure> {
        let path = self.out.join(PAGE);
        std::fs::write(&path, tour::page(findings, parts, left_out))
            .with_context(|| format!("{} was not written", path.display()))?;
        Ok(())
    }

    /// Checks all jobs before anything is created.
    fn route(&self, is_root: bool) -> Result<Route, Failure> {
        let profile = self.profile.profile();
        let mut route = Route {
            jobs: Vec::new(),
            left_out: Vec::new(),
        };
        for work in self.works(profile, is_root) {
            let job = Job {
                seed: 1,
                profile,
                work,
            };
            match job.plan() {
                Ok(_) => route.jobs.push(job),
                // A tour still runs on a machine without programs that create file systems.
                Err(Error::Rejected(why)) if matches!(job.work, Work::Align(_)) => {
                    route.left_out.push((job.work.name(), why));
                }
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(route)
    }

    fn works(&self, profile: Profile, is_root: bool) -> Vec<Work> {
        let directory = || self.directory.clone();
        let mut disk = Disk::new(directory(), profile);
        let mut write = Write::new(directory(), profile);
        let mut files = Files::new(directory(), profile);
        if profile == Profile::Safe {
            disk.seconds = 1.0;
            disk.sustained_seconds = 10.0;
            write.seconds = 4.0;
            write.space_bytes = 4 << 30;
            write.sensors = vec![1, 1000, 100_000];
            write.portions = vec![4 << 10];
            // The last store is skipped when a slow machine runs out of time.
            write.stores = vec![
                StoreKind::Files,
                StoreKind::Log,
                StoreKind::Akumuli,
                StoreKind::InPlace,
            ];
            files.runs = 1;
        }
        if is_root && seiner_lab::fresh_obstacle("ext4").is_none() {
            write.fresh = Some("ext4".to_string());
            if profile != Profile::Toy {
                write.memory_bytes = 256 << 20;
            }
        }
        // For an ordinary user, the report states which further experiment root could run.
        let align = Align::new(directory(), profile);
        vec![
            Work::Disk(disk),
            Work::Write(write),
            Work::Files(files),
            Work::Align(align),
        ]
    }
}
