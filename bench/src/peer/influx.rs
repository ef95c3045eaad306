//! InfluxDB 1.x.

use super::{Peer, Question, answers, data, host_and_sensor, packaged, source_of};
use crate::client::{Connection, encoded};
use crate::process::{DiskUse, Server, free_address};
use crate::workload::Workload;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// InfluxDB of the Debian package.
#[derive(Default)]
pub struct Influx {
    /// True for the shortest retention that InfluxDB accepts, an hour. False for no retention: all
    /// rows are kept.
    pub shortest: bool,
}

fn query(text: &str) -> String {
    format!("/query?db=bench&epoch=ns&q={}", encoded(text))
}

fn within(workload: &Workload) -> String {
    let (start, end) = workload.interval();
    format!("time >= {start} AND time <= {end}")
}

/// Returns the series of an answer: tags and rows.
fn series(answer: &str) -> Result<Vec<Value>> {
    let mut answer: Value = serde_json::from_str(answer).context("the answer is not JSON")?;
    let result = &mut answer["results"][0];
    if let Some(error) = result["error"].as_str() {
        anyhow::bail!("the query failed: {error}");
    }
    Ok(match result["series"].take() {
        Value::Array(series) => series,
        _ => Vec::new(),
    })
}

/// Returns the sum of the counts in the first row. The first cell of the row is a time.
fn counts(series: &Value) -> u64 {
    let row = series["values"][0].as_array();
    row.map_or(0, |row| row.iter().skip(1).filter_map(Value::as_u64).sum())
}

impl Peer for Influx {
    fn name(&self) -> &'static str {
        "InfluxDB"
    }

    fn version(&self) -> Result<String> {
        packaged("influxd", "influxdb")
    }

    fn spawn(&self, folder: &Path) -> Result<Server> {
        let (address, inner) = (free_address()?, free_address()?);
        let at = |name: &str| data(folder).join(name).display().to_string();
        let settings = format!(
            "reporting-disabled = true\nbind-address = \"{inner}\"\n[meta]\ndir = \"{}\"\n\
             [data]\ndir = \"{}\"\nwal-dir = \"{}\"\nmax-series-per-database = 0\nmax-values-per-tag = 0\n\
             cache-snapshot-write-cold-duration = \"5s\"\ncompact-full-write-cold-duration = \"5s\"\n\
             [retention]\ncheck-interval = \"1m\"\n[http]\nbind-address = \"{address}\"\nlog-enabled = false\n[monitor]\nstore-enabled = false\n",
            at("meta"),
            at("data"),
            at("wal")
        );
        fs::create_dir_all(folder)?;
        fs::write(folder.join("influxdb.conf"), settings)?;
        let mut command = Command::new("influxd");
        command
            .arg("run")
            .arg("-config")
            .arg(folder.join("influxdb.conf"));
        Server::start(command, address, &folder.join("log"))
    }

    fn ready(&self, address: SocketAddr) -> bool {
        answers(address, "/ping")
    }

    fn prepare(&self, connection: &mut Connection) -> Result<()> {
        let keep = match self.shortest {
            true => " WITH DURATION 1h SHARD DURATION 1h",
            false => "",
        };
        connection
            .post(&query(&format!("CREATE DATABASE bench{keep}")), b"")?
            .text()
            .map(drop)
    }

    fn write_target(&self) -> &'static str {
        "/write?db=bench&precision=ns"
    }

    fn flush(&self, _connection: &mut Connection, folder: &Path) -> Result<bool> {
        Ok(DiskUse::wait_until_stable(
            &data(folder),
            Duration::from_secs(20),
            Duration::from_secs(300),
        ))
    }

    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64> {
        let text = format!("SELECT count(*) FROM gauge WHERE {}", within(workload));
        Ok(series(&connection.get(&query(&text))?.text()?)?
            .first()
            .map_or(0, counts))
    }

    fn stored_by_source(
        &self,
        connection: &mut Connection,
        workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>> {
        let text = format!(
            "SELECT count(*) FROM gauge WHERE {} GROUP BY host, sensor",
            within(workload)
        );
        let series = series(&connection.get(&query(&text))?.text()?)?;
        let counts = series.iter().filter_map(|series| {
            let tag = |name: &str| series["tags"][name].as_str().unwrap_or_default();
            Some((source_of(tag("host"), tag("sensor"))?, counts(series)))
        });
        Ok(counts.collect())
    }

    fn target(&self, question: Question, workload: &Workload) -> String {
        let (field, within) = (workload.field(0), within(workload));
        query(&match question {
            Question::Series { host, sensor } => {
                let (host, sensor) = host_and_sensor(host, sensor);
                format!(
                    "SELECT {field} FROM gauge WHERE host='{host}' AND sensor='{sensor}' AND {within}"
                )
            }
            Question::MinuteMeans { host } => {
                let (host, _) = host_and_sensor(host, 0);
                format!(
                    "SELECT mean({field}) FROM gauge WHERE host='{host}' AND {within} \
                     GROUP BY time(1m), sensor fill(none)"
                )
            }
        })
    }

    fn values(&self, answer: &str) -> Result<usize> {
        Ok(series(answer)?
            .iter()
            .map(|series| series["values"].as_array().map_or(0, Vec::len))
            .sum())
    }

    fn remark(&self) -> String {
        "InfluxDB: default settings, except for no limits on series; files are written and merged after 5 s without \
         writes instead of 10 min and 4 h, so that it is flushed soon; it syncs its journal at every write"
            .to_string()
    }
}
