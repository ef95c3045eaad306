//! `docs/config.md`, generated from the table of settings.

use super::table;
use crate::classes::{KEYS, VARIABLE};
use crate::key_texts::Key;
use crate::mqtt_topics;
use crate::scrape_jobs;
use std::fmt::Write as _;

/// Returns the page `docs/config.md`, generated from the table.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         A setting is a flag of `seiner serve`, an environment variable, or a key of a TOML file (`--config FILE`; without the\n\
         flag `./seiner.toml`, if that file exists). A flag overrides a variable, a variable overrides the file, and the file\n\
         overrides the default. `seiner config` prints the effective settings and the origin of each value. An unknown key, or\n\
         a value that cannot be parsed, is an error, and the server does not start. Terms: [glossary](glossary.md).\n\n\
         Retention classes, `disk`, `leave_free`, `merge_from`, `policy`, `extra_writes`, `lanes`, `block_bytes`,\n\
         `segment_bytes` and `journal_bytes` are rules, which are stored with the data. In an existing store, the stored rule\n\
         overrides the default. A rule that is given replaces the stored one. If data would then expire sooner, the server\n\
         starts only with `--apply-retention`. See [retention.md](retention.md#rules-live-with-the-data).\n\n\
         Units of sizes are B, KiB, MiB, GiB and TiB, and kB, MB, GB and TB for powers of ten. Units of durations are ns, us,\n\
         ms, s, m, h and d; several may be combined, such as `1h30m`.\n\n\
         <!-- Generated from crates/server/src/settings/; rewrite with SEINER_BLESS=1 cargo test -p seiner-server -->\n",
    );
    for setting in table::all() {
        write!(
            page,
            "\n## `{}`\n\nDefault `{}`, form `{}`, flag `--{}`, variable `{}`.\n\n{}\n",
            setting.name,
            setting.default,
            setting.form,
            setting.flag(),
            setting.variable(),
            setting.help
        )
        .expect("a write to a String does not fail");
    }
    page.push_str(&topics_markdown());
    page.push_str(&jobs_markdown());
    page.push_str(&classes_markdown());
    page
}

/// Appends a table of the keys of a rule.
fn put_keys<T>(section: &mut String, keys: &[Key<T>]) {
    section.push_str("| key | form | effect |\n| --- | --- | --- |\n");
    for key in keys {
        let form = key.form.replace('|', "\\|");
        writeln!(section, "| `{}` | `{form}` | {} |", key.name, key.help)
            .expect("a write to a String does not fail");
    }
}

fn topics_markdown() -> String {
    let mut section = format!(
        "\n## Topics of MQTT\n\n\
         Rules for topics map messages of MQTT to rows: see [mqtt.md](mqtt.md). A rule is a table of the file, a flag\n\
         `--{}`, or a part of the variable `{}`. Rules given as flags replace all rules of the variable,\n\
         and these replace all rules of the file. A message belongs to the first rule whose pattern matches its topic.\n\n\
         ```toml\n[[mqtt_topic]]\ntopic = \"home/{{room}}/{{field}}\"\nmeasurement = \"climate\"\n```\n\n\
         ```sh\nseiner serve --mqtt-broker nas.local --mqtt-topic 'topic=home/{{room}}/{{field}},measurement=climate'\n```\n\n",
        mqtt_topics::FLAG,
        mqtt_topics::VARIABLE,
    );
    put_keys(&mut section, &mqtt_topics::KEYS);
    section
}

fn jobs_markdown() -> String {
    let mut section = format!(
        "\n## Jobs of scraping\n\n\
         Jobs make the server scrape targets as Prometheus does: see [scrape.md](scrape.md). A job is a table of the file, a\n\
         flag `--{}`, or a part of the variable `{}`. Jobs given as flags replace all jobs of the variable, and these\n\
         replace all jobs of the file. There is no job unless one is given.\n\n\
         ```toml\n[[scrape]]\nname = \"node\"\ntargets = \"localhost:9100 nas.local:9100\"\n```\n\n\
         ```sh\nseiner serve --scrape 'name=node,targets=localhost:9100,interval=5s'\n```\n\n",
        scrape_jobs::KEY,
        scrape_jobs::VARIABLE,
    );
    put_keys(&mut section, &scrape_jobs::KEYS);
    section
}

fn classes_markdown() -> String {
    let mut section = format!(
        "\n## Retention classes\n\n\
         Retention classes define how long samples are kept: see [retention.md](retention.md). A class is a table of the file, a\n\
         flag `--class`, or a part of the variable `{VARIABLE}`. Classes given as flags replace all classes of the variable,\n\
         and these replace all classes of the file. A source belongs to the first class whose selector matches it.\n\n\
         ```toml\n[[class]]\nname = \"raw\"\nsources = 'accel{{axis=\"x\"}}'\nage = \"30d\"\nwhen_full = \"shed\"\n```\n\n\
         ```sh\nseiner serve --class 'name=raw,sources=accel{{axis=\"x\"}},age=30d,when_full=shed' --class 'name=rest,sources=cpu,rows=100000'\n\
         SEINER_CLASS='name=raw,sources=accel,age=30d; name=rest,sources=cpu,rows=100000' seiner serve\n```\n\n"
    );
    put_keys(&mut section, &KEYS);
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_settings_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
        if std::env::var_os("SEINER_BLESS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/config.md is out of date; run with SEINER_BLESS=1 to rewrite it"
        );
    }
}
