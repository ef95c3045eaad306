//! Application state that all ports of a server share.

use crate::access::{Access, LimitedStore, Token};
use crate::alerts::AlertState;
use crate::array;
use crate::cluster_view::ClusterView;
use crate::device::Device;
use crate::health::{self, Trouble};
use crate::history::History;
use crate::limiter::{ByteLimiter, Limiter, MAX_WHOLE_BODY};
use crate::line_limit::LineLimit;
use crate::metric_metadata::MetricMetadata;
use crate::metrics::{self, StoreCollector};
use crate::mqtt::MqttState;
use crate::plan::Planner;
use crate::port;
use crate::scrape::ScrapeState;
use crate::secure::Link;
use crate::settings::Settings;
use crate::sql_program::SqlProgram;
use crate::statsd::StatsdState;
use crate::storage_target::{self, StorageTarget};
use crate::system::{FileSystem, ProcessStats};
use crate::tls::{Inside, Tls, begins_tls};
use crate::traffic::TrafficCounters;
use crate::udp_drops::UdpDrops;
use prometheus_client::registry::Registry;
use seiner_model::Selector;
use seiner_store::{ClassStatus, Status, Store};
use seiner_wire::collectd::Packets;
use std::io;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Instant;
use tokio::net::TcpStream;

/// Share of the budget from which a writer may have to wait for space, with a margin.
const TIGHT: f64 = 0.8;

/// Maximum number of concurrent reports. A report takes a short time. More concurrent reports come from clients that
/// do not wait for the answers.
const REPORTS: usize = 8;

/// Memory of the store for each concurrent query, in bytes. A scan of a year at 1 Hz uses about 12 MiB.
const QUERY_MEMORY: u64 = 16 << 20;
/// Divisor of the memory budget that gives the memory for bodies in memory as a whole.
const BODIES_SHARE: u64 = 8;
/// Minimum memory for bodies: twice the largest one, before and after decompression.
const LEAST_BODIES: u64 = 2 * MAX_WHOLE_BODY;
/// Divisor of the memory budget that gives the memory for the names of scraped series, and the minimum in bytes.
const NAMES_SHARE: u64 = 16;
const LEAST_NAMES: u64 = 16 << 20;
/// Concurrent queries that a store with little memory permits.
const FEW_QUERIES: u64 = 4;

/// Parts that the program around the server provides.
#[derive(Clone, Default)]
pub struct Extensions {
    /// Storage target, if the store is not in a directory.
    pub target: Option<Arc<dyn StorageTarget>>,
    /// Planner for the page. Without one, `/api/v1/plan` answers 404.
    pub planner: Option<Arc<dyn Planner>>,
    /// Store that is open. Without one, the server opens a store on the target or in the data directory.
    pub store: Option<Arc<dyn Store>>,
    /// Cluster, if the store is a port of one.
    pub cluster: Option<Arc<dyn ClusterView>>,
}

/// Store with the parts of the server around it.
pub struct AppState {
    /// The store, or the part of it that a token may use.
    pub store: Arc<dyn Store>,
    /// Metadata of metrics, which senders of remote write report.
    pub metric_metadata: Arc<MetricMetadata>,
    shared: Arc<Shared>,
}

