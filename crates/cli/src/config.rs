//! `seiner config`: prints the effective settings.

use crate::failure::Failure;
use crate::flags::SettingFlags;
use clap::Args;
use seiner_engine::Rule;

use seiner_server::{Effective, Origin, classes, mqtt_topics, scrape_jobs};
use std::io::Write;

/// Print the effective settings as a TOML file, with the source of each setting.
///
/// Takes the flags of `seiner serve`: replace `seiner serve` by `seiner config` to see the settings
/// of that server. The output is a valid seiner.toml.
#[derive(Args)]
pub struct Config {
    #[command(flatten)]
    settings: SettingFlags,
}

impl Config {
    /// Prints the settings.
    pub fn run(self) -> Result<(), Failure> {
        let layers = self.settings.layers()?;
        let settings = layers
            .settings()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let mut lines: Vec<(String, String)> = Vec::new();
        for Effective {
            setting,
            text,
            origin,
        } in layers.effective()
        {
            let comes_to = settings.comes_to(setting.name);
            let comes_to = comes_to.map_or_else(String::new, |size| format!("; comes to {size}"));
            let line = format!("{} = {}", setting.name, quoted(text));
            let is_rule = Rule::ALL.iter().any(|rule| rule.name() == setting.name);
            let stored = match is_rule && *origin == Origin::Default {
                true => ", unless a rule is stored with the data",
                false => "",
            };
            lines.push((line, format!("{origin}{stored}{comes_to}")));
        }
        for class in layers.classes() {
            let origin = class.origin.to_string();
            lines.push((format!("[[{}]]", classes::KEY), origin.clone()));
            for (key, text) in class.text.texts() {
                lines.push((format!("{key} = {}", quoted(text)), origin.clone()));
            }
        }
        for topic in layers.topics() {
            let origin = topic.origin.to_string();
            lines.push((format!("[[{}]]", mqtt_topics::KEY), origin.clone()));
            for (key, text) in topic.text.texts() {
                lines.push((format!("{key} = {}", quoted(text)), origin.clone()));
            }
        }
        for job in layers.jobs() {
            let origin = job.origin.to_string();
            lines.push((format!("[[{}]]", scrape_jobs::KEY), origin.clone()));
            for (key, text) in job.text.texts() {
                lines.push((format!("{key} = {}", quoted(text)), origin.clone()));
            }
        }
        let width = lines.iter().map(|(line, _)| line.chars().count()).max();
        let width = width.unwrap_or(0);
        let mut out = std::io::stdout().lock();
        for (line, note) in lines {
            writeln!(out, "{line:width$}  # {note}")?;
        }
        settings.check_exposure().map_err(Failure::Usage)
    }
}

/// Formats a text as a quoted TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)))
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn strings_are_quoted_as_toml() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000A\"");
    }
}
