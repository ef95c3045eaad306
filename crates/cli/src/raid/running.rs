//! Flags for running an array, shared by `serve` and `assemble`.

use super::devices;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use seiner_model::parse_bytes as bytes;
use seiner_raid::{Array, ArraySettings, AssembleError, IoMethod, Merging, ShardSettings};
use std::path::PathBuf;
use std::time::Duration;

// Not a doc comment: it would replace the description of the command.
#[derive(Args)]
pub struct RunningFlags {
    /// Start without missing members, if the level permits it.
    ///
    /// The array records missing members as lost. They can return only as new devices, so a
    /// forgotten device costs a whole rebuild.
    #[arg(long)]
    degraded: bool,
    /// Number of threads that serve requests, each for its own stripes [default: half the cores, at
    /// most 8]
    ///
    /// More threads use more cores. A stream of writes that is spread over several threads merges
    /// less at the boundaries between them.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: Option<u16>,
    /// Method of reading and writing members: io_uring if the kernel supports it, or threads, which
    /// cost more CPU.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    io: MethodArgument,
    /// Bytes per second of each member that rebuilds, scrubs and resyncs may use; 0 for no limit.
    ///
    /// A lower rate disturbs users of the volume less. The volume then lacks its redundancy for
    /// longer.
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    background_rate: u64,
    /// Strategy of holding small writes until their stripe is full.
    ///
    /// default: holds if holding was found to pay.
    ///
    /// batch: merges writes that are queued in any case, and holds none.
    ///
    /// never: sends every write separately.
    ///
    /// always: holds until the stripe is full or the time is over. Costs the whole time if the
    /// stripe does not fill.
    ///
    /// paper: the published algorithm.
    ///
    /// paper-batch: the published algorithm, but merges the writes that it does not hold as under
    /// batch.
    #[arg(long, value_name = "STRATEGY", default_value = "default", value_parser = merging)]
    merging: Merging,
    /// Maximum time in microseconds for which a write is held.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000)]
    longest_hold_us: u64,
    /// Seconds that an operation of a member may take before the member is taken out of use; 0 to
    /// wait for ever.
    ///
    /// A disk needs some ten seconds to detect an unreadable sector. A shorter time loses members
    /// unnecessarily.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    patience: f64,
    /// Members and spares, in any order.
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodArgument {
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
        let defaults = ArraySettings::default();
        let settings = ArraySettings {
            shard: ShardSettings {
                merging: self.merging,
                longest_hold: self.longest_hold_us.saturating_mul(1000),
                ..defaults.shard
            },
            shards: self.shards.map_or(defaults.shards, usize::from),
            method: match self.io {
                MethodArgument::Auto => IoMethod::Automatic,
                MethodArgument::Ring => IoMethod::Ring,
                MethodArgument::Threads => IoMethod::Threads,
            },
            background_rate: self.background_rate,
            patience: Duration::from_secs_f64(self.patience),
        };
        let devices = devices::open_all(&self.devices)?;
        Array::assemble(devices, self.degraded, settings).map_err(|error| match error {
            AssembleError::System { .. } | AssembleError::Start(_) => Failure::Failed(error.into()),
            error => Failure::Usage(error.to_string()),
        })
    }
}
