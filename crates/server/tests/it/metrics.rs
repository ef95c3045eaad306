//! Metrics: `/metrics` and the documentation name the same ones.

use crate::site::Site;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

const PAGE: &str = "metrics.md";
/// The table of the store's metrics stands between these.
const BEGIN: &str = "| metric | type | meaning |\n| --- | --- | --- |\n";
const END: &str = "\n## ";

fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

/// Rows of a table from the descriptors of a text, named as they are asked for.
fn rows(text: &str) -> String {
    let mut rows = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(help) = line.strip_prefix("# HELP ") else {
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap();
        let kind = lines.next().unwrap().rsplit(' ').next().unwrap();
        let total = if kind == "counter" { "_total" } else { "" };
        let help = help.trim_end_matches('.');
        writeln!(rows, "| `{name}{total}` | {kind} | {help} |").unwrap();
    }
    rows
}

/// All metrics that a text names in backticks, arrays' apart.
fn named(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.map(|name| name.split('{').next().unwrap());
    names
        .filter(|name| name.starts_with("seiner_") && !name.starts_with("seiner_array_"))
        .collect()
}

/// The documentation promised the life of the device, D, R and the bytes written per byte stored, and
/// `/metrics` had none of them.
#[test]
fn the_documentation_names_every_metric_and_no_other() {
    let site = Site::with(|settings| settings.device_tbw = Some(1 << 40));
    site.write("m v=1 1");
    let expected = rows(&site.get("/metrics").text);
    let path = docs().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    if std::env::var_os("SEINER_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert!(
        table == expected,
        "docs/metrics.md is out of date; run with SEINER_BLESS=1 to rewrite it"
    );
    let there = named(&expected);
    for file in ["retention.md", "config.md", "http.md", PAGE] {
        let text = std::fs::read_to_string(docs().join(file)).unwrap();
        let unknown: Vec<&str> = named(&text).difference(&there).copied().collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
}

/// Base units, and the figures that `/status` has.
#[test]
fn metrics_are_in_base_units_and_agree_with_the_status() {
    let site = Site::new();
    site.write("m v=1 1");
    let text = site.get("/metrics").text;
    assert!(!text.contains("_ns "), "{text}");
    assert!(text.contains("\nseiner_waited_seconds_total 0"), "{text}");
    assert!(text.contains("\nseiner_log_segment_bytes "), "{text}");
    let engine = site.get("/status").json()["engine"].clone();
    let figure = |name: &str| engine[name].as_u64().unwrap();
    assert_eq!(
        figure("disk_used"),
        figure("disk_files") + figure("disk_allotted")
    );
}
