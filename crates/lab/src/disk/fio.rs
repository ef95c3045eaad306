//! Repetition of the loads with fio, if fio is installed. Equal figures show that the disk limits
//! the rate, not the lab.

use super::load::{Access, DiskLoad, RequestOrder};
use crate::error::Result;
use crate::tool;
use anyhow::{Context, anyhow};
use std::path::Path;

/// Returns the bytes per second of fio on the same file: one thread per request in flight, direct
/// I/O, and an fsync after a run of writes.
///
/// # Errors
/// fio is not installed or fails, or its output has no rate.
pub fn rate(load: &DiskLoad, file: &Path, file_bytes: u64) -> Result<f64> {
    let kind = match (load.order, load.access) {
        (RequestOrder::Sequential, Access::Read) => "read",
        (RequestOrder::Sequential, _) => "write",
        (RequestOrder::Random, Access::Read) => "randread",
        (RequestOrder::Random, _) => "randwrite",
    };
    let mut options = vec![
        "--name=seiner".to_string(),
        "--ioengine=psync".to_string(),
        "--direct=1".to_string(),
        "--thread".to_string(),
        "--time_based".to_string(),
        "--group_reporting".to_string(),
        "--output-format=json".to_string(),
        "--randrepeat=1".to_string(),
        "--refill_buffers".to_string(),
        "--end_fsync=1".to_string(),
        format!("--rw={kind}"),
        format!("--bs={}", load.bytes),
        format!("--size={file_bytes}"),
        format!("--numjobs={}", load.depth),
        format!("--runtime={}ms", load.duration.as_millis().max(1)),
        format!(
            "--filename={}",
            file.display().to_string().replace(':', "\\:")
        ),
    ];
    if load.access == Access::SyncedWrite {
        options.push("--fdatasync=1".to_string());
    }
    let output = tool::run("fio", options.iter().map(Path::new), [])?;
    Ok(read(&output, load.access == Access::Read)?)
}

/// Returns the bytes per second in fio's JSON output, which may begin with lines of warnings.
fn read(output: &str, is_read: bool) -> anyhow::Result<f64> {
    let start = output
        .find('{')
        .ok_or_else(|| anyhow!("fio printed no result"))?;
    let output: serde_json::Value =
        serde_json::from_str(&output[start..]).context("the output of fio is not valid JSON")?;
    let direction = if is_read { "read" } else { "write" };
    output
        .pointer(&format!("/jobs/0/{direction}/bw_bytes"))
        .and_then(serde_json::Value::as_f64)
        .ok_or_else(|| anyhow!("fio printed no rate"))
}

/// Returns true if fio is installed.
pub fn is_there() -> bool {
    tool::find("fio").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_in_fios_answer() {
        let output = r#"fio: a warning
{"jobs":[{"read":{"bw_bytes":5},"write":{"bw_bytes":7.0}}]}"#;
        assert_eq!(read(output, true).unwrap(), 5.0);
        assert_eq!(read(output, false).unwrap(), 7.0);
        assert!(read("{}", true).is_err());
        assert!(read("", true).is_err());
    }
}
