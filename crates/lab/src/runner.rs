//! Runs a job cell by cell, with a progress bar, into a directory in which the run can be
//! continued.
//!
//! Invariant: a cell is in `cells.jsonl` as soon as it is measured. If the run is interrupted or
//! killed, the same job in the same directory continues after the last cell.

use crate::backend::Backend;
use crate::bench::Bench;
use crate::cell::{Cell, Missing};
use crate::error::{Error, Result, refuse};
use crate::experiment::{ExperimentPlan, Session, Task};
use crate::guest;
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::machine::{self, Machine};
use crate::registry::{Registry, state_directory};
use crate::report;
use crate::results::{Results, VERSION};
use anyhow::Context;
use seiner_chart::about;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Runs a job into a directory. The directory must be missing, empty, or contain a part of the same
/// run.
///
/// # Errors
/// [`Error::Rejected`] before anything is created, [`Error::Interrupted`], or the error of the
/// operation that failed. Measured cells are kept in all cases.
pub fn run(job: &Job, directory: &Path, interrupt: &Interrupt) -> Result<Results> {
    run_within(job, directory, interrupt, None)
}

/// Returns the expected duration of a job, s.
///
/// # Errors
/// [`Error::Rejected`] if a request cannot be carried out at all.
pub fn estimate(job: &Job) -> Result<f64> {
    Ok(job.plan()?.estimate_s())
}

/// Runs a job like [`run`], for at most `limit`. If there is no time for a cell, the results list the cell as missing.
/// A later run of the same job into the same directory measures the missing cells.
///
/// # Errors
/// Those of [`run`].
pub fn run_within(
    job: &Job,
    directory: &Path,
    interrupt: &Interrupt,
    limit: Option<Duration>,
) -> Result<Results> {
    let mut plan = job.plan()?;
    let done = begin(job, directory)?;
    let registry = Registry::open(&state_directory()?)?;
    let interrupt = interrupt.until(limit.map(|limit| crate::time::now() + limit));
    let bench = Bench::visible(registry, interrupt, plan.estimate_s());
    let started = match done.first() {
        Some(cell) => cell.started.clone(),
        None => crate::time::timestamp().to_string(),
    };
    let mut late = Vec::new();
    let ended = measure(job, &plan, done, directory, &bench, &mut late);
    bench.finish();
    let (cells, ending) = ended?;
    plan.missing.extend(late);
    let results = Results {
        version: VERSION,
        job: job.clone(),
        backend: plan.backend,
        program: concat!("seiner ", env!("CARGO_PKG_VERSION")).to_string(),
        machine: Machine::this(),
        location: plan.location,
        started,
        cells,
        missing: plan.missing,
    };
    report::write(&results, directory)?;
    ending.map(|()| results)
}

/// Measures the cells that are not in `done`. Returns all cells, and the error that ended the run
/// early, if any.
fn measure(
    job: &Job,
    plan: &ExperimentPlan,
    done: Vec<Cell>,
    directory: &Path,
    bench: &Bench,
    late: &mut Vec<Missing>,
) -> Result<(Vec<Cell>, Result<()>)> {
    let left: Vec<&Task> = plan
        .tasks
        .iter()
        .filter(|task| done.iter().all(|cell| cell.name != task.name))
        .collect();
    let mut cells = done;
    if left.is_empty() {
        return Ok((cells, Ok(())));
    }
    let seconds: f64 = left.iter().map(|task| task.estimate_s).sum();
    bench.print(&format!(
        "{} of {} cells to measure, about {}; into {}",
        left.len(),
        plan.tasks.len(),
        about(seconds),
        directory.display()
    ));
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("cells.jsonl"))?;
    let opened: Result<Box<dyn Session>> = match plan.backend {
        Backend::Guest => guest::Session::open(job, bench).map(|session| Box::new(session) as _),
        _ => job.open(bench),
    };
    let mut session = match opened {
        Err(Error::Interrupted) if bench.interrupt.is_late() => {
            late.extend(left.iter().map(|task| left_out(task, directory)));
            return Ok((cells, Ok(())));
        }
        opened => opened?,
    };
    let clock = crate::time::now();
    let mut estimated = 0.0;
    let skipped = plan.estimate_s() - seconds;
    let mut passed = skipped;
    bench.begin();
    for task in left {
        // Factor by which the machine is slower than estimated, from the cells so far.
        let pace = (clock.elapsed().as_secs_f64() / f64::max(estimated, 1e-3)).max(1.0);
        let wanted = Duration::from_secs_f64(task.estimate_s * pace);
        if estimated > 0.0 && !bench.interrupt.has(wanted) {
            late.push(left_out(task, directory));
            continue;
        }
        match measure_one(task, &mut *session, bench, passed) {
            Ok(cell) => {
                keep(&mut file, &cell)?;
                cells.push(cell);
            }
            Err(Error::Interrupted) if bench.interrupt.is_late() => {
                late.push(left_out(task, directory));
            }
            Err(error) => return Ok((cells, Err(error))),
        }
        passed += task.estimate_s;
        estimated += task.estimate_s;
    }
    Ok((cells, Ok(())))
}

