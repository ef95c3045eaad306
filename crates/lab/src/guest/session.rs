//! Runs of jobs in guests.

use super::archive::Archive;
use super::description::{Guest, directory};
use super::inside::{self, GuestTask};
use super::machine::{Answer, Boot};
use super::modules;
use crate::bench::Bench;
use crate::cell::Cell;
use crate::error::{Result, refuse};
use crate::experiment::{self, GuestNeeds, Task};
use crate::interrupt::Interrupt;
use crate::job::Job;
use crate::native::ResourceGuards;
use crate::registry::Registry;
use anyhow::{Context, anyhow};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of memory for the kernel, this program and the page cache, in addition to the needs of a job.
const BASE_MEMORY: u64 = 768 << 20;
/// Maximum processor time of a guest, as a multiple of the estimate, in addition to 300 s.
const PATIENCE: f64 = 6.0;

/// Archive of a run: a base that all cells share, followed by the order of one cell.
struct Image {
    path: PathBuf,
    base_bytes: u64,
}

impl Image {
    fn make(guest: &Guest, tree: &Path) -> Result<Image> {
        let path = tree.join("archive");
        let mut archive = Archive::new(BufWriter::new(File::create(&path)?));
        archive.tree(&guest.root())?;
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        archive.file(Path::new("/init"), &fs::read(&program)?, true)?;
        for library in modules::libraries(&program, &[])? {
            let is_there = guest
                .root()
                .join(library.strip_prefix("/").unwrap_or(&library));
            if !is_there.exists() {
                archive.file(&library, &fs::read(&library)?, true)?;
            }
        }
        let base_bytes = archive.finish()?;
        Ok(Image { path, base_bytes })
    }

    fn put(&self, order: &GuestTask) -> Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(self.base_bytes)?;
        file.seek(SeekFrom::End(0))?;
        let mut archive = Archive::new(BufWriter::new(file));
        let text = serde_json::to_vec(order).map_err(std::io::Error::from)?;
        archive.file(Path::new(inside::ORDER), &text, false)?;
        archive.finish()?;
        Ok(())
    }
}

/// A run whose cells are measured in guests, each in a machine of its own.
pub struct Session {
    guest: Guest,
    job: Job,
    needs: GuestNeeds,
    image: Image,
    _guards: ResourceGuards,
}

impl Session {
    /// Makes the archive with which all cells start.
    ///
    /// # Errors
    /// The experiment does not run in guests, no guest was prepared, or the archive cannot be
    /// written.
    pub fn open(job: &Job, bench: &Bench) -> Result<Session> {
        let guest = Guest::read(&directory()?)?;
        let Some(needs) = job.work.experiment().guest_needs() else {
            return refuse(format!(
                "`lab {}` cannot be run in a guest",
                job.work.name()
            ));
        };
        bench.say("preparing the guest's archive");
        let (guard, tree) = bench.registry.tree(&needs.directory)?;
        let guards = ResourceGuards(vec![guard]);
        let image = Image::make(&guest, &tree)?;
        Ok(Session {
            guest,
            job: job.clone(),
            needs,
            image,
            _guards: guards,
        })
    }

    /// Returns the modules for the file system of a cell; all modules if the cell names none.
    fn modules(&self, task: &Task) -> Vec<String> {
        let kind = task.settings.get("kind").and_then(|kind| kind.as_str());
        match kind.and_then(|kind| self.guest.systems.get(kind)) {
            Some(Ok(modules)) => modules.clone(),
            _ => self.guest.all_modules(),
        }
    }
}

impl experiment::Session for Session {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let inside = Job {
            work: self.job.work.inside(Path::new(inside::WORK)),
            ..self.job.clone()
        };
        self.image.put(&GuestTask {
            modules: self.modules(task),
            medium_bytes: self.needs.medium_bytes,
            work: Some((inside, task.clone())),
        })?;
        let boot = Boot {
            kernel: self.guest.directory.join("vmlinuz"),
            archive: self.image.path.clone(),
            memory_bytes: BASE_MEMORY + self.needs.memory_bytes + self.needs.medium_bytes,
            limit: Duration::from_secs_f64(300.0 + PATIENCE * task.estimate_s),
        };
        match boot.run(&bench.registry, &bench.interrupt)? {
            Answer::Cell(mut cell) => {
                let pairs = [
                    ("guest kernel", serde_json::json!(self.guest.kernel)),
                    ("guest memory", serde_json::json!(boot.memory_bytes)),
                ];
                cell.settings
                    .extend(pairs.map(|(name, value)| (name.to_string(), value)));
                cell.notes.push(
                    "Measured in an emulated machine whose clock counts instructions (2 ns each): its seconds are not those of this computer."
                        .to_string(),
                );
                Ok(*cell)
            }
            Answer::Failed(why) => Err(anyhow!("in the guest: {why}").into()),
            Answer::Ready { .. } => Err(anyhow!("the guest did not receive its order").into()),
        }
    }
}

/// Starts the guest without a job and returns the release of its kernel. All modules of the
/// guest are loaded.
///
/// # Errors
/// The guest does not start or does not answer as expected.
pub fn probe(guest: &Guest, registry: &Arc<Registry>, interrupt: &Interrupt) -> Result<String> {
    let (guard, tree) = registry.tree(&std::env::temp_dir())?;
    let _guards = ResourceGuards(vec![guard]);
    let image = Image::make(guest, &tree)?;
    let order = GuestTask {
        modules: guest.all_modules(),
        medium_bytes: 0,
        work: None,
    };
    image.put(&order)?;
    let boot = Boot {
        kernel: guest.directory.join("vmlinuz"),
        archive: image.path,
        memory_bytes: BASE_MEMORY,
        limit: Duration::from_secs(300),
    };
    match boot.run(registry, interrupt)? {
        Answer::Ready { kernel } => Ok(kernel),
        other => Err(anyhow!("the guest answered {other:?}").into()),
    }
}
