//! QuestDB, run by Java from the jar in Maven Central.

use super::analysis::Analysis;
use super::{Peer, Question, answers, data, host_and_sensor, source_of};
use crate::client::{Connection, encoded};
use crate::process::{DiskUse, Server, free_address};
use crate::workload::Workload;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// QuestDB from a jar, if there is one.
pub struct Questdb {
    /// Path of the jar.
    pub jar: Option<PathBuf>,
}

const REMEDY: &str = "not present: mvn dependency:copy -Dartifact=org.questdb:questdb:9.2.2 -DoutputDirectory=target, \
    then --questdb target/questdb-9.2.2.jar (needs java)";

fn query(text: &str) -> String {
    format!("/exec?query={}", encoded(text))
}

/// Returns a workload's interval as a condition. QuestDB counts in microseconds.
fn within(workload: &Workload) -> String {
    let (start, end) = workload.interval();
    format!("timestamp BETWEEN {} AND {}", start / 1000, end / 1000)
}

fn rows(answer: &str) -> Result<Vec<Value>> {
    let mut answer: Value = serde_json::from_str(answer).context("the answer is not JSON")?;
    match answer["dataset"].take() {
        Value::Array(rows) => Ok(rows),
        _ => anyhow::bail!("an answer without rows"),
    }
}

/// Returns the query for counts of values, one column per field.
fn counts(workload: &Workload) -> String {
    let columns: Vec<String> = (0..workload.fields)
        .map(|field| format!("count({})", workload.field(field)))
        .collect();
    columns.join(", ")
}

impl Questdb {
    fn applied(connection: &mut Connection) -> Result<bool> {
        let text = "SELECT count() FROM wal_tables() WHERE writerTxn < sequencerTxn";
        Ok(rows(&connection.get(&query(text))?.text()?)?[0][0] == 0)
    }
}

impl Peer for Questdb {
    fn name(&self) -> &'static str {
        "QuestDB"
    }

    fn version(&self) -> Result<String> {
        let jar = self.jar.as_deref().context(REMEDY)?;
        ensure!(jar.exists(), "{} does not exist; {REMEDY}", jar.display());
        Command::new("java")
            .arg("-version")
            .output()
            .context("java is not installed: apt-get install default-jre")?;
        let name = jar.file_stem().unwrap_or_default().to_string_lossy();
        Ok(format!("{} (Maven)", name.trim_start_matches("questdb-")))
    }

    fn spawn(&self, folder: &Path) -> Result<Server> {
        let address = free_address()?;
        fs::create_dir_all(data(folder))?;
        let mut command = Command::new("java");
        command
            .arg("-XX:+UseParallelGC")
            .arg("-p")
            .arg(self.jar.as_deref().context(REMEDY)?);
        command
            .args(["-m", "io.questdb/io.questdb.ServerMain", "-d"])
            .arg(data(folder));
        command.env("QDB_HTTP_NET_BIND_TO", address.to_string());
        for service in ["HTTP_MIN", "PG", "LINE_TCP", "TELEMETRY", "METRICS"] {
            command.env(format!("QDB_{service}_ENABLED"), "false");
        }
        Server::start(command, address, &folder.join("log"))
    }

    fn ready(&self, address: SocketAddr) -> bool {
        answers(address, &query("SELECT 1"))
    }

    fn write_target(&self) -> &'static str {
        "/write?precision=n"
    }

    fn flush(&self, connection: &mut Connection, folder: &Path) -> Result<bool> {
        let start = Instant::now();
        while !Questdb::applied(connection)? {
            if start.elapsed() > Duration::from_secs(300) {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(DiskUse::wait_until_stable(
            &data(folder),
            Duration::from_secs(8),
            Duration::from_secs(180),
        ))
    }

    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64> {
        let text = format!(
            "SELECT {} FROM gauge WHERE {}",
            counts(workload),
            within(workload)
        );
        let rows = rows(&connection.get(&query(&text))?.text()?)?;
        Ok(rows
            .first()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .sum())
    }

    fn stored_by_source(
        &self,
        connection: &mut Connection,
        workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>> {
        let text = format!(
            "SELECT host, sensor, {} FROM gauge WHERE {}",
            counts(workload),
            within(workload)
        );
        let rows = rows(&connection.get(&query(&text))?.text()?)?;
        let sums = rows.iter().filter_map(|row| {
            let cells = row.as_array()?;
            let source = source_of(cells.first()?.as_str()?, cells.get(1)?.as_str()?)?;
            Some((source, cells[2..].iter().filter_map(Value::as_u64).sum()))
        });
        Ok(sums.collect())
    }

    fn target(&self, question: Question, workload: &Workload) -> String {
        let (field, within) = (workload.field(0), within(workload));
        query(&match question {
            Question::Series { host, sensor } => {
                let (host, sensor) = host_and_sensor(host, sensor);
                format!(
                    "SELECT timestamp, {field} FROM gauge WHERE host='{host}' AND sensor='{sensor}' AND {within}"
                )
            }
            Question::MinuteMeans { host } => {
                let (host, _) = host_and_sensor(host, 0);
                format!(
                    "SELECT timestamp, sensor, avg({field}) FROM gauge WHERE host='{host}' AND {within} SAMPLE BY 1m"
                )
            }
        })
    }

    fn analysis(&self, analysis: Analysis, run: usize, workload: &Workload) -> Option<String> {
        let (field, within) = (workload.field(0), within(workload));
        let (host, sensor) = Analysis::series(run, workload);
        // The latest value of each series in each minute.
        let latest = format!(
            "SELECT timestamp, region, host, sensor, last({field}) v FROM gauge WHERE {within} SAMPLE BY 1m"
        );
        let text = match analysis {
            Analysis::Series => {
                return Some(self.target(Question::Series { host, sensor }, workload));
            }
            Analysis::HostMeans => {
                return Some(self.target(Question::MinuteMeans { host }, workload));
            }
            Analysis::Means => format!(
                "SELECT timestamp, host, sensor, avg({field}) FROM gauge WHERE {within} SAMPLE BY 1m"
            ),
            Analysis::Sum => format!(
                "SELECT timestamp, region, sum(v) FROM ({latest}) GROUP BY timestamp, region"
            ),
            Analysis::Percentile => {
                format!(
                    "SELECT timestamp, approx_percentile(v, 0.99, 3) FROM ({latest}) GROUP BY timestamp"
                )
            }
            Analysis::Latest => {
                "SELECT * FROM gauge LATEST ON timestamp PARTITION BY host, region, sensor"
                    .to_string()
            }
            // SQL of QuestDB has no rate of counters, and no ten highest per minute without a join.
            Analysis::Rate | Analysis::Top => return None,
        };
        Some(query(&text))
    }

    fn values(&self, answer: &str) -> Result<usize> {
        Ok(rows(answer)?.len())
    }

    fn remark(&self) -> String {
        "QuestDB: default settings, services other than HTTP off; flushed when its write-ahead log is applied".to_string()
    }
}
