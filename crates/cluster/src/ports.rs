//! Directory of ports: the address, load and health of every port, published as rows that expire.

use crate::rows::{Level, Range, Row, Rows, RowsError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Name of the table.
pub(crate) const TABLE: &str = "ports";
const PARTITION: &[u8] = b"ports";
const SECRET: &[u8] = b"secret";
/// Life of an entry. A port publishes itself much more often.
pub(crate) const LIFE: Duration = Duration::from_secs(30);

/// Port as it publishes itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortInfo {
    /// Name.
    pub name: String,
    /// Address of its HTTP port, `host:port`.
    pub address: String,
    /// Samples that the port accepted per second, lately.
    pub samples_per_second: f64,
    /// Rows that the port accepted per second, lately.
    #[serde(default)]
    pub rows_per_second: f64,
    /// Share of its limit of rows that are not handed over, 0 to 1. A port at 1 slows its writers.
    pub fill: f64,
    /// Rows that are not handed over.
    pub unflushed_rows: u64,
    /// Age of the oldest of these rows, at most: the time since the last handover, in seconds.
    pub handover_lag_s: f64,
    /// Reason why the port accepts nothing at present, or acknowledges late.
    pub trouble: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Wall time of the port, ns.
    pub time: i64,
}

impl PortInfo {
    /// Returns the share of new load that the port should get, relative to others: 0 for a port in trouble.
    ///
    /// A port with half the rate of the others gets twice their weight, so that rates become equal.
    pub fn weight(&self, mean_rate: f64) -> f64 {
        if self.trouble.is_some() || self.fill >= 1.0 {
            return 0.0;
        }
        let rate = self.samples_per_second.max(mean_rate / 10.0).max(1.0);
        (mean_rate.max(1.0) / rate).clamp(0.1, 10.0) * (1.0 - self.fill)
    }
}

/// Publishes a port.
///
/// # Errors
/// If no replica answers.
pub(crate) fn publish(rows: &dyn Rows, info: &PortInfo) -> Result<(), RowsError> {
    let row = Row {
        table: TABLE.into(),
        partition: PARTITION.to_vec(),
        key: info.name.clone().into_bytes(),
        value: serde_json::to_vec(info).expect("a port consists of texts and numbers"),
        life: Some(LIFE),
    };
    rows.write(vec![row], Level::One)
}

/// Removes a port from the directory.
///
/// # Errors
/// If no replica answers.
pub(crate) fn withdraw(rows: &dyn Rows, name: &str) -> Result<(), RowsError> {
    rows.remove(TABLE, PARTITION, Some(name.as_bytes()), Level::One)
}

/// Returns all ports, by name. Entries that cannot be read are omitted.
///
/// # Errors
/// If no replica answers.
pub(crate) fn list(rows: &dyn Rows) -> Result<Vec<PortInfo>, RowsError> {
    let range = Range::whole(TABLE, PARTITION);
    let found = rows.range(&range, Level::One)?.into_iter();
    let ports = found.filter_map(|(_, value)| serde_json::from_slice(&value).ok());
    Ok(ports.collect())
}

/// Returns the secret that the ports of a cluster show to each other. The first port stores its own proposal.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn secret(rows: &dyn Rows, proposal: &str) -> Result<String, RowsError> {
    let found = rows.swap(TABLE, SECRET, SECRET, None, proposal.as_bytes())?;
    Ok(match found {
        crate::rows::Swap::Found(Some(found)) => String::from_utf8_lossy(&found).into_owned(),
        _ => proposal.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(rate: f64, fill: f64) -> PortInfo {
        PortInfo {
            samples_per_second: rate,
            fill,
            ..PortInfo::default()
        }
    }

    #[test]
    fn a_port_with_less_load_gets_more_weight() {
        let mean = 100.0;
        let weights = [10.0, 50.0, 100.0, 200.0].map(|rate| port(rate, 0.0).weight(mean));
        assert!(weights.is_sorted_by(|a, b| a > b), "{weights:?}");
        assert_eq!(weights[1], 2.0 * weights[2]);
        assert_eq!(port(0.0, 1.0).weight(mean), 0.0);
        let troubled = PortInfo {
            trouble: Some("no replica answers".to_string()),
            ..port(1.0, 0.0)
        };
        assert_eq!(troubled.weight(mean), 0.0);
    }
}