fn left_out(task: &Task, directory: &Path) -> Missing {
    Missing {
        name: task.name.clone(),
        why: format!(
            "left out, because the machine is slower than estimated and the time was up; `seiner lab run {}` measures it",
            directory.display()
        ),
    }
}

fn measure_one(task: &Task, session: &mut dyn Session, bench: &Bench, passed: f64) -> Result<Cell> {
    bench.interrupt.check()?;
    bench.advance(passed);
    bench.say(task.name.clone());
    let (started, load, clock) = (
        crate::time::timestamp(),
        machine::load(),
        crate::time::now(),
    );
    let mut cell = session.run(task, bench).map_err(|error| match error {
        Error::Failed(error) => Error::Failed(error.context(format!("the cell {:?}", task.name))),
        other => other,
    })?;
    cell.name = task.name.clone();
    let mut settings = task.settings.clone();
    settings.append(&mut cell.settings);
    cell.settings = settings;
    cell.started = started.to_string();
    cell.took_s = clock.elapsed().as_secs_f64();
    cell.load = load;
    Ok(cell)
}

fn keep(file: &mut File, cell: &Cell) -> Result<()> {
    let mut line = serde_json::to_vec(cell).map_err(std::io::Error::from)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(())
}

/// Creates the directory, or reads the cells that a part of the same run stored in it.
fn begin(job: &Job, directory: &Path) -> Result<Vec<Cell>> {
    let described = directory.join("job.toml");
    if described.exists() {
        let other = Job::read(&described)?;
        if other != *job {
            return refuse(format!(
                "{} contains a run with other settings; choose another directory by --out",
                directory.display()
            ));
        }
        let text = fs::read_to_string(directory.join("cells.jsonl")).unwrap_or_default();
        // A torn last line is left out, so its cell is measured again.
        return Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect());
    }
    if fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
        return refuse(format!(
            "{} is not empty and contains no run; choose another directory by --out",
            directory.display()
        ));
    }
    fs::create_dir_all(directory)
        .with_context(|| format!("{} was not made", directory.display()))?;
    fs::write(&described, job.to_toml())
        .with_context(|| format!("{} was not written", described.display()))?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::experiment::Profile;
    use crate::job::Work;

    /// Regression: a part of a tour took four times its estimate on a slow machine.
    #[test]
    fn cells_for_which_there_is_no_time_are_left_out_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job {
            seed: 1,
            profile: Profile::Toy,
            work: Work::Disk(Disk::new(dir.path().to_owned(), Profile::Toy)),
        };
        let plan = job.plan().unwrap();
        let registry = Registry::open(&dir.path().join("state")).unwrap();
        let bench = Bench::silent(
            registry,
            Interrupt::default().until(Some(crate::time::now())),
        );
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let mut late = Vec::new();
        let (cells, ended) = measure(&job, &plan, Vec::new(), &out, &bench, &mut late).unwrap();
        assert!(ended.is_ok() && cells.is_empty());
        assert_eq!(late.len(), plan.tasks.len());
        assert!(late[0].why.contains("the time was up"), "{}", late[0].why);
        // A signal still ends the run.
        bench.interrupt.set();
        let ended = measure(&job, &plan, Vec::new(), &out, &bench, &mut late);
        assert!(matches!(
            ended,
            Err(Error::Interrupted) | Ok((_, Err(Error::Interrupted)))
        ));
        // A run with enough time is not late.
        let ample = Interrupt::default().until(Some(crate::time::now() + Duration::from_secs(600)));
        assert!(ample.has(Duration::from_secs(60)) && !ample.has(Duration::from_secs(6000)));
        assert!(!ample.is_set());
    }
}
