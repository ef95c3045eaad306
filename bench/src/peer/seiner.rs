//! Our own server.

use super::analysis::{Analysis, promql_values};
use super::{Peer, Question, answers, data, host_and_sensor, source_of};
use crate::client::{Connection, encoded};
use crate::process::{Server, free_address};
use crate::workload::Workload;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our own server, as built in this repository.
pub struct Seiner {
    /// Path of the program.
    pub program: PathBuf,
    /// Durability setting: `interval` or `memory`.
    pub durability: &'static str,
    /// True if questions over many series are all asked in PromQL. Otherwise they are asked in the server's own API
    /// where it can answer them.
    pub promql: bool,
    /// Further arguments of the program.
    pub arguments: Vec<String>,
}

impl Seiner {
    /// Returns a server with the default durability: the journal is synced every 100 ms.
    pub fn new(program: &Path) -> Seiner {
        Seiner {
            program: program.to_path_buf(),
            durability: "interval",
            promql: false,
            arguments: Vec::new(),
        }
    }

    /// Returns the status of the server.
    pub fn status(connection: &mut Connection) -> Result<Value> {
        serde_json::from_str(&connection.get("/status")?.text()?).context("/status is not JSON")
    }
}

/// Returns the query for counts of samples, one row per series and bucket of a thousand days.
fn count_target(workload: &Workload) -> String {
    let (start, end) = workload.interval();
    format!(
        "/api/v1/query?select={}&from={start}&to={end}&step=1000d&aggregate=count&format=csv",
        workload.measurement()
    )
}

/// Returns the tags and the count of a row `measurement,tags,field,time,count`.
fn counts(answer: &str) -> impl Iterator<Item = Result<(&str, u64)>> {
    answer.lines().skip(1).map(|row| {
        let (rest, count) = row.rsplit_once(',').context("a row without a comma")?;
        Ok((
            rest,
            count
                .trim()
                .parse()
                .with_context(|| format!("{row:?} ends with no count"))?,
        ))
    })
}

fn tag<'r>(row: &'r str, name: &str) -> Option<&'r str> {
    let value = row.split_once(&format!("{name}="))?.1;
    value.split([',', '"']).next()
}

impl Peer for Seiner {
    fn name(&self) -> &'static str {
        if self.promql {
            "Seiner, PromQL"
        } else {
            "Seiner"
        }
    }

    fn version(&self) -> Result<String> {
        let remedy = || {
            format!(
                "{} cannot be run: cargo build --release",
                self.program.display()
            )
        };
        let output = Command::new(&self.program)
            .arg("--version")
            .output()
            .with_context(remedy)?;
        ensure!(
            output.status.success(),
            "{} prints no version",
            self.program.display()
        );
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim()
            .trim_start_matches("seiner ")
            .to_string())
    }

    fn spawn(&self, folder: &Path) -> Result<Server> {
        let address = free_address()?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--data").arg(data(folder)).args([
            "--listen",
            &address.to_string(),
            "--host-sensors=off",
            "--memory=256MiB",
            "--durability",
            self.durability,
        ]);
        command.args(&self.arguments);
        Server::start(command, address, &folder.join("log"))
    }

    fn ready(&self, address: SocketAddr) -> bool {
        answers(address, "/health")
    }

    fn write_target(&self) -> &'static str {
        "/write?precision=ns"
    }

    fn flush(&self, connection: &mut Connection, _folder: &Path) -> Result<bool> {
        connection.post("/api/v1/flush", b"")?.text()?;
        Ok(true)
    }

    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64> {
        let answer = connection.get(&count_target(workload))?.text()?;
        counts(&answer).map(|row| row.map(|(_, count)| count)).sum()
    }

    fn stored_by_source(
        &self,
        connection: &mut Connection,
        workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>> {
        let answer = connection.get(&count_target(workload))?.text()?;
        let mut sums = HashMap::new();
        for row in counts(&answer) {
            let (row, count) = row?;
            let source = tag(row, "host")
                .zip(tag(row, "sensor"))
                .and_then(|(host, sensor)| source_of(host, sensor));
            *sums
                .entry(source.with_context(|| format!("{row:?} lacks tags"))?)
                .or_default() += count;
        }
        Ok(sums)
    }

    fn target(&self, question: Question, workload: &Workload) -> String {
        let (start, end) = workload.interval();
        let (selector, step) = match question {
            Question::Series { host, sensor } => {
                let (host, sensor) = host_and_sensor(host, sensor);
                (format!("gauge{{host=\"{host}\",sensor=\"{sensor}\"}}"), "")
            }
            Question::MinuteMeans { host } => (
                format!("gauge{{host=\"{}\"}}", host_and_sensor(host, 0).0),
                "&step=60s&aggregate=mean",
            ),
        };
        let field = workload.field(0);
        format!(
            "/api/v1/query?select={}&fields={field}&from={start}&to={end}{step}",
            encoded(&selector)
        )
    }

    fn analysis(&self, analysis: Analysis, run: usize, workload: &Workload) -> Option<String> {
        let (start, end) = workload.interval();
        let (host, sensor) = Analysis::series(run, workload);
        // A field named `value` is the metric that its measurement names.
        let metric = workload.metric();
        let metric = metric.trim_end_matches("_value");
        let promql = || analysis.promql(run, workload, metric, ("/prometheus", ""));
        Some(match analysis {
            _ if self.promql => promql(),
            Analysis::Series => self.target(Question::Series { host, sensor }, workload),
            Analysis::HostMeans => self.target(Question::MinuteMeans { host }, workload),
            Analysis::Means => format!(
                "/api/v1/query?select=gauge&fields=value&from={start}&to={end}&step=60s&aggregate=mean"
            ),
            Analysis::Latest => "/api/v1/latest?select=gauge&fields=value".to_string(),
            _ => promql(),
        })
    }

    fn values(&self, answer: &str) -> Result<usize> {
        let answer: Value = serde_json::from_str(answer).context("the answer is not JSON")?;
        if let Some(values) = promql_values(&answer) {
            return Ok(values);
        }
        let series = answer["series"]
            .as_array()
            .context("an answer without series")?;
        Ok(series
            .iter()
            .map(|series| series["times"].as_array().map_or(0, Vec::len))
            .sum())
    }

    fn remark(&self) -> String {
        "Seiner: default settings (journal synced every 100 ms), host sensors off; flushed by /api/v1/flush".to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_counts_are_parsed() {
        let answer = "measurement,tags,field,time,count\n\
            gauge,\"host=host_00012,region=eu-west,sensor=temp_35\",value,1641600000000000000,2500\n\
            gauge,\"host=host_00003,region=eu-west,sensor=volt_2\",value,1641600000000000000,7\n";
        let rows: Vec<(&str, u64)> = counts(answer).collect::<Result<_>>().unwrap();
        assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), 2507);
        assert_eq!(tag(rows[0].0, "host"), Some("host_00012"));
        assert_eq!(tag(rows[1].0, "sensor"), Some("volt_2"));
        assert_eq!(source_of("host_00012", "temp_35"), Some((12, 35)));
    }
}
