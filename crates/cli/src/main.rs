//! `seiner`: stores, queries and manages readings from very many sensors.
//!
//! Each subcommand has its own file. Answers are written to standard output, everything else to standard error.
//! The exit status is 0 for success, 1 if something failed or was rejected, and 2 if the command line or the
//! settings are not valid.

mod acknowledge;
mod chart;
mod check;
mod clock;
mod completions;
mod config;
mod delete;
mod failure;
mod flags;
mod import;
mod inspect;
mod lab;
mod log;
mod man;
mod output;
mod plan;
mod progress;
mod query;
mod raid;
mod remote;
mod serve;
mod sim;
mod source;
mod stray;
mod target;
mod write;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Store, query and manage readings from very many sensors.
#[derive(Parser)]
#[command(name = "seiner", version, max_term_width = 100)]
#[command(after_help = "Start with `seiner serve`, and open the address that it prints.")]
pub struct Seiner {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server: ports for writes and queries, the web page, and the host's own sensors.
    Serve(serve::Serve),
    /// Print the effective settings, with the source of each setting.
    Config(config::Config),
    /// Write line protocol to a server or into a directory.
    Write(write::Write),
    /// Query samples from a server or a directory.
    Query(query::Query),
    /// Delete the samples of sources, all of them or those in an interval.
    Delete(delete::Delete),
    /// Acknowledge the losses that a server lists.
    Acknowledge(acknowledge::Acknowledge),
    /// Show how full a server's log is, and the reasons for drops and merges.
    Log(log::Log),
    /// Import data from files of other formats.
    Import(import::Import),
    /// Show the contents of the files in a directory.
    Inspect(inspect::Inspect),
    /// Verify that everything in a directory is readable.
    Check(check::Check),
    /// Show or confirm the clock by which a store expires data.
    Clock(clock::Clock),
    /// Compare settings on a simulated store.
    Sim(sim::Sim),
    /// Measure disks, file systems and stores with the papers' experiments.
    Lab(lab::Lab),
    /// Compute a configuration and a forecast from sensors, rates and disks.
    Plan(plan::Plan),
    /// Manage a volume of several devices that merges small writes into whole stripes when that
    /// pays.
    Raid(raid::Raid),
    /// Print a script that completes commands and flags in a shell.
    Completions(completions::Completions),
    /// Print the manual page, or write one page per subcommand into a directory.
    Man(man::Man),
}

fn main() -> ExitCode {
    seiner_platform::memory::bound_allocator();
    let done = match Seiner::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Config(config) => config.run(),
        Command::Write(write) => write.run(),
        Command::Query(query) => query.run(),
        Command::Delete(delete) => delete.run(),
        Command::Acknowledge(acknowledge) => acknowledge.run(),
        Command::Log(log) => log.run(),
        Command::Import(import) => import.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Check(check) => check.run(),
        Command::Clock(clock) => clock.run(),
        Command::Sim(sim) => sim.run(),
        Command::Lab(lab) => lab.run(),
        Command::Plan(plan) => plan.run(),
        Command::Raid(raid) => raid.run(),
        Command::Completions(completions) => completions.run(&mut Seiner::command()),
        Command::Man(man) => man.run(Seiner::command()),
    };
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Seiner::command().debug_assert();
    }
}
