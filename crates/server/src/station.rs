//! What all ports of one server share.

use crate::gate::Gate;
use crate::meters::Meters;
use crate::settings::Settings;
use prometheus_client::registry::Registry;
use seiner_engine::Engine;
use std::sync::Arc;
use std::time::Instant;

/// The store and what surrounds it.
pub struct Station {
    /// The store.
    pub engine: Arc<Engine>,
    /// Its settings.
    pub settings: Settings,
    /// What passes the ports.
    pub meters: Arc<Meters>,
    /// All figures, for `/metrics`.
    pub registry: Registry,
    /// Places for writes.
    pub writes: Gate,
    /// Places for queries.
    pub queries: Gate,
    /// When the server started.
    pub started: Instant,
}

impl Station {
    /// A station around a store.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Station {
        let meters = Arc::new(Meters::new());
        Station {
            registry: crate::metrics::registry(engine.clone(), meters.clone()),
            writes: Gate::new(
                settings.max_requests,
                "writes",
                "max_requests",
                meters.clone(),
            ),
            queries: Gate::new(
                settings.max_queries,
                "queries",
                "max_queries",
                meters.clone(),
            ),
            started: Instant::now(),
            engine,
            settings,
            meters,
        }
    }
}
