//! The load by processes instead of threads. Each process runs this program for a part of the
//! sensors. It receives its phases over standard input. Only stores that keep nothing in memory
//! support this load.

use super::drive::{Drive, Phase};
use super::stores::Files;
use super::{Write, drive::WriteLoad};
use crate::error::{Error, Result, refuse};
use crate::interrupt::Interrupt;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// First message to a writing process.
#[derive(Serialize, Deserialize)]
struct Part {
    settings: Write,
    /// Number of all sensors, from which the size of a file at rotation follows.
    sensors: u64,
    /// First sensor of this process.
    first: u64,
    count: u64,
    portion: u64,
    seed: u64,
    directories: Vec<PathBuf>,
}

/// A phase for a writing process.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct PhaseOrder {
    seconds: f64,
    least: u64,
    most: u64,
    rate: Option<f64>,
}

/// Writing processes.
pub struct WorkerPool(std::sync::Mutex<Vec<Worker>>);

struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl WorkerPool {
    /// Starts the processes. The files of the sensors must exist.
    ///
    /// # Errors
    /// A process does not start.
    pub fn start(
        settings: &Write,
        sensors: u64,
        portion: u64,
        seed: u64,
        directories: &[PathBuf],
    ) -> Result<WorkerPool> {
        let processes = settings.writers.min(sensors);
        let bound = |number: u64| sensors * number / processes;
        let workers = (0..processes).map(|number| {
            let part = Part {
                settings: settings.clone(),
                sensors,
                first: bound(number),
                count: bound(number + 1) - bound(number),
                portion,
                seed: seed ^ number << 32,
                directories: directories.to_vec(),
            };
            Worker::start(&part)
        });
        Ok(WorkerPool(workers.collect::<Result<Vec<_>>>()?.into()))
    }
}

impl WriteLoad for WorkerPool {
    fn run(
        &self,
        duration: Duration,
        least: u64,
        most: u64,
        rate: Option<f64>,
        interrupt: &Interrupt,
    ) -> Result<Phase> {
        let mut workers = self
            .0
            .lock()
            .expect("no thread panics while it holds the pool");
        let share = workers.len() as u64;
        let order = PhaseOrder {
            seconds: duration.as_secs_f64(),
            least: least.div_ceil(share),
            most: most / share,
            rate: rate.map(|rate| rate / share as f64),
        };
        for worker in workers.iter_mut() {
            put(&mut worker.orders, &order)?;
        }
        let mut phases = Vec::new();
        for worker in workers.iter_mut() {
            let mut line = String::new();
            worker.answers.read_line(&mut line)?;
            interrupt.check()?;
            let phase: Phase = serde_json::from_str(&line)
                .map_err(|_| anyhow!("a writing process ended during a phase"))?;
            phases.push(phase);
        }
        Ok(sum_of(&phases))
    }
}

impl Worker {
    fn start(part: &Part) -> Result<Worker> {
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let mut child = Command::new(program)
            .args(["lab", "writer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a writing process did not start")?;
        let mut orders = child.stdin.take().expect("the pipe was requested");
        let answers = BufReader::new(child.stdout.take().expect("the pipe was requested"));
        put(&mut orders, part)?;
        Ok(Worker {
            child,
            orders,
            answers,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A process in the middle of a phase is killed, so that the drop does not wait for the
        // phase.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn put(out: &mut impl std::io::Write, what: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(what).map_err(std::io::Error::from)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()?;
    Ok(())
}

/// Returns the sum of phases that ran at the same time. The 99th percentile is the largest one.
fn sum_of(phases: &[Phase]) -> Phase {
    let points = phases.iter().map(|phase| phase.rates.len()).min();
    let rate = |point: usize| {
        let second = phases[0].rates[point].0;
        (
            second,
            phases.iter().map(|phase| phase.rates[point].1).sum(),
        )
    };
    Phase {
        bytes: phases.iter().map(|phase| phase.bytes).sum(),
        took: phases
            .iter()
            .map(|phase| phase.took)
            .max()
            .unwrap_or_default(),
        rates: (0..points.unwrap_or(0)).map(rate).collect(),
        p99_ms: phases.iter().map(|phase| phase.p99_ms).fold(0.0, f64::max),
    }
}

/// Runs as a writing process: measures a phase for each line of standard input until its end.
///
/// # Errors
/// [`Error::Rejected`] if the process was not started by the lab; or the store fails.
pub fn work() -> Result<()> {
    let mut lines = std::io::stdin().lines();
    let first = lines.next().transpose()?;
    let Some(Ok(part)) = first.map(|line| serde_json::from_str::<Part>(&line)) else {
        return refuse("only `lab write --processes` starts `lab writer`");
    };
    let files = Files::there(
        &part.settings,
        part.sensors,
        part.portion,
        &part.directories,
    );
    let drive = Drive::part(&files, part.first, part.count, part.seed, part.portion);
    for line in lines {
        let order: PhaseOrder = serde_json::from_str(&line?)
            .map_err(|error| Error::Failed(anyhow!("a phase cannot be parsed: {error}")))?;
        let phase = drive.run(
            Duration::from_secs_f64(order.seconds),
            order.least,
            order.most,
            order.rate,
            &Interrupt::default(),
        )?;
        put(&mut std::io::stdout(), &phase)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_several_workers_are_added() {
        let phase = |bytes: u64, rates: &[f64], p99_ms: f64| Phase {
            bytes,
            took: Duration::from_secs(bytes),
            rates: (0u32..)
                .zip(rates)
                .map(|(second, rate)| (f64::from(second), *rate))
                .collect(),
            p99_ms,
        };
        let sum = sum_of(&[
            phase(1, &[1.0, 2.0, 3.0], 5.0),
            phase(2, &[10.0, 20.0], 4.0),
        ]);
        assert_eq!((sum.bytes, sum.took.as_secs(), sum.p99_ms), (3, 2, 5.0));
        assert_eq!(sum.rates, [(0.0, 11.0), (1.0, 22.0)]);
    }
}
