//! Memory of running queries, which the store counts with its other memory: buffers are sealed
//! earlier while queries use much.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of running queries, and the memory that they may use.
#[derive(Debug, Default)]
pub struct QueryMemory {
    queries: AtomicUsize,
    bytes: AtomicUsize,
    /// Mark of the queries that began in the present epoch.
    epoch: Mutex<Arc<()>>,
}

/// Queries that began before a moment.
#[derive(Debug)]
pub struct Epoch(Arc<()>);

impl Epoch {
    /// Returns whether all of them have ended.
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// Share of a query in this memory. The share ends when it is dropped.
#[derive(Debug)]
pub struct QueryShare {
    memory: Arc<QueryMemory>,
    queries: usize,
    bytes: usize,
    _epoch: Option<Arc<()>>,
}

impl QueryMemory {
    /// Returns the memory of all running queries, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of `most` that one query may use: all, or less if many queries share `pool`.
    pub fn fair(&self, most: usize, pool: usize, least: usize) -> usize {
        let queries = self.queries.load(Ordering::Relaxed).max(1);
        most.min(pool / queries).max(least)
    }

    /// Counts a query and its bytes until the share is dropped.
    pub fn begin(self: &Arc<Self>, bytes: usize) -> QueryShare {
        self.queries.fetch_add(1, Ordering::Relaxed);
        let mut share = self.charge(bytes);
        share.queries = 1;
        share._epoch = Some(self.epoch.lock().clone());
        share
    }

    /// Ends the present epoch. Returns its queries. Those of earlier epochs may run, too.
    pub fn end_epoch(&self) -> Epoch {
        Epoch(std::mem::take(&mut self.epoch.lock()))
    }

    /// Counts bytes until the share is dropped.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> QueryShare {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        QueryShare {
            memory: self.clone(),
            queries: 0,
            bytes,
            _epoch: None,
        }
    }
}

impl Drop for QueryShare {
    fn drop(&mut self) {
        self.memory
            .queries
            .fetch_sub(self.queries, Ordering::Relaxed);
        self.memory.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_share_a_pool_until_they_end() {
        let memory = Arc::new(QueryMemory::default());
        assert_eq!(memory.fair(8, 16, 1), 8);
        let shares: Vec<QueryShare> = (0..4).map(|_| memory.begin(50)).collect();
        assert_eq!(memory.fair(8, 16, 1), 4);
        assert_eq!(memory.fair(8, 16, 5), 5, "a query has a least share");
        let list = memory.charge(100);
        assert_eq!(memory.bytes(), 300);
        let epoch = memory.end_epoch();
        assert!(!epoch.is_over());
        let later = memory.begin(0);
        drop((shares, list));
        assert!(epoch.is_over() && !memory.end_epoch().is_over());
        drop(later);
        assert_eq!((memory.fair(8, 16, 1), memory.bytes()), (8, 0));
    }
}
