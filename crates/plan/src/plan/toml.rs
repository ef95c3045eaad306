//! Configuration of a plan as text.

use crate::demand::Lifetime;
use crate::forecast::Choice;
use seiner_model::duration_text;
use std::fmt::Write;

/// Returns the settings for `seiner serve --config`.
pub fn text(choice: &Choice, is_synced: bool, tbw: Option<f64>, lifetimes: &[Lifetime]) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: String| {
        let _ = writeln!(text, "{name} = {}", quoted(&value));
    };
    put(
        "durability",
        if is_synced { "sync" } else { "100ms" }.into(),
    );
    put("memory", size(choice.memory));
    put("block_bytes", size(choice.block_bytes));
    put("segment_bytes", size(choice.segment_bytes));
    put("journal_bytes", size(choice.journal_bytes));
    put("disk", size(choice.budget));
    put("merge_from", choice.merge_from.to_string());
    put("lanes", choice.lanes.to_string());
    if let Some(tbw) = tbw {
        put("device_tbw", size(tbw));
    }
    put("idle_seal", duration(choice.idle_seal_s));
    for life in lifetimes {
        let _ = writeln!(text, "\n[[class]]\nname = {}", quoted(&life.name));
        if !life.sources.is_empty() {
            let _ = writeln!(text, "sources = {}", quoted(&life.sources));
        }
        let _ = writeln!(text, "age = {}", quoted(&duration(life.keep_s)));
    }
    text
}

/// Returns a size in the largest unit in which it is a short number. The size is rounded down, by less than 1 %.
fn size(bytes: f64) -> String {
    const UNITS: [(&str, f64); 9] = [
        ("TB", 1e12),
        ("TiB", 1_099_511_627_776.0),
        ("GB", 1e9),
        ("GiB", 1_073_741_824.0),
        ("MB", 1e6),
        ("MiB", 1_048_576.0),
        ("KiB", 1024.0),
        ("kB", 1e3),
        ("B", 1.0),
    ];
    let exact = UNITS
        .iter()
        .find(|(_, unit)| bytes >= *unit && (bytes / unit).fract() == 0.0);
    let rounded = UNITS
        .iter()
        .find(|(name, unit)| name.contains('i') && bytes >= 10.0 * unit);
    match (exact, rounded) {
        (Some((name, unit)), _) if bytes / unit < 10_000.0 => format!("{} {name}", bytes / unit),
        (_, Some((name, unit))) => format!("{} {name}", (bytes / unit * 10.0).floor() / 10.0),
        _ => format!("{} B", bytes.floor()),
    }
}

/// Returns a duration in the longest units that represent it exactly; whole years as years.
fn duration(seconds: f64) -> String {
    const YEAR_S: u64 = 365 * 86_400;
    match seconds.round() as u64 {
        whole if whole > 0 && whole.is_multiple_of(YEAR_S) => format!("{}y", whole / YEAR_S),
        whole => duration_text(whole * 1_000_000_000),
    }
}

/// Returns a text quoted for TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::{parse_bytes, parse_duration};

    #[test]
    fn sizes_are_short_and_hardly_smaller() {
        for (bytes, text) in [
            (4096.0, "4 KiB"),
            (67_108_864.0, "64 MiB"),
            (290e12, "290 TB"),
            (71_605_157_888.0, "66.6 GiB"),
            (1000.0, "1 kB"),
            (100.0, "100 B"),
        ] {
            assert_eq!(size(bytes), text);
            let parsed = parse_bytes(text).unwrap() as f64;
            assert!(parsed <= bytes && parsed >= bytes * 0.99, "{text}");
        }
    }

    #[test]
    fn durations_are_read_back() {
        for (seconds, text) in [(31_536_000.0, "1y"), (5_400.0, "1h30m"), (600.0, "10m")] {
            assert_eq!(duration(seconds), text);
            assert_eq!(parse_duration(text), Ok(seconds as i64 * 1_000_000_000));
        }
    }
}
