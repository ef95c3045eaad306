//! What all ports of one server share.

use crate::device::Device;
use crate::figures::{ProcessFigures, Volume};
use crate::gate::Gate;
use crate::ground::{self, Ground};
use crate::health::{self, Trouble};
use crate::history::History;
use crate::meters::Meters;
use crate::settings::Settings;
use prometheus_client::registry::Registry;
use seiner_engine::{ClassStatus, Engine, Status};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// From this share of the budget on a writer may have to wait for room: well before it has to.
const TIGHT: f64 = 0.8;

/// Reports made at the same time: none takes long, so that more come from somebody who does not
/// wait for them.
const REPORTS: usize = 8;

/// The store and what surrounds it.
pub struct Station {
    /// The store.
    pub engine: Arc<Engine>,
    /// What it lies on, if not in a directory.
    pub ground: Option<Arc<dyn Ground>>,
    /// Its settings.
    pub settings: Settings,
    /// What passes the ports.
    pub meters: Arc<Meters>,
    /// All figures, for `/metrics`.
    pub registry: Registry,
    /// What was written lately.
    pub history: Arc<History>,
    /// Whether the store is so full that a writer may have to wait for room.
    pub tight: AtomicBool,
    /// Places for writes.
    pub writes: Gate,
    /// Places for queries.
    pub queries: Gate,
    /// The place for a plan: one takes a processor for seconds, and some hundred MiB.
    pub plans: Gate,
    /// Places for figures and for sealing, which wait for the merge at hand.
    pub reports: Gate,
    /// When the server started.
    pub started: Instant,
}

impl Station {
    /// A station around a store.
    pub fn new(
        engine: Arc<Engine>,
        ground: Option<Arc<dyn Ground>>,
        settings: Settings,
    ) -> Station {
        let meters = Arc::new(Meters::new());
        // An array has several, and counts its own.
        let device = match ground {
            Some(_) => None,
            None => Device::of(&settings.data),
        };
        let history = Arc::new(History::new(device, &engine.status()));
        Station {
            registry: crate::metrics::registry(
                engine.clone(),
                meters.clone(),
                history.clone(),
                settings.device_tbw,
            ),
            history,
            tight: AtomicBool::new(false),
            writes: Gate::new(
                settings.max_requests,
                "writes are",
                "max_requests",
                meters.clone(),
            ),
            queries: Gate::new(
                settings.max_queries,
                "queries are",
                "max_queries",
                meters.clone(),
            ),
            plans: Gate::fixed(1, "plan is", meters.clone()),
            reports: Gate::fixed(REPORTS, "reports are", meters.clone()),
            started: Instant::now(),
            engine,
            ground,
            settings,
            meters,
        }
    }

    /// Where the store is, for people.
    pub fn place(&self) -> String {
        match &self.ground {
            Some(ground) => ground.name(),
            None => self.settings.data.display().to_string(),
        }
    }

    /// The room of what the store lies on.
    pub fn volume(&self) -> Volume {
        match &self.ground {
            Some(ground) => ground::volume(&**ground),
            None => Volume::of(&self.settings.data),
        }
    }

    /// Returns the troubles of the store and of what surrounds it, the worst first. Asks the file system for its space.
    pub fn troubles(&self, status: &Status, classes: &[ClassStatus]) -> Vec<Trouble> {
        let store = health::of_store(status, classes, &self.engine.losses());
        let around = match &self.ground {
            Some(ground) => ground.warnings(),
            None => health::surroundings(&self.volume(), &ProcessFigures::now()),
        };
        health::with_surroundings(store, around)
    }

    /// Does what may have to wait for room in the store. Where that is likely, other tasks of this
    /// thread are given to another first.
    pub fn with_patience<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.tight.load(Relaxed) {
            true => tokio::task::block_in_place(work),
            false => work(),
        }
    }

    /// Looks at the store; called about once a second.
    pub fn tick(&self) {
        let status = self.engine.status();
        self.meters
            .tick(status.rows_accepted, status.samples_accepted);
        self.history.note(&status);
        let tight = status.disk_used as f64 >= TIGHT * status.disk_budget as f64;
        self.tight.store(tight, Relaxed);
    }
}