/// Parts of the state that do not depend on the token of a request.
pub struct Shared {
    /// Tokens.
    pub access: Arc<Access>,
    /// TLS of the ports, if there is a certificate.
    pub tls: Option<Tls>,
    /// Storage target, if it is not a directory.
    pub target: Option<Arc<dyn StorageTarget>>,
    /// Planner, if the program has one.
    pub planner: Option<Arc<dyn Planner>>,
    /// Cluster, if the store is a port of one.
    pub cluster: Option<Arc<dyn ClusterView>>,
    /// Program that answers SQL.
    pub sql: SqlProgram,
    /// Settings of the server.
    pub settings: Settings,
    /// Counters of all ports.
    pub traffic: Arc<TrafficCounters>,
    /// All metrics, for `/metrics`.
    pub registry: Registry,
    /// Limit of the lines of the log about requests.
    pub request_lines: LineLimit,
    /// Bytes written lately.
    pub history: Arc<History>,
    /// True if the store is so full that a writer may have to wait for space.
    pub tight: AtomicBool,
    /// Permits for writes.
    pub writes: Limiter,
    /// Permits for the bytes of bodies that must be in memory as a whole.
    pub bodies: ByteLimiter,
    /// State of MQTT.
    pub mqtt: Arc<MqttState>,
    /// Metrics of StatsD in the present interval.
    pub statsd: Arc<StatsdState>,
    /// Rules of alerts, from the opening of the ports on.
    pub alerts: Arc<OnceLock<AlertState>>,
    /// Decoder of packets of collectd, from its port's opening on.
    pub collectd: OnceLock<Packets>,
    /// State of scraping.
    pub scrape: Arc<ScrapeState>,
    /// Permits for queries.
    pub queries: Limiter,
    /// Permit for a plan: a plan takes a processor for seconds, and some hundred MiB.
    pub plans: Limiter,
    /// Permits for reports and for flushes, which wait for the present merge.
    pub reports: Limiter,
    /// Lock for changes of dashboards, so that a change sees the one before.
    pub dashboards: Mutex<()>,
    /// Sockets of UDP whose dropped datagrams are counted.
    pub udp_drops: UdpDrops,
    /// Time of the server's start.
    pub started: Instant,
}

