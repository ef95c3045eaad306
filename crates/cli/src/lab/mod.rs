//! `seiner lab`: the papers' experiments on the user's own disks. Each experiment has its own file.

mod align;
mod check;
mod disk;
mod files;
mod guest;
mod inside;
mod merge;
mod report;
mod run;
mod tidy;
mod tour;
mod trace;
mod write;
mod writer;

use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use seiner_lab::experiment::Profile;
use seiner_lab::job::{Job, Work};
use seiner_lab::results::Results;
use seiner_lab::{Error, Interrupt, runner};
pub use seiner_plan::form::{bytes, count};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

/// Measure disks, file systems and stores the way the papers did.
///
/// Every experiment writes a directory: job.toml (what was run; `lab run` repeats or continues it),
/// results.json, results.csv, lines.csv and report.html, a page to look at. What an experiment creates
/// besides is gone when it ends, however it ends.
#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Tell what a disk is and how it is used, without rights and without writing.
    Check(check::Check),
    /// Measure a disk: sequential, random, by size and depth; syncs; a long write.
    Disk(disk::Disk),
    /// Write very many sensors by several stores under the same load.
    Write(write::Write),
    /// Time what people do with files, by file system.
    Files(files::Files),
    /// Measure what an unaligned partition costs, by file system (root).
    Align(align::Align),
    /// Overwrite a small store for long, and count what merging writes, by V, R, B and policy.
    Merge(merge::Merge),
    /// Count the block operations of a command, or of blktrace's files.
    Trace(trace::Trace),
    /// Look around in about five minutes: check, disk, write, files; as root align as well.
    Tour(tour::Tour),
    /// Prepare the emulated machine for file systems that this kernel lacks, and for users without rights.
    Guest(guest::Guest),
    /// What `lab write --processes` starts.
    #[command(hide = true)]
    Writer(writer::Writer),
    /// What the first process of a guest runs.
    #[command(hide = true)]
    Inside(inside::Inside),
    /// Run a saved job, or continue the run in a directory.
    Run(run::Run),
    /// Write the page of a run again, or compare two runs.
    Report(report::Report),
    /// Remove what runs left that were killed.
    Tidy(tidy::Tidy),
}

impl Lab {
    /// Runs the experiment.
    pub fn run(self) -> Result<(), Failure> {
        match self.experiment {
            Experiment::Check(check) => check.run(),
            Experiment::Disk(disk) => disk.run(),
            Experiment::Write(write) => write.run(),
            Experiment::Files(files) => files.run(),
            Experiment::Align(align) => align.run(),
            Experiment::Merge(merge) => merge.run(),
            Experiment::Trace(trace) => trace.run(),
            Experiment::Tour(tour) => tour.run(),
            Experiment::Guest(guest) => guest.run(),
            Experiment::Writer(writer) => writer.run(),
            Experiment::Inside(inside) => inside.run(),
            Experiment::Run(run) => run.run(),
            Experiment::Report(report) => report.run(),
            Experiment::Tidy(tidy) => tidy.run(),
        }
    }
}

// Settings of every experiment. Not a doc comment: the help of a command that flattens these flags
// would show it.
#[derive(Args)]
struct Common {
    /// How much is run: seconds, minutes, or what the papers ran (hours).
    #[arg(long, value_enum, default_value = "safe")]
    profile: Amount,
    /// What all randomness comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The directory of the run, made where it is missing; one that holds a part of the same run is
    /// continued. Named after the experiment and the time if not given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only write job.toml, to be changed and run by `lab run`.
    #[arg(long)]
    save_job: bool,
}

/// By what means.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Means {
    /// This kernel.
    Native,
    /// Another kernel in an emulated machine (`lab guest` prepares it): any file system, any user.
    Guest,
}

/// How much is run.
#[derive(Clone, Copy, ValueEnum)]
enum Amount {
    /// Seconds: shows that it works, and nothing else.
    Toy,
    /// Minutes, and a few GiB at most.
    Safe,
    /// The papers' grids: hours.
    Full,
}

impl Amount {
    fn profile(self) -> Profile {
        match self {
            Amount::Toy => Profile::Toy,
            Amount::Safe => Profile::Safe,
            Amount::Full => Profile::Full,
        }
    }
}

impl Common {
    /// Runs an experiment, or saves its job.
    fn run(self, work: Work) -> Result<(), Failure> {
        let job = Job {
            seed: self.seed,
            profile: self.profile.profile(),
            work,
        };
        let directory = self.out.unwrap_or_else(|| named(&job));
        if self.save_job {
            std::fs::create_dir_all(&directory)?;
            let path = directory.join("job.toml");
            std::fs::write(&path, job.to_toml())?;
            writeln!(
                stdout(),
                "{} is written; `seiner lab run {}` runs it",
                path.display(),
                directory.display()
            )?;
            return Ok(());
        }
        let interrupt = Interrupt::listen().map_err(failure)?;
        measure(&job, &directory, &interrupt, None).map(drop)
    }
}

/// Returns the directory of a run, named after the experiment and the time.
fn named(job: &Job) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    PathBuf::from(format!("lab-{}-{now}", job.work.name()))
}

/// Runs a job and prints its results.
fn measure(
    job: &Job,
    directory: &std::path::Path,
    interrupt: &Interrupt,
    limit: Option<Duration>,
) -> Result<Results, Failure> {
    let results = runner::run_within(job, directory, interrupt, limit);
    let results = results.map_err(|error| match error {
        Error::Interrupted => {
            eprintln!(
                "seiner: interrupted; what was measured is kept, `seiner lab run {}` continues",
                directory.display()
            );
            Failure::Refused
        }
        other => failure(other),
    })?;
    for remark in results.remarks() {
        writeln!(stdout(), "{remark}")?;
    }
    for missing in &results.missing {
        writeln!(stdout(), "not measured: {}: {}", missing.name, missing.why)?;
    }
    writeln!(
        stdout(),
        "report: {}",
        directory.join("report.html").display()
    )?;
    Ok(results)
}

/// Converts an error of the lab: a refusal becomes a usage error.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Refused(reason) => Failure::Usage(reason),
        Error::Interrupted => Failure::Refused,
        Error::Failed(error) => Failure::Failed(error),
    }
}
