//! Runs the tests that every store must pass on the engine.

use seiner_engine::{Engine, Options};
use seiner_store::{Store, conformance};
use std::sync::{Arc, Mutex};

#[test]
fn the_engine_conforms() {
    let directories = Mutex::new(Vec::new());
    conformance::all(&|| {
        let directory = tempfile::tempdir().unwrap();
        let store = Engine::open_directory(directory.path(), Options::default()).unwrap();
        directories.lock().unwrap().push(directory);
        store as Arc<dyn Store>
    });
}
