//! `lab trace`: block operations of a command, or of trace files from the user.

use crate::backend::Backend;
use crate::bench::Bench;
use crate::blocks::{Recorder, Statistics, blktrace, tables};
use crate::cell::{Cell, CellSettings};
use crate::error::{Error, Result, refuse};
use crate::experiment::{Experiment, ExperimentPlan, Measurements, Profile, Session, Task};
use crate::location::StorageLocation;
use crate::native::sync_file_system;
use anyhow::Context;
use seiner_chart::{Figure, plain};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Settings of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Path on the disk whose operations are counted.
    pub on: PathBuf,
    /// Command with its arguments; unused if `files` are given.
    pub command: Vec<String>,
    /// Files of blktrace to read instead of tracing a command.
    pub files: Vec<PathBuf>,
    /// Bytes that the application wrote, as stated by the user; 0 if unknown.
    pub application_bytes: u64,
}

impl Experiment for Trace {
    fn plan(&self, _profile: Profile) -> Result<ExperimentPlan> {
        let (name, location) = if self.files.is_empty() {
            let Some(program) = self.command.first() else {
                return refuse("name a command behind --, or files of blktrace by --blktrace");
            };
            let location = StorageLocation::find(&self.on)?;
            if location.device.is_none() {
                return refuse(format!(
                    "{} is on no block device; name another path by --on",
                    self.on.display()
                ));
            }
            (program.clone(), Some(location))
        } else {
            ("blktrace".to_string(), None)
        };
        let settings = CellSettings::from([("command".to_string(), json!(self.command.join(" ")))]);
        Ok(ExperimentPlan {
            tasks: vec![Task {
                name,
                settings,
                estimate_s: 1.0,
            }],
            missing: Vec::new(),
            backend: Backend::Native,
            location,
        })
    }

    fn open(&self, _seed: u64, _bench: &Bench) -> Result<Box<dyn Session>> {
        Ok(Box::new(Run(self.clone())))
    }

    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure> {
        let mut figures = tables::figures(results.cells);
        figures.extend(results.cells.iter().filter_map(tables::over_time));
        figures
    }

    fn remarks(&self, results: &Measurements<'_>) -> Vec<String> {
        let blocks = results.cells.iter().filter_map(|cell| cell.blocks.as_ref());
        blocks.map(in_words).collect()
    }
}

fn in_words(blocks: &Statistics) -> String {
    format!(
        "{} MB were written to the device and {} MB read, in {} operations{}.",
        plain(blocks.written_bytes as f64 / 1e6),
        plain(blocks.read_bytes as f64 / 1e6),
        plain(blocks.operations() as f64),
        match blocks.lost {
            0 => String::new(),
            lost => format!("; the tracer lost {lost} more, so the shares refer to the rest"),
        }
    )
}

struct Run(Trace);

impl Session for Run {
    fn run(&mut self, _task: &Task, bench: &Bench) -> Result<Cell> {
        let mut cell = Cell::default();
        let blocks = if self.0.files.is_empty() {
            self.trace(&mut cell, bench)?
        } else {
            blktrace::read(&self.0.files)?
        };
        cell.record("written MB", blocks.written_bytes as f64 / 1e6);
        cell.record("read MB", blocks.read_bytes as f64 / 1e6);
        if self.0.application_bytes > 0 {
            cell.record(
                "K_wa",
                blocks.written_bytes as f64 / self.0.application_bytes as f64,
            );
        }
        cell.blocks = Some(blocks);
        Ok(cell)
    }
}

impl Run {
    fn trace(&self, cell: &mut Cell, bench: &Bench) -> Result<Statistics> {
        let location = StorageLocation::find(&self.0.on)?;
        let device = location.device.context("the device disappeared")?;
        // Writes back the page cache first, so that earlier writes of other programs are not
        // counted.
        sync_file_system(&self.0.on)?;
        let recorder = Recorder::start(&device, &bench.registry);
        if let Some(why) = &recorder.without_types {
            cell.notes.push(format!(
                "Types are not known: {why}. The device's counters were used."
            ));
        }
        let start = crate::time::now();
        let mut child = Command::new(&self.0.command[0])
            .args(&self.0.command[1..])
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("{} did not start", self.0.command[0]))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if bench.interrupt.is_set() {
                child.kill()?;
                child.wait()?;
                return Err(Error::Interrupted);
            }
            crate::time::sleep(Duration::from_millis(20));
        };
        cell.record("seconds", start.elapsed().as_secs_f64());
        sync_file_system(&self.0.on)?;
        cell.record(
            "seconds with the sync behind",
            start.elapsed().as_secs_f64(),
        );
        if !status.success() {
            cell.notes.push(format!("The command ended with {status}."));
        }
        cell.notes.push(format!(
            "The counts include the operations of other programs on {}.",
            device.name
        ));
        Ok(recorder.finish())
    }
}
