//! Flags for running an array, shared by `serve` and `assemble`.

use super::devices;
use crate::failure::Failure;
use crate::lab::bytes;
use clap::{Args, ValueEnum};
use seiner_raid::{Array, AssembleError, Merging, Method, Running, Settings};
use std::path::PathBuf;
use std::time::Duration;

// Not a doc comment: it would replace the description of the command.
#[derive(Args)]
pub struct RunningFlags {
    /// Go on without members that are missing, as far as the level bears it.
    ///
    /// They are put on record as gone, and come back only as new devices: without this, a forgotten device costs a whole
    /// rebuild.
    #[arg(long)]
    degraded: bool,
    /// Threads that serve requests, each for stripes of its own [default: half the cores, at most 8].
    ///
    /// More of them use more cores; a stream of writes that is spread over several merges less where it goes from one to
    /// the next.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: Option<u16>,
    /// How members are read and written: by io_uring where the kernel has it, or by threads, which cost more CPU.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    io: AskedMethod,
    /// Bytes a second of each member that filling, checking and resyncing may take; 0 is as many as they can.
    ///
    /// The lower, the less the volume's users feel of it, and the longer it lives without its redundancy.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    background_rate: u64,
    /// When small writes are held until their stripe fills.
    ///
    /// default: where it is found to pay. batch: what queues anyway goes together, nothing is held. never: every request
    /// by itself. always: until the stripe is full or the time is over, which costs that time whenever it does not fill.
    /// paper: the published algorithm. paper-batch: the same, but what it does not hold goes together as under batch.
    #[arg(long, value_name = "STRATEGY", default_value = "default", value_parser = merging)]
    merging: Merging,
    /// Microseconds that a write is held at the most.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000)]
    longest_hold_us: u64,
    /// Seconds that a member may take for an operation before it is used no longer; 0 waits for ever.
    ///
    /// Below what a disk takes to find an unreadable sector by itself, some ten seconds, members are lost that need not be.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    patience: f64,
    /// The members and spares, in any order.
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum AskedMethod {
    Auto,
    Ring,
    Threads,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "a number of seconds".to_string())?;
    match (0.0..=86_400.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("choose from 0 to 86400 seconds".to_string()),
    }
}

pub fn merging(text: &str) -> Result<Merging, String> {
    let names: Vec<&str> = Merging::ALL.iter().map(|merging| merging.name()).collect();
    let found = Merging::ALL
        .into_iter()
        .find(|merging| merging.name() == text);
    found.ok_or_else(|| format!("choose one of {}", names.join(", ")))
}

impl RunningFlags {
    /// Opens the members and starts the array.
    pub fn assemble(&self) -> Result<Array, Failure> {
        let defaults = Running::default();
        let running = Running {
            settings: Settings {
                merging: self.merging,
                longest_hold: self.longest_hold_us.saturating_mul(1000),
                ..defaults.settings
            },
            shards: self.shards.map_or(defaults.shards, usize::from),
            method: match self.io {
                AskedMethod::Auto => Method::Automatic,
                AskedMethod::Ring => Method::Ring,
                AskedMethod::Threads => Method::Threads,
            },
            background_rate: self.background_rate,
            patience: Duration::from_secs_f64(self.patience),
        };
        let devices = devices::open_all(&self.devices)?;
        Array::assemble(devices, self.degraded, running).map_err(|error| match error {
            AssembleError::System { .. } | AssembleError::Start(_) => Failure::Failed(error.into()),
            error => Failure::Usage(error.to_string()),
        })
    }
}
