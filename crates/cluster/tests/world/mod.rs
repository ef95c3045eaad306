//! Ports of one cluster in this process, on rows in memory and simulated disks.

use seiner_cluster::{
    ClusterStore, Grid, MemoryRows, PeerError, Peers, PortOptions, PortRows, Rows, SpareDisks,
    Surroundings,
};
use seiner_engine::Options;
use seiner_platform::sim::{SimClock, SimDisk};
use seiner_platform::{Clock, Disk, File};
use seiner_store::Query;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Cluster in this process.
pub struct World {
    pub rows: Arc<dyn Rows>,
    pub clock: Arc<SimClock>,
    ports: Arc<Ports>,
    disks: Mutex<BTreeMap<String, SimDisk>>,
    spare: Arc<Spare>,
    seed: u64,
}

/// Ports by name.
#[derive(Default)]
struct Ports {
    running: Mutex<BTreeMap<String, Weak<ClusterStore>>>,
    /// Event that happens when a port is asked next.
    event: Mutex<Option<Event>>,
}

/// Event of a test.
type Event = Box<dyn FnOnce() + Send>;

/// Clock that maintains a port when another one sleeps.
struct Beside {
    clock: Arc<SimClock>,
    other: Arc<ClusterStore>,
}

impl Clock for Beside {
    fn now(&self) -> i64 {
        self.clock.now()
    }

    fn monotonic(&self) -> u64 {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
        self.other.maintain();
    }
}

/// Disk on which a list of its files takes long. Opening a port lists them several times.
struct SlowDisk {
    disk: SimDisk,
    clock: Arc<dyn Clock>,
    delay: Duration,
}

impl Disk for SlowDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        for _ in 0..self.delay.as_secs() {
            self.clock.sleep(Duration::from_secs(1));
        }
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
}

/// Spare disks by name.
#[derive(Default)]
struct Spare(Mutex<BTreeMap<String, SimDisk>>);

impl SpareDisks for Spare {
    fn create(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let disk = SimDisk::new(9);
        self.0
            .lock()
            .unwrap()
            .insert(name.to_string(), disk.clone());
        Ok(Arc::new(disk))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }
}

impl Ports {
    fn get(&self, port: &str) -> Result<Arc<ClusterStore>, PeerError> {
        let running = self.running.lock().unwrap();
        let found = running.get(port).and_then(Weak::upgrade);
        found.ok_or_else(|| PeerError {
            port: port.to_string(),
            why: "it does not run".to_string(),
        })
    }
}

impl Peers for Ports {
    fn unflushed(&self, port: &str, query: &Query) -> Result<PortRows, PeerError> {
        let event = self.event.lock().unwrap().take();
        event.into_iter().for_each(|event| event());
        let store = self.get(port)?;
        store.unflushed(query).map_err(|error| PeerError {
            port: port.to_string(),
            why: error.to_string(),
        })
    }

    fn apply_deletes(&self, port: &str) -> Result<(), PeerError> {
        let store = self.get(port)?;
        store.apply_deletes().map_err(|error| PeerError {
            port: port.to_string(),
            why: error.to_string(),
        })
    }
}

#[allow(dead_code, reason = "each test uses a part")]
impl World {
    /// Creates a cluster without ports.
    pub fn new(seed: u64) -> World {
        World {
            rows: Arc::new(MemoryRows::new()),
            clock: Arc::new(SimClock::new(1_700_000_000_000_000_000)),
            ports: Arc::default(),
            disks: Mutex::default(),
            spare: Arc::default(),
            seed,
        }
    }

    /// Returns the settings of a port.
    pub fn options(&self, name: &str) -> PortOptions {
        PortOptions {
            address: format!("{name}:7670"),
            replica_sync: Duration::ZERO,
            grid: Grid {
                shelves: 3,
                period_ns: 3_600_000_000_000,
            },
            engine: Options {
                memory: 8 << 20,
                block_bytes: 512,
                segment_bytes: 256 << 10,
                journal_bytes: 1 << 20,
                ..Options::default()
            },
            ..PortOptions::new(name)
        }
    }

