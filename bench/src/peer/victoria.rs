//! VictoriaMetrics, single node.

use super::analysis::{Analysis, promql_values};
use super::{Peer, Question, answers, data, host_and_sensor, packaged, source_of};
use crate::client::{Connection, encoded};
use crate::process::{DiskUse, Server, free_address};
use crate::workload::Workload;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// VictoriaMetrics of the Debian package, or another program of it.
pub struct Victoria {
    /// Program.
    pub program: PathBuf,
    /// Further arguments of the program.
    pub arguments: Vec<String>,
    /// True for the shortest retention that VictoriaMetrics accepts, a day. Otherwise 100 years.
    pub shortest: bool,
}

impl Default for Victoria {
    fn default() -> Victoria {
        Victoria {
            program: PACKAGED.into(),
            arguments: Vec::new(),
            shortest: false,
        }
    }
}

/// Program of the Debian package.
const PACKAGED: &str = "victoria-metrics";

/// Returns a workload's interval in whole seconds, rounded outwards.
fn seconds(workload: &Workload) -> (i64, i64) {
    let (start, end) = workload.interval();
    (
        start.div_euclid(1_000_000_000),
        end.div_euclid(1_000_000_000) + 1,
    )
}

/// Returns an instant query at the last millisecond for counts of samples, by series or in total.
/// The window is 1 ms longer than the interval, because a window excludes its own start.
fn count_target(workload: &Workload, wrap: impl Fn(&str) -> String) -> String {
    let (start, end) = workload.interval();
    let (start, end) = (start / 1_000_000, end / 1_000_000);
    let counts = format!(
        "count_over_time({{__name__=~\"{}(_.*)?\"}}[{}ms])",
        workload.measurement(),
        end - start + 1
    );
    let query = encoded(&wrap(&counts));
    format!(
        "/api/v1/query?nocache=1&time={}.{:03}&query={query}",
        end / 1000,
        end % 1000
    )
}

/// Returns the number of samples of a workload, from the API of Prometheus.
pub fn stored(connection: &mut Connection, workload: &Workload) -> Result<u64> {
    let target = count_target(workload, |counts| format!("sum({counts})"));
    Ok(result(&connection.get(&target)?.text()?)?
        .first()
        .map_or(0, count))
}

fn result(answer: &str) -> Result<Vec<Value>> {
    let mut answer: Value = serde_json::from_str(answer).context("the answer is not JSON")?;
    match answer["data"]["result"].take() {
        Value::Array(series) => Ok(series),
        _ => anyhow::bail!("an answer without a result"),
    }
}

fn count(series: &Value) -> u64 {
    series["value"][1]
        .as_str()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

impl Peer for Victoria {
    fn name(&self) -> &'static str {
        "VictoriaMetrics"
    }

    fn version(&self) -> Result<String> {
        if self.program == Path::new(PACKAGED) {
            return packaged(PACKAGED, PACKAGED);
        }
        let output = Command::new(&self.program).arg("-version").output()?;
        // A program that Go's tools built from the module states no version.
        Ok(match String::from_utf8_lossy(&output.stdout).trim() {
            "" => "of unknown version".to_string(),
            version => version.to_string(),
        })
    }

    fn spawn(&self, folder: &Path) -> Result<Server> {
        let address = free_address()?;
        let mut command = Command::new(&self.program);
        command
            .arg(format!("-httpListenAddr={address}"))
            .arg(format!("-storageDataPath={}", data(folder).display()))
            .arg(match self.shortest {
                true => "-retentionPeriod=1d",
                false => "-retentionPeriod=100y",
            })
            .args([
                "-search.maxUniqueTimeseries=20000000",
                "-search.maxQueryDuration=10m",
            ])
            .args(&self.arguments);
        Server::start(command, address, &folder.join("log"))
    }

    fn ready(&self, address: SocketAddr) -> bool {
        answers(address, "/health")
    }

    fn write_target(&self) -> &'static str {
        "/write?precision=ns"
    }

    fn flush(&self, connection: &mut Connection, folder: &Path) -> Result<bool> {
        connection.get("/internal/force_flush")?.text()?;
        connection.get("/internal/force_merge")?.text()?;
        let stable = DiskUse::wait_until_stable(
            &data(folder),
            Duration::from_secs(4),
            Duration::from_secs(180),
        );
        let metrics = connection.get("/metrics")?.text()?;
        let merging = metrics.lines().any(|line| {
            (line.starts_with("vm_active_merges") || line.starts_with("vm_active_force_merges"))
                && !line.ends_with(" 0")
        });
        Ok(stable && !merging)
    }

    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64> {
        stored(connection, workload)
    }

    fn stored_by_source(
        &self,
        connection: &mut Connection,
        workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>> {
        let target = count_target(workload, |counts| {
            format!("sum({counts}) by (host, sensor)")
        });
        let series = result(&connection.get(&target)?.text()?)?;
        let counts = series.iter().filter_map(|series| {
            let tag = |name: &str| series["metric"][name].as_str().unwrap_or_default();
            Some((source_of(tag("host"), tag("sensor"))?, count(series)))
        });
        Ok(counts.collect())
    }

    fn target(&self, question: Question, workload: &Workload) -> String {
        let (start, end) = seconds(workload);
        let field = workload.field(0);
        match question {
            Question::Series { host, sensor } => {
                let (host, sensor) = host_and_sensor(host, sensor);
                let selector = format!("gauge_{field}{{host=\"{host}\",sensor=\"{sensor}\"}}");
                format!(
                    "/api/v1/export?match[]={}&start={start}&end={end}",
                    encoded(&selector)
                )
            }
            Question::MinuteMeans { host } => {
                let (host, _) = host_and_sensor(host, 0);
                let query = encoded(&format!(
                    "avg_over_time(gauge_{field}{{host=\"{host}\"}}[1m])"
                ));
                // VictoriaMetrics names a minute by its end.
                let (start, end) = (start + 60, end + 59);
                format!(
                    "/api/v1/query_range?nocache=1&start={start}&end={end}&step=60&query={query}"
                )
            }
        }
    }

    fn analysis(&self, analysis: Analysis, run: usize, workload: &Workload) -> Option<String> {
        let (host, sensor) = Analysis::series(run, workload);
        Some(match analysis {
            Analysis::Series => self.target(Question::Series { host, sensor }, workload),
            _ => analysis.promql(run, workload, &workload.metric(), ("", "&nocache=1")),
        })
    }

    fn values(&self, answer: &str) -> Result<usize> {
        // An export has one line per series, and none for a missing series.
        if answer.is_empty() || answer.starts_with("{\"metric\"") {
            let mut count = 0;
            for line in answer.lines() {
                let series: Value = serde_json::from_str(line)?;
                count += series["values"].as_array().map_or(0, Vec::len);
            }
            return Ok(count);
        }
        let answer = serde_json::from_str(answer).context("the answer is not JSON")?;
        promql_values(&answer).context("an answer without a result")
    }

    fn remark(&self) -> String {
        "VictoriaMetrics: default settings except for -retentionPeriod=100y and higher limits for the counting query; \
         flushed by force_flush and force_merge; the series by /api/v1/export, the means by query_range with \
         nocache=1 (its answer cache off, as no other server has one)"
            .to_string()
    }
}
