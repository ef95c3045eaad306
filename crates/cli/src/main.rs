//! `seiner`: stores, queries and manages readings from very many sensors.
//!
//! Each subcommand has its own file. Answers are written to standard output, everything else to standard error.
//! The exit status is 0 for success, 1 if something failed or was rejected, and 2 if the command line or the
//! settings are not valid.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod acknowledge;
#[cfg(feature = "parquet")]
mod arrow_stream;
mod backup;
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
mod figures;
mod flags;
// Commands of left-out features are missing on the page.
#[cfg(all(
    test,
    feature = "cluster",
    feature = "lab",
    feature = "parquet",
    feature = "plan",
    feature = "raid"
))]
mod flags_page;
mod import;
mod inspect;
#[cfg(feature = "lab")]
mod lab;
#[cfg(any(feature = "lab", feature = "plan"))]
mod lab_failure;
mod log;
mod log_lines;
mod log_why;
mod ls;
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
mod server_access;
mod sim;
mod source;
#[cfg(any(feature = "lab", feature = "raid"))]
mod stray;
mod target;
mod time;
mod tls;
mod token;
mod write;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
    Ls(ls::Ls),
    Delete(delete::Delete),
    Acknowledge(acknowledge::Acknowledge),
    Log(log::Log),
    Token(token::Token),
    Tls(tls::Tls),
    #[cfg(feature = "parquet")]
    Export(export::Export),
    Import(import::Import),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Inspect(inspect::Inspect),
    Check(check::Check),
    Clock(clock::Clock),
    #[cfg(feature = "cluster")]
    Cluster(cluster::Cluster),
    Sim(sim::Sim),
    #[cfg(feature = "lab")]
    Lab(lab::Lab),
    #[cfg(feature = "plan")]
    Plan(Box<plan::Plan>),
    #[cfg(feature = "raid")]
    Raid(raid::Raid),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Commands that only experts need. The help lists them apart.
const EXPERT: [&str; 7] = [
    "inspect",
    "sim",
    "lab",
    "raid",
    "clock",
    "completions",
    "man",
];

/// Returns the command line, with a help that lists the commands in two groups.
fn command_line() -> clap::Command {
    let command = Seiner::command();
    let list = |is_expert: bool| {
        let commands = command.get_subcommands();
        let chosen = commands.filter(|command| EXPERT.contains(&command.get_name()) == is_expert);
        let lines = chosen.map(|command| {
            let about = command.get_about().map(ToString::to_string);
            format!(
                "  {:12} {}\n",
                command.get_name(),
                about.unwrap_or_default()
            )
        });
        lines.collect::<String>()
    };
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{}\nFor experts:\n{}  {:12} {}\n\nOptions:\n{{options}}{{after-help}}",
        list(false),
        list(true),
        "help",
        "Print this list, or the help of a command"
    );
    command.help_template(template)
}

fn main() -> ExitCode {
    seiner_platform::memory::bound_allocator();
    let given = command_line().get_matches();
    let parsed = Seiner::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let done = match parsed.command {
        Command::Serve(serve) => serve.run(),
        Command::Config(config) => config.run(),
        Command::Write(write) => write.run(),
        Command::Query(query) => query.run(),
        Command::Ls(ls) => ls.run(),
        Command::Delete(delete) => delete.run(),
        Command::Acknowledge(acknowledge) => acknowledge.run(),
        Command::Log(log) => log.run(),
        Command::Token(token) => token.run(),
        Command::Tls(tls) => tls.run(),
        #[cfg(feature = "parquet")]
        Command::Export(export) => export.run(),
        Command::Import(import) => import.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
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
        command_line().debug_assert();
    }

    #[test]
    fn the_help_lists_every_command_once() {
        let help = command_line().render_help().to_string();
        let (daily, expert) = help.split_once("For experts:").unwrap();
        for command in Seiner::command().get_subcommands() {
            let line = format!("\n  {:12} ", command.get_name());
            assert_eq!(help.matches(&line).count(), 1, "{line}");
            let is_expert = EXPERT.contains(&command.get_name());
            assert_eq!(expert.contains(&line), is_expert, "{line}");
        }
        assert!(daily.contains("\n  serve "));
    }

    #[test]
    fn the_first_page_of_serve_shows_few_settings() {
        let mut command = command_line();
        let serve = command.find_subcommand_mut("serve").unwrap();
        let (short, long) = (
            serve.render_help().to_string(),
            serve.render_long_help().to_string(),
        );
        let shown = |help: &str| help.matches("SEINER_").count();
        assert_eq!(shown(&short), 6, "{short}");
        assert!(shown(&long) > 50 && long.contains("--max-body"));
    }
}
