//! `seiner`: stores, queries and manages readings from very many sensors.
//!
//! Each subcommand has its own file. Answers are written to standard output, everything else to standard error.
//! The exit status is 0 for success, 1 if something failed or was rejected, and 2 if the command line or the
//! settings are not valid.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod acknowledge;
#[cfg(feature = "parquet")]
mod arrow_stream;
mod check;
mod clock;
#[cfg(feature = "cluster")]
mod cluster;
mod completions;
mod config;
mod delete;
#[cfg(feature = "parquet")]
mod export;
mod failure;
mod flags;
mod import;
mod inspect;
#[cfg(feature = "lab")]
mod lab;
#[cfg(any(feature = "lab", feature = "plan"))]
mod lab_failure;
mod log;
mod login;
mod man;
mod output;
#[cfg(feature = "parquet")]
mod partition;
#[cfg(feature = "plan")]
mod plan;
#[cfg(feature = "plan")]
mod planner;
mod progress;
mod query;
#[cfg(feature = "raid")]
mod raid;
mod remote;
mod route;
mod serve;
mod sim;
mod source;
#[cfg(any(feature = "lab", feature = "raid"))]
mod stray;
mod target;
mod time;
mod token;
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

// The help of each subcommand is the doc comment of its flags. A comment here would replace it.
#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Config(config::Config),
    Write(write::Write),
    Query(query::Query),
    Delete(delete::Delete),
    Acknowledge(acknowledge::Acknowledge),
    Log(log::Log),
    Token(token::Token),
    #[cfg(feature = "parquet")]
    Export(export::Export),
    Import(import::Import),
    Inspect(inspect::Inspect),
    Check(check::Check),
    Clock(clock::Clock),
    #[cfg(feature = "cluster")]
    Cluster(cluster::Cluster),
    Sim(sim::Sim),
    #[cfg(feature = "lab")]
    Lab(lab::Lab),
    #[cfg(feature = "plan")]
    Plan(plan::Plan),
    #[cfg(feature = "raid")]
    Raid(raid::Raid),
    Completions(completions::Completions),
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
        Command::Token(token) => token.run(),
        #[cfg(feature = "parquet")]
        Command::Export(export) => export.run(),
        Command::Import(import) => import.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Check(check) => check.run(),
        Command::Clock(clock) => clock.run(),
        #[cfg(feature = "cluster")]
        Command::Cluster(cluster) => cluster.run(),
        Command::Sim(sim) => sim.run(),
        #[cfg(feature = "lab")]
        Command::Lab(lab) => lab.run(),
        #[cfg(feature = "plan")]
        Command::Plan(plan) => plan.run(),
        #[cfg(feature = "raid")]
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
