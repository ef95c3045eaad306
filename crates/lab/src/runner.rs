//! Runs a job cell by cell, with a progress bar, into a directory in which the run can be
//! continued.
//!
//! Invariant: a cell is in `cells.jsonl` as soon as it is measured. If the run is interrupted or
//! killed, the same job in the same directory continues after the last cell.

use crate::course::{self, Course};
use crate::error::{Error, Result, refuse};
use crate::guest;
use crate::interrupt::Interrupt;
use crate::job::{Job, Plan, Session, Task};
use crate::machine::{self, Machine};
use crate::registry::{Registry, state_directory};
use crate::results::{Backend, Cell, Missing, Results, VERSION};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::{self, File, OpenOptions};
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ticks of the progress bar per estimated second.
const TICKS: f64 = 10.0;

/// Services that an experiment uses while it runs.
pub struct Bench {
    /// Record of created resources.
    pub registry: Arc<Registry>,
    /// Flag that the user sets to stop the run.
    pub interrupt: Interrupt,
    bar: ProgressBar,
    /// Lines of progress in place of the bar.
    course: Option<Course>,
}

impl Bench {
    /// Returns a bench without a progress bar.
    pub fn silent(registry: Arc<Registry>, interrupt: Interrupt) -> Bench {
        Bench {
            registry,
            interrupt,
            bar: ProgressBar::hidden(),
            course: None,
        }
    }

    /// Shows the current activity in the progress bar.
    pub fn say(&self, what: impl Into<String>) {
        let what = what.into();
        if let Some(course) = &self.course {
            course.say(&what);
        }
        self.bar.set_message(what);
    }

    /// Prints a line that stays visible after the progress bar is gone.
    pub fn tell(&self, what: &str) {
        if self.bar.is_hidden() {
            eprintln!("{what}");
        } else {
            self.bar.println(what);
        }
    }

