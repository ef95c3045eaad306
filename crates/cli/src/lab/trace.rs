//! `seiner lab trace`: counts block operations.

use super::{Common, bytes};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::job::Work;
use seiner_lab::trace;
use std::path::PathBuf;

/// Count the block operations of a command, or of blktrace's files.
///
/// By type (RWBS), in number, size and over time. As root from a private instance of the kernel's
/// tracer; otherwise from the device's counters, which know no types. Everybody's operations on the
/// device are counted while the command runs, up to a sync behind it.
#[derive(Args)]
pub struct Trace {
    /// The command with its arguments, behind --.
    #[arg(last = true)]
    command: Vec<String>,
    /// A path on the disk whose operations count.
    #[arg(long, value_name = "PATH", default_value = ".")]
    on: PathBuf,
    /// Read files that blktrace wrote (all processors' files of one trace) instead.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "command")]
    blktrace: Vec<PathBuf>,
    /// The bytes that the application says it wrote: tells K_wa.
    #[arg(long, value_parser = bytes, value_name = "BYTES")]
    written: Option<u64>,
    #[command(flatten)]
    common: Common,
}

impl Trace {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        let settings = trace::Trace {
            on: self.on,
            command: self.command,
            files: self.blktrace,
            application_bytes: self.written.unwrap_or(0),
        };
        self.common.run(Work::Trace(settings))
    }
}
