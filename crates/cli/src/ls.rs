//! `seiner ls`: lists what a store holds.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use crate::target::read_directory;
use anyhow::Context;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use seiner_model::Selector;
use seiner_server::query::summaries;
use serde_json::Value;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Maximum number of characters of a list of names in the table.
const WIDTH: usize = 40;

/// List the measurements of a store, with their tags, fields, times and bytes.
///
/// Examples:
///
///   seiner ls
///
///   seiner ls 'cpu{host="a"}' --json
///
/// The number after a tag is the number of its values. Times and bytes are those of the files, with
/// expired samples whose space is not freed yet. For the first 1,000 sources of a measurement, the
/// times include samples in memory.
#[derive(Args)]
pub struct Ls {
    /// Selector of the sources, as in `seiner query`.
    #[arg(default_value = "{}")]
    selector: String,
    /// Print JSON, with all names.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: ServerAccess,
    /// List the store in this directory instead of a server. Nothing in the directory changes.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
}

impl Ls {
    /// Prints the list.
    pub fn run(self) -> Result<(), Failure> {
        let selector =
            Selector::parse(&self.selector).map_err(|error| Failure::Usage(error.to_string()))?;
        let found: Vec<Value> = match &self.data {
            Some(directory) => {
                let store = read_directory(directory)?;
                let found = summaries(&*store, &selector)?;
                found.iter().map(|one| one.to_json()).collect()
            }
            None => {
                let select = [("select", self.selector.clone())];
                let answer = Remote::of(&self.access)?.get("/api/v1/summary", &select)?;
                serde_json::from_reader(answer).context("the answer is incomplete")?
            }
        };
        let mut out = stdout().lock();
        match self.json {
            true => writeln!(out, "{:#}", Value::Array(found))?,
            false if found.is_empty() => eprintln!("there is no source that the selector selects"),
            false => write_table(&rows(&found), &mut out)?,
        }
        Ok(())
    }
}

/// Returns the rows of the table, with a heading.
fn rows(found: &[Value]) -> Vec<[String; 7]> {
    let heading = [
        "measurement",
        "sources",
        "tags",
        "fields",
        "first",
        "last",
        "bytes",
    ];
    let mut rows = vec![heading.map(str::to_string)];
    for one in found {
        let text = |key: &str| one[key].as_str().unwrap_or("-").to_string();
        let time = |key: &str| match one[key].as_str() {
            // Seconds suffice to find data.
            Some(time) => time
                .split('.')
                .next()
                .map(|time| format!("{}Z", time.trim_end_matches('Z'))),
            None => None,
        };
        let bytes = one["bytes"].as_u64();
        rows.push([
            text("measurement"),
            HumanCount(one["sources"].as_u64().unwrap_or_default()).to_string(),
            listed(&one["tags"], |tag| match tag["more"].as_bool() {
                Some(true) => format!("{} >{}", name(tag), tag["values"]),
                _ => format!("{} {}", name(tag), tag["values"]),
            }),
            listed(&one["fields"], name),
            time("first").unwrap_or("-".to_string()),
            time("last").unwrap_or("-".to_string()),
            bytes.map_or("-".to_string(), |bytes| HumanBytes(bytes).to_string()),
        ]);
    }
    rows
}

fn name(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_string()
}

/// Returns names separated by commas. A list that is too long ends in the number of the names that are left out.
fn listed(values: &Value, text: impl Fn(&Value) -> String) -> String {
    let values = values.as_array().map_or(&[][..], Vec::as_slice);
    let mut list = String::new();
    for (number, value) in values.iter().enumerate() {
        let part = text(value);
        let separator = if number == 0 { "" } else { ", " };
        if number > 0 && list.chars().count() + part.chars().count() > WIDTH {
            return format!("{list}, {} more", values.len() - number);
        }
        list.push_str(separator);
        list.push_str(&part);
    }
    list
}

fn write_table(rows: &[[String; 7]], out: &mut impl Write) -> std::io::Result<()> {
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..7)
        .map(|column| {
            rows.iter()
                .map(|row| length(&row[column]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(text, width)| format!("{text:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_lists_are_cut_and_missing_values_are_dashes() {
        let fields: Vec<Value> = (0..30)
            .map(|n| json!({ "name": format!("field{n}") }))
            .collect();
        let found = json!({
            "measurement": "cpu", "sources": 1234, "fields": fields, "bytes": null, "last": null,
            "tags": [{ "name": "host", "values": 3 }, { "name": "id", "values": 10000, "more": true }],
            "first": "2026-11-27T01:02:03.000000004Z",
        });
        let rows = rows(&[found]);
        let expected = [
            "cpu",
            "1,234",
            "host 3, id >10000",
            "field0, field1, field2, field3, field4, 25 more",
            "2026-11-27T01:02:03Z",
            "-",
            "-",
        ];
        assert_eq!(rows[1], expected);
        let mut out = Vec::new();
        write_table(&rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 2);
    }
}
