//! `seiner man`: prints or writes manual pages.

use crate::failure::Failure;
use clap::{Args, Command};
use clap_mangen::{Man as Page, generate_to};
use std::path::PathBuf;

/// Print the manual page, or write one page per subcommand into a directory.
///
/// To read the page: seiner man | man -l -
#[derive(Args)]
pub struct Man {
    /// Write all pages into this directory instead: seiner.1, seiner-serve.1 and so on.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

impl Man {
    /// Prints the page, or writes all pages.
    pub fn run(self, command: Command) -> Result<(), Failure> {
        match self.into {
            Some(directory) => {
                std::fs::create_dir_all(&directory)?;
                generate_to(command, directory)?;
            }
            None => Page::new(command).render(&mut std::io::stdout().lock())?,
        }
        Ok(())
    }
}
