//! Runs a job: cell by cell, with a progress bar, into a directory where it can be continued.
//!
//! Invariant: a cell is in `cells.jsonl` as soon as it is measured. A run that was interrupted, killed
//! or cut off continues behind the last cell when the same job is run into the same directory.

use crate::error::{Error, Result, refuse};
use crate::guest;
use crate::interrupt::Interrupt;
use crate::job::{Job, Plan, Session, Task};
use crate::machine::{self, Machine};
use crate::registry::{Registry, state_directory};
use crate::results::{Backend, Cell, Results, VERSION};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::{self, File, OpenOptions};
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ticks of the progress bar in an estimated second.
const TICKS: f64 = 10.0;

/// What an experiment needs from outside.
pub struct Bench {
    /// Where it writes down what it creates.
    pub registry: Arc<Registry>,
    /// Whether the user wants to stop.
    pub interrupt: Interrupt,
    bar: ProgressBar,
}

impl Bench {
    /// A bench that shows no progress.
    pub fn silent(registry: Arc<Registry>, interrupt: Interrupt) -> Bench {
        Bench {
            registry,
            interrupt,
            bar: ProgressBar::hidden(),
        }
    }

    /// Says what is being done now.
    pub fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Tells something that the user should read even after the bar is gone.
    pub fn tell(&self, what: &str) {
        if self.bar.is_hidden() {
            eprintln!("{what}");
        } else {
            self.bar.println(what);
        }
    }

    /// Waits, unless it is time to stop.
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

/// Runs a job into a directory, which must be empty, missing, or hold a part of the same run.
///
/// # Errors
/// A refusal before anything is created, an interruption, or what failed. Cells that were measured
/// are kept in any case.
pub fn run(job: &Job, directory: &Path, interrupt: &Interrupt) -> Result<Results> {
    let plan = job.work.experiment().plan(job)?.paced();
    let done = begin(job, directory)?;
    let registry = Registry::open(&state_directory()?)?;
    let bench = Bench {
        registry,
        interrupt: interrupt.clone(),
        bar: bar(&plan.tasks),
    };
    let started = match done.first() {
        Some(cell) => cell.started.clone(),
        None => jiff::Timestamp::now().to_string(),
    };
    let ended = measure(job, &plan, done, directory, &bench);
    bench.bar.finish_and_clear();
    let (cells, ending) = ended?;
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

/// Measures what is not done yet. Answers all cells, and how it ended.
fn measure(
    job: &Job,
    plan: &Plan,
    done: Vec<Cell>,
    directory: &Path,
    bench: &Bench,
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
    let mut session: Box<dyn Session> = match plan.backend {
        Backend::Guest => Box::new(guest::Session::open(job, bench)?),
        _ => job.work.experiment().open(job, bench)?,
    };
    let skipped: f64 = plan.tasks.iter().map(|task| task.estimate_s).sum::<f64>() - seconds;
    let mut passed = skipped;
    bench.bar.reset_eta();
    for task in left {
        match measure_one(task, &mut *session, bench, passed) {
            Ok(cell) => {
                keep(&mut file, &cell)?;
                cells.push(cell);
            }
            Err(error) => return Ok((cells, Err(error))),
        }
        passed += task.estimate_s;
    }
    Ok((cells, Ok(())))
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

/// Makes the directory, or reads what a part of the same run left there.
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
        // A torn last line is a cell to be measured again.
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

/// A duration for people.
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

    #[test]
    fn durations_for_people() {
        assert_eq!(about(12.2), "12 s");
        assert_eq!(about(600.0), "10 min");
        assert_eq!(about(9000.0), "2.5 h");
    }
}
