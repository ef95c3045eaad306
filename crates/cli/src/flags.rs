//! Command-line flags of the settings, generated from the table of settings.

use crate::failure::Failure;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use seiner_server::settings::{self, Setting};
use seiner_server::{Layers, RepeatedFlags, classes, mqtt_topics, scrape_jobs};
use std::collections::HashMap;
use std::path::PathBuf;

/// Settings that a newcomer needs. The short help shows no others.
const FIRST: [&str; 6] = [
    "data",
    "listen",
    "disk",
    "memory",
    "durability",
    classes::KEY,
];

/// Settings given on the command line.
pub struct SettingFlags {
    config: Option<PathBuf>,
    given: HashMap<&'static str, String>,
    classes: Vec<String>,
    topics: Vec<String>,
    jobs: Vec<String>,
}

impl SettingFlags {
    /// Merges the settings of all layers: flags, environment, file, defaults.
    pub fn layers(&self) -> Result<Layers, Failure> {
        let flag = |setting: &Setting| self.given.get(setting.name).cloned();
        let repeated = RepeatedFlags {
            classes: &self.classes,
            topics: &self.topics,
            jobs: &self.jobs,
        };
        Layers::gather(self.config.as_deref(), flag, repeated)
            .map_err(|error| Failure::Usage(error.to_string()))
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingFlags, Error> {
        let given = settings::all().filter_map(|setting| {
            let texts = matches.get_many::<String>(setting.name)?;
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            Some((setting.name, texts.join(",")))
        });
        Ok(SettingFlags {
            config: matches.get_one::<PathBuf>("config").cloned(),
            given: given.collect(),
            classes: repeated(matches, classes::KEY),
            topics: repeated(matches, mqtt_topics::KEY),
            jobs: repeated(matches, scrape_jobs::KEY),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = SettingFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the texts of a flag that may be given several times.
fn repeated(matches: &ArgMatches, name: &str) -> Vec<String> {
    let texts = matches.get_many::<String>(name);
    texts.map_or_else(Vec::new, |texts| texts.cloned().collect())
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Read settings from this TOML file [default: ./seiner.toml, if there is one]");
        let settings = settings::all().map(|setting| {
            Arg::new(setting.name)
                .long(setting.flag())
                .value_name(setting.form)
                .num_args(match setting.name {
                    // A shell pattern can then name all members: `--array /dev/sd?`.
                    "array" => 1..=usize::MAX,
                    _ => 1..=1,
                })
                .hide_short_help(!FIRST.contains(&setting.name))
                .help(format!(
                    "{} [default: {}] [variable: {}]",
                    setting.help,
                    setting.default,
                    setting.variable()
                ))
        });
        let class = Arg::new(classes::KEY)
            .long(classes::KEY)
            .value_name("KEY=TEXT,...")
            .action(ArgAction::Append)
            .help(format!(
                "Retention class, such as name=raw,sources=cpu,age=30d. May be given several times: a source belongs \
                 to the first class whose selector matches it [variable: {}, separated by semicolons]",
                classes::VARIABLE
            ));
        let topic = Arg::new(mqtt_topics::KEY)
            .long(mqtt_topics::FLAG)
            .value_name("KEY=TEXT,...")
            .action(ArgAction::Append)
            .hide_short_help(true)
            .help(format!(
                "Rule for topics of MQTT, such as topic=home/{{room}}/{{field}},measurement=climate. May be given several \
                 times: a message belongs to the first rule whose pattern matches its topic [variable: {}, separated by \
                 semicolons]",
                mqtt_topics::VARIABLE
            ));
        let job = Arg::new(scrape_jobs::KEY)
            .long(scrape_jobs::KEY)
            .value_name("KEY=TEXT,...")
            .action(ArgAction::Append)
            .hide_short_help(true)
            .help(format!(
                "Job of scraping, such as name=node,targets=localhost:9100. May be given several times [variable: {}, \
                 separated by semicolons]",
                scrape_jobs::VARIABLE
            ));
        command
            .arg(config)
            .next_help_heading("Settings")
            .args(settings)
            .arg(class)
            .arg(topic)
            .arg(job)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SettingFlags::augment_args(command)
    }
}
