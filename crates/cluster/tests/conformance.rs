//! The tests of every store, on a cluster of one port.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

use seiner_cluster::ClusterStore;
use seiner_store::{Store, conformance};
use std::sync::Arc;
use world::World;

#[test]
fn a_port_conforms() {
    conformance::all(&|| World::new(1).port("a"));
}

/// The same with a handover after every write.
#[test]
fn a_port_conforms_while_it_hands_over() {
    conformance::all(&|| Arc::new(Eager(World::new(1).port("a"))));
}

/// Port that hands over all rows before it answers.
struct Eager(Arc<ClusterStore>);

impl Eager {
    fn store(&self) -> &ClusterStore {
        match self.0.hand_over() {
            Ok(()) => {
                let counts = self.0.counts();
                let kept = self.0.unflushed(&everything()).unwrap();
                assert_eq!(kept.rows, [], "{counts:?}");
            }
            // A closed port has handed over everything.
            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
        }
        &self.0
    }
}

/// Returns a query of all rows.
fn everything() -> Query {
    Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    }
}

use seiner_model::{Batch, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey};
use seiner_store::{Durability, Error, IsOver, Piece, Query, Receipt, Results, Status};

impl Store for Eager {
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
        self.store().delete(selector, interval)
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        self.store().measurements()
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        self.store().tag_names(selector)
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.store().tag_values(selector, tag, limit)
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        self.store().fields(selector)
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        self.store().sources(selector)
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        self.store().source_key(source)
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        self.store().scan(query, is_over)
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn close(&self) -> Result<(), Error> {
        self.0.close()
    }
}
