//! The store in memory does what every store does.

use seiner_store::{MemoryStore, conformance};
use std::sync::Arc;

#[test]
fn the_store_in_memory_conforms() {
    conformance::all(&|| Arc::new(MemoryStore::new()));
}
