//! The backend `guest`: another kernel in an emulated machine, for file systems that this kernel
//! does not have and for users without root.
//!
//! QEMU runs the kernel of a distribution's package, which is unpacked and not installed. Its
//! initial file system is an archive of this program, the `mkfs` programs and the kernel's modules.
//! Its disk is a file in the guest's memory, so that the guest never waits for this computer's
//! disk.
//!
//! 1. The archive gets the order of one cell, and the machine starts.
//! 2. This program is the first process of the guest ([`inside`]). It measures the cell as the
//!    backend `native` would.
//! 3. It writes the result to a serial line and switches the machine off.
//!
//! The clock of the machine counts instructions. Figures are therefore reproducible, whatever else
//! this computer does. They describe the emulated machine.

mod archive;
pub mod inside;
mod machine;
mod modules;
mod prepare;

use crate::error::{Result, refuse};
use crate::job::{self, Job, Task, Work};
use crate::native::{Claims, obstacle_everywhere};
use crate::registry::Registry;
use crate::results::Cell;
use crate::runner::Bench;
use anyhow::{Context, anyhow};
use archive::Archive;
use inside::{Answer, Order};
use machine::Boot;
pub use prepare::prepare;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the file that describes a prepared guest, in the guest's directory.
const DESCRIPTION: &str = "guest.json";
/// Bytes of memory for the kernel, this program and the page cache, besides the needs of a job.
const BASE_MEMORY: u64 = 768 << 20;
/// Multiple of the estimate that a guest may use of processor time, besides 300 s.
const PATIENCE: f64 = 6.0;

/// A kernel with its programs, ready to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// Directory of the prepared guest.
    #[serde(skip)]
    directory: PathBuf,
    /// Release of the kernel.
    pub kernel: String,
    /// For each file system, the modules to load in this order, or the reason why it is not
    /// available.
    pub systems: BTreeMap<String, std::result::Result<Vec<String>, String>>,
}

/// Requirements of a job for its guest.
pub struct Needs {
    /// Directory in which the archive is made.
    pub directory: PathBuf,
    /// Bytes of the guest's disk.
    pub medium_bytes: u64,
    /// Bytes of memory besides the disk and the base of every guest.
    pub memory_bytes: u64,
    /// Translates the work for the guest, where the given directory replaces `directory`.
    pub inside: fn(&Work, &Path) -> Work,
}

/// Returns the directory of the prepared guest: `SEINER_LAB_GUEST`, otherwise `seiner/lab-guest` in
/// `XDG_CACHE_HOME` or in `~/.cache`.
///
/// # Errors
/// None of `SEINER_LAB_GUEST`, `XDG_CACHE_HOME` and `HOME` is set.
pub fn directory() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = from("SEINER_LAB_GUEST") {
        return Ok(path.into());
    }
    match (from("XDG_CACHE_HOME"), from("HOME")) {
        (Some(cache), _) => Ok(PathBuf::from(cache).join("seiner/lab-guest")),
        (None, Some(home)) => Ok(PathBuf::from(home).join(".cache/seiner/lab-guest")),
        (None, None) => refuse(
            "neither HOME nor SEINER_LAB_GUEST is set: the lab keeps the guest's kernel there",
        ),
    }
}

/// Returns the reason why a file system is not available in a guest; `None` if it is.
pub fn obstacle(kind: &str) -> Option<String> {
    if let Some(why) = obstacle_everywhere(kind) {
        return Some(why);
    }
    let guest = match directory().and_then(|directory| Guest::read(&directory)) {
        Ok(guest) => guest,
        Err(error) => return Some(error.to_string()),
    };
    match guest.systems.get(kind) {
        Some(Ok(_)) => None,
        Some(Err(why)) => Some(why.clone()),
        None => Some("the guest was prepared without it: run `seiner lab guest` again".to_string()),
    }
}

impl Guest {
    /// Reads the description of a prepared guest.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if no machine can be emulated here or no guest was
    /// prepared.
    pub fn read(directory: &Path) -> Result<Guest> {
        if let Some(why) = machine::obstacle() {
            return refuse(why);
        }
        let Ok(text) = fs::read_to_string(directory.join(DESCRIPTION)) else {
            return refuse("there is no guest: `seiner lab guest --download` prepares one");
        };
        let mut guest: Guest = serde_json::from_str(&text)
            .with_context(|| format!("{} describes no guest", directory.display()))?;
        guest.directory = directory.to_owned();
        Ok(guest)
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from)?;
        fs::write(self.directory.join(DESCRIPTION), text)?;
        Ok(())
    }

    /// Directory of the files that go into the archive.
    fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Starts the guest without a job and returns the release of its kernel. All modules of the
    /// guest are loaded.
    ///
    /// # Errors
    /// The guest does not start or does not answer as expected.
    pub fn probe(&self, registry: &Arc<Registry>, interrupt: &crate::Interrupt) -> Result<String> {
        let (claim, tree) = registry.tree(&std::env::temp_dir())?;
        let _claims = Claims(vec![claim]);
        let image = Image::make(self, &tree)?;
        let order = Order {
            modules: self.all_modules(),
            medium_bytes: 0,
            work: None,
        };
        image.put(&order)?;
        let boot = Boot {
            kernel: self.directory.join("vmlinuz"),
            archive: image.path,
            memory_bytes: BASE_MEMORY,
            limit: Duration::from_secs(300),
        };
        match boot.run(registry, interrupt)? {
            Answer::Ready { kernel } => Ok(kernel),
            other => Err(anyhow!("the guest answered {other:?}").into()),
        }
    }

    fn all_modules(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for module in self.systems.values().flatten().flatten() {
            if !all.contains(module) {
                all.push(module.clone());
            }
        }
        all
    }
}

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
        let program = std::env::current_exe().context("this program does not find itself")?;
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

    fn put(&self, order: &Order) -> Result<()> {
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
    needs: Needs,
    image: Image,
    _claims: Claims,
}

impl Session {
    /// Makes the archive that all cells start from.
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
        let (claim, tree) = bench.registry.tree(&needs.directory)?;
        let claims = Claims(vec![claim]);
        let image = Image::make(&guest, &tree)?;
        Ok(Session {
            guest,
            job: job.clone(),
            needs,
            image,
            _claims: claims,
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

impl job::Session for Session {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let inside = Job {
            work: (self.needs.inside)(&self.job.work, Path::new(inside::WORK)),
            ..self.job.clone()
        };
        self.image.put(&Order {
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
                    "Measured in an emulated machine whose clock counts instructions (2 ns each): seconds are its own, not this computer's."
                        .to_string(),
                );
                Ok(*cell)
            }
            Answer::Failed(why) => Err(anyhow!("in the guest: {why}").into()),
            Answer::Ready { .. } => Err(anyhow!("the guest did not get its order").into()),
        }
    }
}
