//! Counters of a table, from the node.

use super::side::TABLE;
use anyhow::{Context, Result};
use seiner_cassandra::local::LocalCluster;
use serde::Serialize;
use serde_json::Value;

/// Bytes and tasks of a table since its creation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counters {
    /// Bytes of files written by flushes.
    pub flushed: u64,
    /// Bytes of files written by compactions.
    pub compacted: u64,
    /// Compactions that wrote a file.
    pub merges: usize,
    /// Compactions that only dropped files.
    pub drops: usize,
}

impl Counters {
    /// Reads the counters of the table of a keyspace.
    pub fn read(nodes: &LocalCluster, keyspace: &str) -> Result<Counters> {
        let history = nodes.tool(1, &["compactionhistory", "-F", "json"])?;
        let (merges, drops) = tasks(&history, keyspace)?;
        Ok(Counters {
            flushed: counter(nodes, keyspace, "BytesFlushed")?,
            compacted: counter(nodes, keyspace, "CompactionBytesWritten")?,
            merges,
            drops,
        })
    }

    /// Returns the bytes of all files that were written.
    pub fn written(&self) -> u64 {
        self.flushed + self.compacted
    }
}

/// Reads a counter of the table.
fn counter(nodes: &LocalCluster, keyspace: &str, name: &str) -> Result<u64> {
    let bean = format!(
        "org.apache.cassandra.metrics:type=Table,keyspace={keyspace},scope={TABLE},name={name}"
    );
    let text = nodes.tool(1, &["sjk", "mx", "-mg", "-b", &bean, "-f", "Count"])?;
    number(&text).with_context(|| format!("the counter {name} of {keyspace} in {text:?}"))
}

/// Returns the number in the last line of an output, after the name of the bean.
fn number(text: &str) -> Option<u64> {
    let last = text.lines().rfind(|line| !line.trim().is_empty())?;
    last.split_whitespace().next_back()?.parse().ok()
}

/// Returns the number of compactions that wrote files, and of those that did not.
fn tasks(history: &str, keyspace: &str) -> Result<(usize, usize)> {
    let history: Value = serde_json::from_str(history).context("the history of compactions")?;
    // The list is missing if it is empty.
    let list = history["CompactionHistory"].as_array();
    let own = list
        .into_iter()
        .flatten()
        .filter(|task| task["keyspace_name"] == keyspace && task["columnfamily_name"] == TABLE);
    let bytes_out = own.map(|task| match &task["bytes_out"] {
        Value::String(text) => text.parse().unwrap_or_default(),
        value => value.as_u64().unwrap_or_default(),
    });
    let written: Vec<u64> = bytes_out.collect();
    let merges = written.iter().filter(|bytes| **bytes > 0).count();
    Ok((merges, written.len() - merges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_outputs() {
        assert_eq!(number("metrics:type=Table\n344\n"), Some(344));
        assert_eq!(number("no such bean"), None);
        let history = r#"{ "CompactionHistory": [
            {"keyspace_name": "windows", "columnfamily_name": "blocks", "bytes_out": "12"},
            {"keyspace_name": "windows", "columnfamily_name": "blocks", "bytes_out": 0},
            {"keyspace_name": "system", "columnfamily_name": "local", "bytes_out": "9"} ] }"#;
        assert_eq!(tasks(history, "windows").ok(), Some((1, 1)));
        assert_eq!(tasks("{ }", "windows").ok(), Some((0, 0)));
    }
}
