//! Metrics: `/metrics` and the documentation list the same metrics, in base units.

use crate::site::Site;
use std::collections::BTreeSet;
use std::path::PathBuf;

const PAGE: &str = "metrics.md";
/// Header of the table of the server's metrics.
const BEGIN: &str = "| metric | type | meaning |\n| --- | --- | --- |\n";
const END: &str = "\n## ";
/// Start of the description of an old name.
const DEPRECATED: &str = "Deprecated";

fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

/// Metric in a text: name for scrapers, type, and description.
struct Metric {
    name: String,
    kind: String,
    help: String,
}

/// Returns the metrics that a text describes.
fn metrics(text: &str) -> Vec<Metric> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(help) = line.strip_prefix("# HELP ") else {
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap();
        let kind = lines.next().unwrap().rsplit(' ').next().unwrap();
        let total = if kind == "counter" { "_total" } else { "" };
        found.push(Metric {
            name: format!("{name}{total}"),
            kind: kind.to_string(),
            help: help.trim_end_matches('.').to_string(),
        });
    }
    found
}

/// Returns the rows of the documentation's table, without old names.
fn rows(metrics: &[Metric]) -> String {
    let present = metrics
        .iter()
        .filter(|metric| !metric.help.starts_with(DEPRECATED));
    present
        .map(|Metric { name, kind, help }| format!("| `{name}` | {kind} | {help} |\n"))
        .collect()
}

/// Returns all metrics of the store that a text names in backticks, without those of arrays.
fn named(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.map(|name| name.split('{').next().unwrap());
    names
        .filter(|name| name.starts_with("seiner_") && !name.starts_with("seiner_array_"))
        .collect()
}

/// Returns the reason why a name does not end in the unit of its values.
fn objection(metric: &Metric) -> Option<&'static str> {
    let Metric { name, kind, help } = metric;
    let stem = name.strip_suffix("_total").unwrap_or(name);
    let is_counter = kind == "counter";
    let starts = |words: &[&str]| words.iter().any(|word| help.starts_with(word));
    let ends = |unit: &str| stem.ends_with(unit);
    let is_rate = ends("_per_second");
    let wrong = [
        "_ns", "_us", "_ms", "_s", "_kb", "_mb", "_share", "_percent", "_per_day",
    ];
    match () {
        () if is_counter != name.ends_with("_total") => {
            Some("counters, and only they, end in _total")
        }
        () if wrong.iter().any(|unit| ends(unit)) => Some("the unit is no base unit"),
        () if starts(&["Bytes "]) && !ends("_bytes") && !is_rate => Some("bytes end in _bytes"),
        () if starts(&["Time ", "Age ", "Processor time"]) && !ends("_seconds") => {
            Some("times end in _seconds")
        }
        () if starts(&["Share ", "Ratio "]) && !ends("_ratio") => Some("shares end in _ratio"),
        () if ends("_bytes") && !starts(&["Bytes "]) => Some("the description begins with Bytes"),
        () => None,
    }
}

#[test]
fn every_metric_ends_in_its_unit() {
    let site = Site::new();
    site.write("m v=1 1");
    let wrong: Vec<String> = metrics(&site.get("/metrics").text)
        .iter()
        .filter(|metric| !metric.help.starts_with(DEPRECATED))
        .filter_map(|metric| Some(format!("{}: {}", metric.name, objection(metric)?)))
        .collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn standard_process_metrics_have_no_prefix() {
    let text = Site::new().get("/metrics").text;
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "process_threads",
    ] {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        let value = line.expect(name).rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().unwrap() >= 0.0, "{name} {value}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
}

#[test]
fn old_names_have_the_values_of_the_new_ones() {
    let site = Site::new();
    let text = site.get("/metrics").text;
    let value = |name: &str| {
        let start = format!("\n{name} ");
        let (_, rest) = text.split_once(&start).expect(name);
        rest.lines().next().unwrap().to_string()
    };
    for (new, old) in [
        ("seiner_disk_budget_bytes", "seiner_disk_budget"),
        (
            "seiner_recompressed_bytes_total",
            "seiner_squeezed_bytes_total",
        ),
        ("seiner_writes_rejected", "seiner_writes_refused"),
    ] {
        assert_eq!(value(new), value(old), "{new}");
    }
    let status = site.get("/status").json();
    assert_eq!(
        status["engine"]["disk_budget"],
        status["engine"]["disk_budget_bytes"]
    );
    assert_eq!(
        status["ingest"]["turned_away"],
        status["ingest"]["rejected_requests"]
    );
    let log = site.get("/api/v1/log").json();
    assert_eq!(log["room"], log["space"]);
    assert_eq!(site.post("/api/v1/settle", &[], b"").status, 204);
    assert_eq!(site.post("/api/v1/flush", &[], b"").status, 204);
}

#[test]
fn the_documentation_names_every_metric_and_no_other() {
    let site = Site::with(|settings| settings.device_tbw = Some(1 << 40));
    site.write("m v=1 1");
    let metrics = metrics(&site.get("/metrics").text);
    let expected = rows(&metrics);
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
    let there: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    for file in ["retention.md", "config.md", "http.md", PAGE] {
        let text = std::fs::read_to_string(docs().join(file)).unwrap();
        let unknown: Vec<&str> = named(&text).difference(&there).copied().collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
    let old = metrics
        .iter()
        .filter(|metric| metric.help.starts_with(DEPRECATED));
    for Metric { name, .. } in old {
        assert!(
            page.contains(&format!("`{name}`")),
            "{PAGE} lacks the old name {name}"
        );
    }
}

#[test]
fn the_parts_of_the_disk_in_use_sum_up() {
    let site = Site::new();
    site.write("m v=1 1");
    let engine = site.get("/status").json()["engine"].clone();
    let value = |name: &str| engine[name].as_u64().unwrap();
    assert_eq!(
        value("disk_used_bytes"),
        value("disk_file_bytes") + value("disk_allotted_bytes")
    );
}
