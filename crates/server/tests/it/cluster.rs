//! A port of a cluster: warnings about samples that cannot be read, metrics and status.

use crate::site::Site;
use seiner_model::{Batch, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey};
use seiner_server::{ClusterStatus, ClusterView, Extensions, NodeStatus};
use seiner_store::{
    Durability, Error, IsOver, MemoryStore, Piece, Query, Receipt, Results, Status, Store,
};
use serde_json::Value;
use std::sync::Arc;

const MISSING: &str = "the port does not answer";

/// Store whose answers lack the samples of another port.
struct Incomplete(MemoryStore);

impl Store for Incomplete {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        self.0.append(notation, batch)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        self.0.register(key)
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        self.0.append_columns(source, fields, columns)
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn is_durable(&self, position: u64) -> bool {
        self.0.is_durable(position)
    }

    fn wait_durable(&self, position: u64) -> Result<(), Error> {
        self.0.wait_durable(position)
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        self.0.delete(selector, interval)
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        self.0.measurements()
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        self.0.tag_names(selector)
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.0.tag_values(selector, tag, limit)
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        self.0.fields(selector)
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        self.0.sources(selector)
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        self.0.source_key(source)
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        let missing = Error::Damage {
            file: "journal 3 of port b".to_string(),
            offset: 0,
            what: MISSING.to_string(),
        };
        let rest = self.0.scan(query, is_over)?;
        Ok(Box::new(std::iter::once(Err(missing)).chain(rest)))
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn close(&self) -> Result<(), Error> {
        self.0.close()
    }
}

/// Cluster with two nodes, of which one is down.
struct View;

impl ClusterView for View {
    fn ports(&self) -> Result<Value, Error> {
        Ok(Value::Array(Vec::new()))
    }

    fn status(&self) -> ClusterStatus {
        let node = |is_up: bool| NodeStatus {
            address: "10.0.0.1:9042".to_string(),
            is_up,
        };
        ClusterStatus {
            port: "a".to_string(),
            unflushed_rows: 17,
            handover_lag_s: 2.5,
            requests: 9,
            nodes: vec![node(true), node(false)],
            trouble: self.trouble(),
            ..ClusterStatus::default()
        }
    }

    fn trouble(&self) -> Option<String> {
        Some("too few replicas answered".to_string())
    }

    fn better_port(&self, _rows_per_second: f64) -> Option<String> {
        None
    }

    fn able_ports(&self) -> Vec<String> {
        Vec::new()
    }

    fn hand_over(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_secret(&self, _text: &str) -> bool {
        false
    }

    fn exchange(&self, _request: &str, _body: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(Vec::new())
    }
}

fn port() -> Site {
    Site::extended(Extensions {
        store: Some(Arc::new(Incomplete(MemoryStore::new()))),
        cluster: Some(Arc::new(View)),
        ..Extensions::default()
    })
}

#[test]
fn answers_without_the_samples_of_a_port_say_so() {
    let site = port();
    site.write("m v=1 1\nm v=2 2");
    let path = "/api/v1/query?select=m&from=0ns&to=9ns";
    for more in ["", "&step=5ns&aggregate=mean", "&points=2"] {
        let answer = site.get(&format!("{path}{more}"));
        assert_eq!(answer.status, 200, "{more}: {}", answer.text);
        let answer = answer.json();
        let warning = answer["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains(MISSING), "{more}: {answer}");
        assert!(answer["series"][0].is_object(), "{more}: {answer}");
    }
    for format in ["csv", "arrow"] {
        let answer = site.get(&format!("{path}&format={format}"));
        assert_eq!(answer.status, 500, "{format}: {}", answer.text);
        assert!(answer.text.contains(MISSING), "{}", answer.text);
    }
}

#[test]
fn metrics_and_status_show_the_cluster_and_its_trouble() {
    let site = port();
    let text = site.get("/metrics").text;
    for line in [
        "seiner_cluster_unflushed_rows 17.0",
        "seiner_cluster_handover_lag_seconds 2.5",
        "seiner_cluster_requests_total 9",
        "seiner_cluster_nodes{state=\"up\"} 1.0",
        "seiner_cluster_nodes{state=\"down\"} 1.0",
        "seiner_cluster_trouble 1.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let status = site.get("/status").json();
    assert_eq!(status["cluster"]["port"], "a");
    assert_eq!(status["cluster"]["trouble"], "too few replicas answered");
    assert_eq!(status["warnings"][0], "too few replicas answered");
    let alone = Site::new().get("/metrics").text;
    assert!(
        !alone
            .lines()
            .any(|line| line.starts_with("seiner_cluster_"))
    );
}
