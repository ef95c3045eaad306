//! A store whose gates open on request: one for appends, one for durability.

use seiner_model::{Batch, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey};
use seiner_store::{
    Durability, Error, IsOver, MemoryStore, Piece, Query, Receipt, Results, Status, Store,
};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex};

#[derive(Default)]
struct Open {
    appends: bool,
    durability: bool,
}

/// Store in memory with gates. Both are closed at first.
pub struct Gate {
    store: MemoryStore,
    open: Mutex<Open>,
    opened: Condvar,
    /// Number of appends that were rejected.
    pub rejected: AtomicUsize,
    /// Number of calls that waited for durability.
    pub waits: AtomicUsize,
}

impl Gate {
    pub fn new() -> Gate {
        Gate {
            store: MemoryStore::new(),
            open: Mutex::default(),
            opened: Condvar::new(),
            rejected: AtomicUsize::new(0),
            waits: AtomicUsize::new(0),
        }
    }

    pub fn open_appends(&self) {
        self.open.lock().unwrap().appends = true;
    }

    pub fn open_durability(&self) {
        self.open.lock().unwrap().durability = true;
        self.opened.notify_all();
    }
}

impl Store for Gate {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        if !self.open.lock().unwrap().appends {
            self.rejected.fetch_add(1, SeqCst);
            return Err(Error::Poisoned("the gate is closed".to_string()));
        }
        self.store.append(notation, batch)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        self.store.register(key)
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        self.store.append_columns(source, fields, columns)
    }

    fn durability(&self) -> Durability {
        Durability::Interval(std::time::Duration::from_secs(3600))
    }

    fn is_durable(&self, _position: u64) -> bool {
        self.open.lock().unwrap().durability
    }

    fn wait_durable(&self, _position: u64) -> Result<(), Error> {
        self.waits.fetch_add(1, SeqCst);
        let open = self.open.lock().unwrap();
        drop(
            self.opened
                .wait_while(open, |open| !open.durability)
                .unwrap(),
        );
        Ok(())
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        self.store.delete(selector, interval)
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        self.store.measurements()
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        self.store.tag_names(selector)
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.store.tag_values(selector, tag, limit)
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        self.store.fields(selector)
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        self.store.sources(selector)
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        self.store.source_key(source)
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        self.store.scan(query, is_over)
    }

    fn status(&self) -> Status {
        self.store.status()
    }

    fn close(&self) -> Result<(), Error> {
        self.store.close()
    }
}