    /// Sleeps for a duration, or until the user stops the run.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn sleep(&self, how_long: Duration) -> Result<()> {
        let end = Instant::now() + how_long;
        loop {
            self.interrupt.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// Runs a job into a directory. The directory must be missing, empty, or contain a part of the same
/// run.
///
/// # Errors
/// [`Error::Refused`] before anything is created, [`Error::Interrupted`], or the error of the
/// operation that failed. Measured cells are kept in all cases.
pub fn run(job: &Job, directory: &Path, interrupt: &Interrupt) -> Result<Results> {
    run_within(job, directory, interrupt, None)
}

/// Estimate of what a job takes, seconds.
///
/// # Errors
/// A refusal.
pub fn estimate(job: &Job) -> Result<f64> {
    let plan = job.work.experiment().plan(job)?.paced();
    Ok(plan.tasks.iter().map(|task| task.estimate_s).sum())
}

/// Runs a job as [`run`] does, for no longer than `limit`. Cells for which there is no time are among the missing
/// ones of the results; the same job run into the same directory measures them.
///
/// # Errors
/// As [`run`].
pub fn run_within(
    job: &Job,
    directory: &Path,
    interrupt: &Interrupt,
    limit: Option<Duration>,
) -> Result<Results> {
    let mut plan = job.work.experiment().plan(job)?.paced();
    let done = begin(job, directory)?;
    let registry = Registry::open(&state_directory()?)?;
    let bench = Bench {
        registry,
        interrupt: interrupt.until(limit.map(|limit| Instant::now() + limit)),
        bar: bar(&plan.tasks),
        course: course(&plan.tasks),
    };
    let started = match done.first() {
        Some(cell) => cell.started.clone(),
        None => jiff::Timestamp::now().to_string(),
    };
    let mut late = Vec::new();
    let ended = measure(job, &plan, done, directory, &bench, &mut late);
    bench.bar.finish_and_clear();
    let (cells, ending) = ended?;
    plan.missing.extend(late);
    let results = Results {
        version: VERSION,
        job: job.clone(),
        backend: plan.backend,
        program: concat!("seiner ", env!("CARGO_PKG_VERSION")).to_string(),
        machine: Machine::this(),
        place: plan.place,
        started,
        cells,
        missing: plan.missing,
    };
    results.write(directory)?;
    ending.map(|()| results)
}

/// Measures the cells that are not in `done`. Returns all cells, and the error that ended the run
/// early, if any.
fn measure(
    job: &Job,
    plan: &Plan,
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
    bench.tell(&format!(
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
        _ => job.work.experiment().open(job, bench),
    };
    let mut session = match opened {
        Err(Error::Interrupted) if bench.interrupt.is_late() => {
            late.extend(left.iter().map(|task| left_out(task, directory)));
            return Ok((cells, Ok(())));
        }
        opened => opened?,
    };
    let clock = Instant::now();
    let mut estimated = 0.0;
    let skipped: f64 = plan.tasks.iter().map(|task| task.estimate_s).sum::<f64>() - seconds;
    let mut passed = skipped;
    bench.bar.reset_eta();
    for task in left {
        // As slow as it was so far; the first cell shows how slow that is.
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
            "left out, as the machine is slower than estimated and the time was up; `seiner lab run {}` measures it",
            directory.display()
        ),
    }
}

fn measure_one(task: &Task, session: &mut dyn Session, bench: &Bench, passed: f64) -> Result<Cell> {
    bench.interrupt.check()?;
    bench.bar.set_position((passed * TICKS) as u64);
    bench.say(task.name.clone());
    let (started, load, clock) = (jiff::Timestamp::now(), machine::load(), Instant::now());
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

/// Makes the directory, or reads the cells that a part of the same run left in it.
fn begin(job: &Job, directory: &Path) -> Result<Vec<Cell>> {
    let described = directory.join("job.toml");
    if described.exists() {
        let other = Job::read(&described)?;
        if other != *job {
            return refuse(format!(
                "{} holds a run with other settings; choose another directory by --out",
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
            "{} is not empty and holds no run; choose another directory by --out",
            directory.display()
        ));
    }
    fs::create_dir_all(directory)
        .with_context(|| format!("{} was not made", directory.display()))?;
    fs::write(&described, job.to_toml())
        .with_context(|| format!("{} was not written", described.display()))?;
    Ok(Vec::new())
}

/// Lines where there is no bar.
fn course(tasks: &[Task]) -> Option<Course> {
    let seconds = tasks.iter().map(|task| task.estimate_s).sum();
    let write = |line: &str| eprintln!("{line}");
    (!stderr().is_terminal()).then(|| Course::begin(seconds, course::EVERY, write))
}

fn bar(tasks: &[Task]) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let seconds: f64 = tasks.iter().map(|task| task.estimate_s).sum();
    let bar = ProgressBar::new((seconds * TICKS) as u64);
    let style = ProgressStyle::with_template("{bar:30} {percent}% {eta} left  {wide_msg}")
        .expect("the template is a constant");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns a duration as text for people.
pub fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::job::{Profile, Work};

    /// A part of a tour took as long as the machine was slow: four times its estimate.
    #[test]
    fn cells_for_which_there_is_no_time_are_left_out_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job {
            seed: 1,
            profile: Profile::Toy,
            work: Work::Disk(Disk::new(dir.path().to_owned(), Profile::Toy)),
        };
        let plan = job.work.experiment().plan(&job).unwrap();
        let registry = Registry::open(&dir.path().join("state")).unwrap();
        let bench = Bench::silent(registry, Interrupt::default().until(Some(Instant::now())));
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let mut late = Vec::new();
        let (cells, ended) = measure(&job, &plan, Vec::new(), &out, &bench, &mut late).unwrap();
        assert!(ended.is_ok() && cells.is_empty());
        assert_eq!(late.len(), plan.tasks.len());
        assert!(late[0].why.contains("the time was up"), "{}", late[0].why);
        // A signal ends the run as ever.
        bench.interrupt.set();
        let ended = measure(&job, &plan, Vec::new(), &out, &bench, &mut late);
        assert!(matches!(
            ended,
            Err(Error::Interrupted) | Ok((_, Err(Error::Interrupted)))
        ));
        // One who has time enough is not late.
        let ample = Interrupt::default().until(Some(Instant::now() + Duration::from_secs(600)));
        assert!(ample.has(Duration::from_secs(60)) && !ample.has(Duration::from_secs(6000)));
        assert!(!ample.is_set());
    }

    #[test]
    fn durations_for_people() {
        assert_eq!(about(12.2), "12 s");
        assert_eq!(about(600.0), "10 min");
        assert_eq!(about(9000.0), "2.5 h");
    }
}
