//! `seiner completions`: prints a completion script for a shell.

use crate::failure::Failure;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Print a script that completes commands and flags in a shell.
///
/// For bash: seiner completions bash > ~/.local/share/bash-completion/completions/seiner
#[derive(Args)]
pub struct Completions {
    /// Shell that runs the script.
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    pub fn run(self, command: &mut Command) -> Result<(), Failure> {
        generate(self.shell, command, "seiner", &mut std::io::stdout().lock());
        Ok(())
    }
}