    /// Opens a port on the disk of its name, without threads.
    pub fn port(&self, name: &str) -> Arc<ClusterStore> {
        self.try_port(name).unwrap()
    }

    /// Opens a port with settings, on the disk of its name.
    pub fn port_with(&self, options: PortOptions) -> Arc<ClusterStore> {
        self.open(options, self.clock.clone()).unwrap()
    }

    /// Opens a port with settings, or returns the error.
    pub fn try_with(&self, options: PortOptions) -> Result<Arc<ClusterStore>, seiner_store::Error> {
        self.open(options, self.clock.clone())
    }

    /// Opens a port with settings while another one runs: whenever the first sleeps, the other is maintained.
    pub fn port_beside(
        &self,
        options: PortOptions,
        other: &Arc<ClusterStore>,
    ) -> Result<Arc<ClusterStore>, seiner_store::Error> {
        let clock = Beside {
            clock: self.clock.clone(),
            other: other.clone(),
        };
        self.open(options, Arc::new(clock))
    }

    /// Opens a port as [`World::port_beside`], on a disk that takes `delay` for some operations.
    pub fn slow_port_beside(
        &self,
        name: &str,
        delay: Duration,
        other: &Arc<ClusterStore>,
    ) -> Result<Arc<ClusterStore>, seiner_store::Error> {
        let clock = Arc::new(Beside {
            clock: self.clock.clone(),
            other: other.clone(),
        });
        let disk = Arc::new(SlowDisk {
            disk: self.disk(name),
            clock: clock.clone(),
            delay,
        });
        self.open_on(self.options(name), clock, disk)
    }

    /// Opens a port, or returns the error.
    pub fn try_port(&self, name: &str) -> Result<Arc<ClusterStore>, seiner_store::Error> {
        self.open(self.options(name), self.clock.clone())
    }

    fn open(
        &self,
        options: PortOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<ClusterStore>, seiner_store::Error> {
        let disk = Arc::new(self.disk(&options.name));
        self.open_on(options, clock, disk)
    }

    /// Returns the disk of a port.
    fn disk(&self, name: &str) -> SimDisk {
        let mut disks = self.disks.lock().unwrap();
        let seed = self.seed + disks.len() as u64;
        let disk = disks.entry(name.to_string());
        disk.or_insert_with(|| SimDisk::new(seed)).clone()
    }

    fn open_on(
        &self,
        options: PortOptions,
        clock: Arc<dyn Clock>,
        disk: Arc<dyn Disk>,
    ) -> Result<Arc<ClusterStore>, seiner_store::Error> {
        let name = options.name.clone();
        let around = Surroundings {
            rows: self.rows.clone(),
            disk,
            spare: self.spare.clone(),
            clock,
            peers: self.ports.clone(),
        };
        let store = Arc::new(ClusterStore::open(options, around)?);
        let mut ports = self.ports.running.lock().unwrap();
        ports.insert(name, Arc::downgrade(&store));
        Ok(store)
    }

    /// Cuts the power of a port: the store is gone, and its disk keeps what was synced.
    pub fn crash(&self, name: &str, port: Arc<ClusterStore>) {
        drop(port);
        let mut disks = self.disks.lock().unwrap();
        let crashed = disks[name].crash();
        disks.insert(name.to_string(), crashed);
        self.ports.running.lock().unwrap().remove(name);
    }

    /// Makes something happen when a port asks another one next.
    pub fn when_asked(&self, event: impl FnOnce() + Send + 'static) {
        *self.ports.event.lock().unwrap() = Some(Box::new(event));
    }

    /// Loses the disk of a port.
    pub fn lose_disk(&self, name: &str) {
        self.disks.lock().unwrap().remove(name);
    }

    /// Advances the clock and runs the maintenance of ports, second by second.
    pub fn run(&self, seconds: u64, ports: &[&Arc<ClusterStore>]) {
        for _ in 0..seconds {
            self.clock.advance(1_000_000_000);
            ports.iter().for_each(|port| port.maintain());
        }
        assert!(self.clock.monotonic() > 0);
    }
}
