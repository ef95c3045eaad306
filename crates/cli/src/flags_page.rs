//! `docs/flags.md`, generated from the definitions of the command line.
//!
//! Settings are flags of `seiner serve` as well. They have a page of their own, so this page leaves them out.

use crate::{EXPERT, command_line};
use clap::{Arg, Command};
use seiner_server::{classes, mqtt_topics, scrape_jobs, settings};
use std::fmt::Write as _;

/// Maximum number of columns of prose in a document.
const COLUMNS: usize = 120;

/// Returns the page.
fn markdown() -> String {
    let mut command = command_line();
    command.build();
    let mut page = String::from(
        "# Command line\n\n\
         Every command of `seiner` with its arguments and options, as `seiner COMMAND --help` prints them. Terms:\n\
         [glossary](glossary.md).\n\n\
         <!-- Generated from crates/cli/src/; rewrite with SEINER_BLESS=1 cargo test -p seiner -->\n",
    );
    for (title, is_expert) in [("Commands", false), ("Commands for experts", true)] {
        write!(page, "\n{title}:\n\n| command | purpose |\n| --- | --- |\n").expect(WRITES);
        for command in commands(&command, is_expert) {
            let about = texts(command.get_about().map(ToString::to_string)).join(" ");
            writeln!(page, "| {} | {} |", link(command), cell(&about)).expect(WRITES);
        }
    }
    for is_expert in [false, true] {
        for command in commands(&command, is_expert) {
            put_command(&mut page, command, "##");
        }
    }
    page
}

const WRITES: &str = "a write to a String does not fail";

/// Returns the subcommands of one of the two groups.
fn commands(command: &Command, is_expert: bool) -> impl Iterator<Item = &Command> {
    let named = command
        .get_subcommands()
        .filter(|command| command.get_name() != "help");
    named.filter(move |command| EXPERT.contains(&command.get_name()) == is_expert)
}

fn link(command: &Command) -> String {
    format!("[`{0}`](#seiner-{0})", command.get_name())
}

/// Appends a command, then its subcommands one level below.
fn put_command(page: &mut String, command: &Command, level: &str) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    write!(page, "\n{level} `{name}`\n\n").expect(WRITES);
    let about = command.get_long_about().or(command.get_about());
    for text in texts(about.map(ToString::to_string)) {
        let text = match text.starts_with("seiner ") {
            true => format!("`{text}`"),
            false => escaped(&text),
        };
        write!(page, "{}\n\n", wrapped(&text)).expect(WRITES);
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let usage: Vec<&str> = usage.split_whitespace().collect();
    writeln!(page, "Usage: `{}`", usage.join(" ")).expect(WRITES);
    put_arguments(page, command);
    for command in command.get_subcommands() {
        if command.get_name() != "help" {
            put_command(page, command, &format!("{level}#"));
        }
    }
}

/// Appends a table of the arguments and options of a command.
fn put_arguments(page: &mut String, command: &Command) {
    let repeated = [classes::KEY, mqtt_topics::KEY, scrape_jobs::KEY];
    let is_setting = |arg: &Arg| {
        let id = arg.get_id().as_str();
        repeated.contains(&id) || settings::all().any(|setting| setting.name == id)
    };
    let has_settings = command
        .get_arguments()
        .any(|arg| arg.get_id() == classes::KEY);
    if has_settings {
        page.push_str("\nAll [settings](config.md) are options of this command, too.\n");
    }
    let is_left_out = |arg: &Arg| {
        let is_help = ["help", "version"].contains(&arg.get_id().as_str());
        is_help || arg.is_hide_set() || has_settings && is_setting(arg)
    };
    let arguments = command.get_arguments();
    let mut arguments = arguments.filter(|arg| !is_left_out(arg)).peekable();
    if arguments.peek().is_some() {
        page.push_str("\n| option | meaning |\n| --- | --- |\n");
    }
    for arg in arguments {
        let short = arg
            .get_short()
            .map_or_else(String::new, |short| format!("-{short}, "));
        let option = format!("{short}{arg}").replace('|', "\\|");
        writeln!(page, "| `{option}` | {} |", cell(&meaning(arg))).expect(WRITES);
    }
}

/// Returns the help of an argument, with its possible values and its default.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut parts = texts(help.map(ToString::to_string));
    if !arg.is_hide_possible_values_set() && arg.get_action().takes_values() {
        let values = arg.get_possible_values();
        let values: Vec<String> = values
            .iter()
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}` ({help})", value.get_name()),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        if !values.is_empty() {
            parts.push(format!("Values: {}", values.join(", ")));
        }
    }
    let defaults = arg.get_default_values();
    if !arg.is_hide_default_value_set()
        && arg.get_action().takes_values()
        && let Some(default) = defaults.first()
    {
        parts.push(format!("[default: {}]", default.to_string_lossy()));
    }
    sentences(&parts)
}

/// Joins paragraphs. Ends each with a full stop, unless a note in brackets follows.
fn sentences(parts: &[String]) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            let is_ended = text.ends_with(['.', ':', '?']) || part.starts_with('[');
            text.push_str(if is_ended { " " } else { ". " });
        }
        text.push_str(part);
    }
    text
}

/// Returns the paragraphs of a help, each on one line.
fn texts(help: Option<String>) -> Vec<String> {
    let help = help.unwrap_or_default();
    let paragraphs = help.split("\n\n");
    let lines = paragraphs.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|text| !text.is_empty()).collect()
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|")
}

/// Escapes the signs of Markdown in a text, except in code.
fn escaped(text: &str) -> String {
    let escape = |(at, part): (usize, &str)| match at % 2 {
        0 => part.replace('<', "&lt;").replace('*', "\\*"),
        _ => part.to_owned(),
    };
    let parts = text.split('`').enumerate().map(escape);
    parts.collect::<Vec<_>>().join("`")
}

/// Breaks a paragraph into lines.
fn wrapped(text: &str) -> String {
    let (mut lines, mut columns) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > COLUMNS {
            lines.push('\n');
            columns = 0;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += length;
    }
    lines
}

#[test]
fn the_page_about_flags_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/flags.md");
    if std::env::var_os("SEINER_BLESS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == markdown(),
        "docs/flags.md is out of date; run with SEINER_BLESS=1 to rewrite it"
    );
}