/// Returns the number of concurrent queries for a setting and for the memory budget of the store in bytes, 0 if
/// it has none.
fn concurrent_queries(setting: usize, memory: u64) -> usize {
    match memory {
        0 => setting,
        _ => setting.min((memory / QUERY_MEMORY).max(FEW_QUERIES) as usize),
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl AppState {
    /// Returns the rules. There are none before the ports are open.
    pub fn alerts(&self) -> &AlertState {
        static NONE: LazyLock<AlertState> = LazyLock::new(AlertState::default);
        self.alerts.get().unwrap_or(&NONE)
    }

    /// Creates the state around a store.
    pub fn new(
        store: Arc<dyn Store>,
        extensions: Extensions,
        settings: Settings,
        (access, tls): (Access, Option<Tls>),
    ) -> AppState {
        let Extensions {
            target,
            planner,
            cluster,
            store: _,
        } = extensions;
        let traffic = Arc::new(TrafficCounters::new());
        // An array has several devices, and counts its own writes.
        let device = match target {
            Some(_) => None,
            None => Device::of(&settings.data),
        };
        let status = store.status();
        let memory = status.memory_budget;
        let history = Arc::new(History::new(device, &status));
        let mqtt = Arc::new(MqttState::new(&settings.mqtt));
        let statsd = Arc::new(StatsdState::new(&settings.statsd));
        let names = (memory / NAMES_SHARE).max(LEAST_NAMES) as usize;
        let scrape = Arc::new(ScrapeState::new(&settings.scrape, names));
        let access = Arc::new(access);
        let alerts = Arc::new(OnceLock::new());
        let shared = Shared {
            registry: metrics::registry(StoreCollector {
                store: store.clone(),
                traffic: traffic.clone(),
                history: history.clone(),
                cluster: cluster.clone(),
                mqtt: mqtt.clone(),
                scrape: scrape.clone(),
                alerts: alerts.clone(),
                statsd: statsd.clone(),
                access: access.clone(),
                device_tbw: settings.device_tbw,
            }),
            request_lines: LineLimit::default(),
            history,
            tight: AtomicBool::new(false),
            writes: Limiter::new(
                settings.max_requests,
                "writes are",
                "max_requests",
                traffic.clone(),
            ),
            bodies: ByteLimiter::new((memory / BODIES_SHARE).max(LEAST_BODIES), traffic.clone()),
            mqtt,
            statsd,
            collectd: OnceLock::new(),
            alerts,
            scrape,
            queries: Limiter::new(
                concurrent_queries(settings.max_queries, memory),
                "queries are",
                "max_queries",
                traffic.clone(),
            ),
            plans: Limiter::fixed(1, "plan is", traffic.clone()),
            reports: Limiter::fixed(REPORTS, "reports are", traffic.clone()),
            dashboards: Mutex::default(),
            udp_drops: UdpDrops::default(),
            started: crate::time::now(),
            sql: SqlProgram::new(&settings),
            access,
            tls,
            target,
            planner,
            cluster,
            settings,
            traffic,
        };
        AppState {
            store,
            metric_metadata: Arc::default(),
            shared: Arc::new(shared),
        }
    }

    /// Returns the state for requests with a token; `None` if requests need none.
    pub fn of(self: &Arc<Self>, token: Option<&Token>) -> Arc<AppState> {
        match token.and_then(|token| token.selector.as_ref()) {
            Some(selector) => Arc::new(self.limited_to(selector)),
            None => self.clone(),
        }
    }

    /// Returns the state for a token that may use the sources of a selector only.
    pub fn limited_to(&self, selector: &Selector) -> AppState {
        AppState {
            store: Arc::new(LimitedStore::new(self.store.clone(), selector.clone())),
            metric_metadata: Arc::default(),
            shared: self.shared.clone(),
        }
    }

    /// Encrypts a connection that a client opened, if there is a certificate.
    ///
    /// # Errors
    /// If the client does not complete the handshake.
    pub async fn secure(&self, stream: TcpStream, inside: Inside) -> io::Result<Link> {
        match &self.tls {
            Some(tls) => tls.accept(stream, inside).await,
            None => Ok(Box::new(stream)),
        }
    }

    /// Encrypts a connection that carries lines, which have no answer. With `tls_plain_lines`, only if the client begins
    /// TLS.
    ///
    /// # Errors
    /// If the client does not complete the handshake, or does not begin one where it must.
    pub async fn secure_lines(&self, stream: TcpStream) -> io::Result<Link> {
        if self.settings.tls.plain_lines && !begins_tls(&stream).await? {
            return Ok(Box::new(stream));
        }
        self.secure(stream, Inside::Lines).await
    }

    /// Returns the location of the store, for people.
    pub fn location(&self) -> String {
        match &self.target {
            Some(target) => target.name(),
            None => self.settings.data.display().to_string(),
        }
    }

    /// Returns the space of the storage target.
    pub fn file_system(&self) -> FileSystem {
        match &self.target {
            Some(target) => storage_target::space(&**target),
            None => FileSystem::of(&self.settings.data),
        }
    }

    /// Returns the status of the array under the store; `None` without an array, or after its stop.
    pub fn array(&self) -> Option<array::Report> {
        self.target.as_ref()?.array()?.report()
    }

    /// Returns the troubles of the store and of what surrounds it, the worst first. Reads the space of the file system.
    pub fn troubles(&self, status: &Status, classes: &[ClassStatus]) -> Vec<Trouble> {
        let store = health::of_store(status, classes, &self.store.losses());
        let mut around = match &self.target {
            Some(target) => target.warnings(),
            None => health::surroundings(&self.file_system(), &ProcessStats::now()),
        };
        around.extend(self.cluster.as_ref().and_then(|cluster| cluster.trouble()));
        around.extend(self.mqtt.trouble());
        health::with_surroundings(store, around)
    }

    /// Runs work that may have to wait for space in the store, or for names on the disk. If a wait is likely, the other
    /// tasks of this thread move to another thread first.
    pub fn with_patience<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.tight.load(Relaxed) || self.store.may_read() {
            true => port::waiting(work),
            false => work(),
        }
    }

    /// Updates the figures of the store. Called about once a second.
    pub fn tick(&self) {
        let status = self.store.status();
        self.traffic
            .tick(status.rows_accepted, status.samples_accepted);
        self.history.note(&status);
        self.udp_drops.read();
        self.access.refresh();
        self.tls.iter().for_each(Tls::refresh);
        self.alerts().refresh(&self.settings.alert);
        let tight = status.disk_used as f64 >= TIGHT * status.disk_budget as f64;
        self.tight.store(tight, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_permits_fewer_queries() {
        let mib = |mib: u64| mib << 20;
        assert_eq!(concurrent_queries(16, 0), 16);
        assert_eq!(concurrent_queries(16, mib(256)), 16);
        assert_eq!(concurrent_queries(16, mib(128)), 8);
        assert_eq!(concurrent_queries(16, mib(8)), 4);
        assert_eq!(concurrent_queries(2, mib(8)), 2);
    }
}
