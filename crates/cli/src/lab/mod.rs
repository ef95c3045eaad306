//! `seiner lab`: the papers' experiments on the user's own disks. Each experiment has its own file.

mod align;
mod check;
mod cleanup;
mod disk;
mod files;
mod guest;
mod inside;
mod merge;
mod report;
mod run;
mod tour;
mod trace;
mod write;
mod writer;

use crate::failure::Failure;
use crate::lab_failure::failure;
use clap::{Args, Subcommand, ValueEnum};
use seiner_lab::experiment::Profile;
use seiner_lab::job::{Job, Work};
use seiner_lab::results::Results;
use seiner_lab::{Error, Interrupt, runner};
use seiner_model::{parse_bytes as bytes, parse_count as count};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

/// Measure disks, file systems and stores with the papers' experiments.
///
/// Every experiment writes a directory: job.toml (settings and seed; `lab run` repeats or continues
/// the run), results.json, results.csv, lines.csv and the page report.html. All other resources of
/// an experiment are removed at its end, even if it fails or is interrupted.
#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

// The help of each subcommand is the doc comment of its flags. A comment here would replace it.
#[derive(Subcommand)]
enum Experiment {
    Check(check::Check),
    Disk(disk::Disk),
    Write(write::Write),
    Files(files::Files),
    Align(align::Align),
    Merge(merge::Merge),
    Trace(trace::Trace),
    Tour(tour::Tour),
    Guest(guest::Guest),
    #[command(hide = true)]
    Writer(writer::Writer),
    #[command(hide = true)]
    Inside(inside::Inside),
    Run(run::Run),
    Report(report::Report),
    #[command(alias = "tidy")]
    Cleanup(cleanup::Cleanup),
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
            Experiment::Cleanup(cleanup) => cleanup.run(),
        }
    }
}

// Settings of every experiment. Not a doc comment: the help of a command that flattens these flags
// would show it.
#[derive(Args)]
struct Common {
    /// Size of the experiment. A larger one takes longer and gives more reliable figures.
    #[arg(long, value_enum, default_value = "safe")]
    profile: Amount,
    /// Seed of all pseudo-random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory of the run, created if it is missing. If it contains a part of the same run, that
    /// run continues [default: named after the experiment and the time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only write job.toml, to be edited and run by `lab run`.
    #[arg(long)]
    save_job: bool,
}

/// Kernel that is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Means {
    /// Kernel of this machine.
    Native,
    /// Another kernel in an emulated machine (`lab guest` prepares it), with every file system and
    /// for every user. Slower, and its figures are not those of this disk.
    Guest,
}

/// Size of the experiment.
#[derive(Clone, Copy, ValueEnum)]
enum Amount {
    /// Takes seconds. Only shows that the experiment runs; its figures mean nothing.
    Toy,
    /// Takes minutes, and a few GiB at most.
    Safe,
    /// Takes hours: the papers' grids.
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
    let now = crate::time::timestamp()
        .strftime("%Y%m%d-%H%M%S")
        .to_string();
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
                "seiner: interrupted; the measurements so far are kept, and `seiner lab run {}` continues",
                directory.display()
            );
            Failure::Rejected
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
