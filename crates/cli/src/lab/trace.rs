//! `seiner lab trace`: counts block operations.

use super::{Common, bytes};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::job::Work;
use seiner_lab::trace;
use std::path::PathBuf;

/// Count the block operations of a command, or of files of blktrace.
///
/// Counts number, size and time of the operations by type (RWBS). For root, the source is a private
/// instance of the kernel's tracer; for other users, the counters of the device, which do not
/// separate types. All operations on the device count while the command runs and until a sync after
/// it, including those of other programs.
#[derive(Args)]
pub struct Trace {
    /// Command with its arguments, after --.
    #[arg(last = true)]
    command: Vec<String>,
    /// Path on the disk whose operations are counted.
    #[arg(long, value_name = "PATH", default_value = ".")]
    on: PathBuf,
    /// Files of blktrace to read instead (the files of all processors of one trace).
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "command")]
    blktrace: Vec<PathBuf>,
    /// Bytes that the application wrote, for K_wa.
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
