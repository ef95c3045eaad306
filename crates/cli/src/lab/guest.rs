//! `seiner lab guest`: prepares the emulated machine.

use super::failure;
use crate::failure::Failure;
use clap::Args;
use seiner_lab::registry::{Registry, state_directory};
use seiner_lab::{Interrupt, guest};
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Prepare the emulated machine for `--backend guest`: a kernel from Debian's packages, unpacked
/// and not installed.
///
/// Needs QEMU (qemu-system-x86) and dpkg-deb, but no root. All files are in one directory, about 40
/// MB. The command starts the machine once as a test.
#[derive(Args)]
pub struct Guest {
    /// Packages to unpack: a kernel, and the mkfs programs that are not installed.
    #[arg(long = "package", value_name = "FILE.deb", num_args = 1..)]
    packages: Vec<PathBuf>,
    /// Download a kernel, and the mkfs programs that are not installed, from the distribution's
    /// archive (`apt-get download`; about 75 MB).
    #[arg(long)]
    download: bool,
}

impl Guest {
    /// Prepares the emulated machine.
    pub fn run(self) -> Result<(), Failure> {
        let directory = guest::directory().map_err(failure)?;
        let interrupt = Interrupt::listen().map_err(failure)?;
        let made = guest::prepare(&directory, &self.packages, self.download, &|what| {
            eprintln!("{what}");
        })
        .map_err(failure)?;
        let registry = Registry::open(&state_directory().map_err(failure)?).map_err(failure)?;
        eprintln!("starting it once");
        let kernel = guest::probe(&made, &registry, &interrupt).map_err(failure)?;
        writeln!(stdout(), "kernel {kernel}, in {}", directory.display())?;
        for (kind, modules) in &made.systems {
            match modules {
                Ok(_) => writeln!(stdout(), "{kind}: can be had")?,
                Err(why) => writeln!(stdout(), "{kind}: not available here: {why}")?,
            }
        }
        Ok(())
    }
}
