//! Prometheus as a receiver of remote write.

use super::analysis::{Analysis, promql_values};
use super::{Peer, Question, answers, data, packaged};
use crate::client::Connection;
use crate::process::{DiskUse, Server, free_address};
use crate::protocol::{Body, Protocol};
use crate::workload::Workload;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Prometheus of the Debian package.
pub struct Prometheus;

impl Peer for Prometheus {
    fn name(&self) -> &'static str {
        "Prometheus"
    }

    fn version(&self) -> Result<String> {
        packaged("prometheus", "prometheus")
    }

    fn spawn(&self, folder: &Path) -> Result<Server> {
        let address = free_address()?;
        let settings = folder.join("prometheus.yml");
        std::fs::write(&settings, "global:\n  scrape_interval: 1h\n")?;
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--storage.tsdb.path={}", data(folder).display()))
            .arg(format!("--web.listen-address={address}"))
            .args([
                "--web.enable-remote-write-receiver",
                "--query.max-samples=500000000",
                "--storage.tsdb.retention.time=100y",
                "--query.timeout=10m",
            ]);
        Server::start(command, address, &folder.join("log"))
    }

    fn ready(&self, address: SocketAddr) -> bool {
        answers(address, "/-/ready")
    }

    fn write_target(&self) -> &'static str {
        "/api/v1/write"
    }

    fn body(&self, lines: &[u8]) -> Result<Body> {
        Protocol::RemoteWrite.body(lines)
    }

    fn flush(&self, _connection: &mut Connection, folder: &Path) -> Result<bool> {
        Ok(DiskUse::wait_until_stable(
            &data(folder),
            Duration::from_secs(4),
            Duration::from_secs(180),
        ))
    }

    fn stored(&self, connection: &mut Connection, workload: &Workload) -> Result<u64> {
        super::victoria::stored(connection, workload)
    }

    fn stored_by_source(
        &self,
        _connection: &mut Connection,
        _workload: &Workload,
    ) -> Result<HashMap<(u32, u32), u64>> {
        bail!("Prometheus takes no part in comparisons by source")
    }

    fn target(&self, question: Question, workload: &Workload) -> String {
        let (analysis, run) = match question {
            Question::Series { .. } => (Analysis::Series, 0),
            Question::MinuteMeans { .. } => (Analysis::HostMeans, 0),
        };
        analysis.promql(run, workload, &workload.metric(), ("", ""))
    }

    fn analysis(&self, analysis: Analysis, run: usize, workload: &Workload) -> Option<String> {
        Some(analysis.promql(run, workload, &workload.metric(), ("", "")))
    }

    fn values(&self, answer: &str) -> Result<usize> {
        let answer = serde_json::from_str(answer).context("the answer is not JSON")?;
        promql_values(&answer).context("an answer without a result")
    }

    fn remark(&self) -> String {
        "Prometheus: default settings except for the receiver of remote write and higher limits; by query and query_range"
            .to_string()
    }
}
