//! `seiner lab write`: writes many sensors by several stores.

use super::{Common, Means, bytes, count};
use crate::failure::Failure;
use crate::stray;
use clap::{Args, ValueEnum};
use seiner_lab::job::Work;
use seiner_lab::write::{self, Layout, Pace, StoreKind};
use std::path::PathBuf;

/// Write very many sensors by several stores under the same load.
///
/// The first paper's test: each of F sensors in turn delivers B bytes. `files` appends to one file
/// per sensor. `in-place` updates a ring in one file as RRDtool does. `akumuli` and `yawndb` write
/// as those systems do. `log` is this project's engine, and `log-only` is the engine without a
/// journal. `sqlite` and `rocksdb` are those stores, in programs that were built with them
/// (--features references,rocksdb).
#[derive(Args)]
pub struct Write {
    /// Directories to write into. Files are distributed over all directories.
    #[arg(default_value = ".")]
    directories: Vec<PathBuf>,
    /// Make a new file system for every cell, on an image in the directory (root). Earlier cells
    /// then have no effect on later ones.
    #[arg(long, value_name = "KIND")]
    fresh: Option<String>,
    /// C: disk space for data, for example 6GiB.
    #[arg(long, alias = "room", value_parser = bytes)]
    space: Option<u64>,
    /// Stores to test.
    #[arg(long = "store", value_enum, value_name = "STORE")]
    stores: Vec<StoreName>,
    /// F: numbers of sensors, for example 1,10000,1e6.
    #[arg(long, value_parser = count, value_delimiter = ',')]
    sensors: Vec<u64>,
    /// B: bytes per portion, for example 4KiB,64KiB.
    #[arg(long, value_parser = bytes, value_delimiter = ',')]
    portion: Vec<u64>,
    /// R: number of files kept per sensor, including the current one.
    #[arg(long, default_value_t = 2)]
    kept: u64,
    /// M: number of writing threads.
    #[arg(long, default_value_t = 1)]
    writers: u64,
    /// Write by processes instead of threads, for `files`.
    #[arg(long)]
    processes: bool,
    /// Put all files into one directory, instead of directories of 100 entries.
    #[arg(long)]
    flat: bool,
    /// Allocate a buffer of B bytes for every sensor.
    #[arg(long)]
    buffered: bool,
    /// Sync every portion before the next one.
    #[arg(long)]
    synced: bool,
    /// Search for the highest sustained rate, instead of writing at full speed.
    #[arg(long)]
    paced: bool,
    /// Memory limit of the run, page cache included, for example 256MiB (root).
    #[arg(long, value_parser = bytes)]
    memory: Option<u64>,
    /// Seconds of measurement per cell.
    #[arg(long)]
    seconds: Option<f64>,
    /// Kernel that is measured. With --fresh, a guest separates types of block operations for any
    /// user.
    #[arg(long, value_enum, default_value = "native")]
    backend: Means,
    #[command(flatten)]
    common: Common,
}

/// Store to test.
#[derive(Clone, Copy, ValueEnum)]
enum StoreName {
    Files,
    InPlace,
    Akumuli,
    Yawndb,
    Log,
    LogOnly,
    Sqlite,
    Rocksdb,
}

impl StoreName {
    fn kind(self) -> StoreKind {
        match self {
            StoreName::Files => StoreKind::Files,
            StoreName::InPlace => StoreKind::InPlace,
            StoreName::Akumuli => StoreKind::Akumuli,
            StoreName::Yawndb => StoreKind::Yawndb,
            StoreName::Log => StoreKind::Log,
            StoreName::LogOnly => StoreKind::LogOnly,
            StoreName::Sqlite => StoreKind::Sqlite,
            StoreName::Rocksdb => StoreKind::Rocksdb,
        }
    }
}

impl Write {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        stray::reject(&self.directories, "--sensors and --portion")?;
        let mut settings = write::Write::new(PathBuf::new(), self.common.profile.profile());
        settings.directories = self.directories;
        settings.fresh = self.fresh;
        settings.space_bytes = self.space.unwrap_or(settings.space_bytes);
        settings.kept = self.kept;
        settings.writers = self.writers;
        settings.is_by_processes = self.processes;
        settings.layout = if self.flat {
            Layout::Flat
        } else {
            Layout::Tree
        };
        settings.is_buffered = self.buffered;
        settings.is_synced = self.synced;
        settings.pace = if self.paced {
            Pace::Paced
        } else {
            Pace::Greedy
        };
        settings.memory_bytes = self.memory.unwrap_or(0);
        settings.seconds = self.seconds.unwrap_or(settings.seconds);
        if self.backend == Means::Guest {
            settings.in_guests(self.space.is_some());
        }
        if !self.stores.is_empty() {
            settings.stores = self.stores.into_iter().map(StoreName::kind).collect();
        }
        if !self.sensors.is_empty() {
            settings.sensors = self.sensors;
        }
        if !self.portion.is_empty() {
            settings.portions = self.portion;
        }
        self.common.run(Work::Write(settings))
    }
}
