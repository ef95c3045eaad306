//! World: ports, replicas and the network between them, in one thread.
//!
//! The seed decides everything. Time advances with every request. Events happen during requests: other ports act, a
//! port stands still or is killed, messages arrive late.

use crate::network::Network;
use crate::oracle::Oracle;
use crate::plan::{Canary, Plan};
use crate::replicas::Replicas;
use crate::report::Report;
use crate::surroundings::{Links, Process, Spare};
use crate::workload::Rows;
use seiner_cluster::{Acknowledge, ClusterStore, Grid, PortOptions, Surroundings};
use seiner_engine::Options;
use seiner_platform::sim::{Rng, SimDisk};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub const SECOND: u64 = 1_000_000_000;
/// Names of the ports.
pub const PORTS: [&str; 3] = ["a", "b", "c"];
/// Events that a violation prints.
const EVENTS: usize = 40;
/// Operations that may be inside of one another.
const DEPTH: usize = 3;
/// Time after which failures end, ns.
const LONGEST: u64 = 1000 * SECOND;
/// Rescues of a port that waits, after which its waiting is a violation.
const RESCUES: u64 = 30;

/// Operation of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Append,
    HandOver,
    Maintain,
    Query,
    Delete,
}

/// Kind of a crash.
#[derive(Clone, Copy, Debug)]
pub enum Crash {
    /// The process is killed.
    Kill,
    /// The power fails: unsynced writes may be lost.
    PowerCut,
    /// The disk is lost.
    Loss,
}

/// Wrong answer of a run.
#[derive(Debug)]
pub struct Violation {
    pub seed: u64,
    pub what: String,
    pub events: Vec<String>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for event in &self.events {
            writeln!(to, "  {event}")?;
        }
        let Violation { seed, what, .. } = self;
        write!(
            to,
            "{what}\nto repeat: SEINER_SIM_SEED={seed} cargo test -p seiner-cluster --test simulation seeds"
        )
    }
}

/// Port with its machine.
pub struct Slot {
    pub store: Mutex<Option<Arc<ClusterStore>>>,
    pub process: Mutex<Option<Arc<Process>>>,
    disk: Mutex<SimDisk>,
    spare: Arc<Spare>,
    /// Time until which the port stands still, ns.
    paused_until: AtomicU64,
    /// Journal writes under way.
    syncing: AtomicU64,
    last_beat: AtomicU64,
    sleeps: AtomicU64,
    rescues: AtomicU64,
    /// Rows of the directories before the present query.
    pub early: Mutex<Option<Replicas>>,
}

/// Panic that ends the operations of a killed port.
pub struct Killed;

/// Returns the result of an operation, or `None` if its port was killed.
fn alive<T>(act: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// World.
pub struct World {
    pub seed: u64,
    pub plan: Plan,
    pub canary: Option<Canary>,
    pub slots: Vec<Slot>,
    pub oracle: Mutex<Oracle>,
    pub report: Mutex<Report>,
    /// Deletes that some ports have not applied: number in the model, key of the row.
    pub deletes: Mutex<Vec<(usize, Vec<u8>)>>,
    /// Rows of the latest appends.
    pub recent: Mutex<Vec<Rows>>,
    rng: Mutex<Rng>,
    network: Mutex<Network>,
    frames: Mutex<Vec<(usize, Operation)>>,
    /// Connections between ports.
    pub links: Mutex<[[bool; 3]; 3]>,
    time: AtomicU64,
    is_beating: AtomicBool,
    is_calm: AtomicBool,
    violation: Mutex<Option<String>>,
    events: Mutex<Vec<String>>,
    verbose: bool,
}

impl World {
    /// Creates a world without running ports.
    pub fn new(seed: u64, canary: Option<Canary>, verbose: bool) -> Arc<World> {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::new(&mut rng);
        if canary == Some(Canary::HastyTakeover) {
            plan.rates[2] = 20_000;
        }
        let network = Network::new(rng.fork(), plan.clone(), canary, PORTS.len());
        let slots = PORTS.iter().map(|_| Slot {
            store: Mutex::default(),
            process: Mutex::default(),
            disk: Mutex::new(SimDisk::new(rng.next_u64())),
            spare: Arc::default(),
            paused_until: AtomicU64::new(0),
            syncing: AtomicU64::new(0),
            last_beat: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            rescues: AtomicU64::new(0),
            early: Mutex::default(),
        });
        let slots = slots.collect();
        Arc::new(World {
            seed,
            plan,
            canary,
            slots,
            oracle: Mutex::default(),
            report: Mutex::default(),
            deletes: Mutex::default(),
            recent: Mutex::default(),
            rng: Mutex::new(rng),
            network: Mutex::new(network),
            frames: Mutex::default(),
            links: Mutex::new([[true; 3]; 3]),
            time: AtomicU64::new(0),
            is_beating: AtomicBool::new(false),
            is_calm: AtomicBool::new(false),
            violation: Mutex::default(),
            events: Mutex::default(),
            verbose,
        })
    }

    pub fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap()
    }

    pub fn rng<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap())
    }

    /// Returns true with a probability, per mille, unless the world is calm.
    pub fn strikes(&self, per_mille: u32) -> bool {
        !self.is_calm() && self.rng(|rng| rng.chance(u64::from(per_mille), 1000))
    }

    /// Returns whether no failures happen any more.
    pub fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::SeqCst)
    }

    pub fn time(&self) -> u64 {
        self.time.load(Ordering::SeqCst)
    }

    /// Returns the monotonic time of a port, ns.
    pub fn local_time(&self, port: usize) -> u64 {
        (u128::from(self.time()) * u128::from(self.plan.rates[port]) / 1000) as u64
    }

    /// Notes an event.
    pub fn note(&self, event: impl FnOnce() -> String) {
        let mut text = format!("{:9.3} ", self.time() as f64 / 1e9);
        let depth = self.frames.lock().unwrap().len();
        (0..depth).for_each(|_| text.push_str("| "));
        write!(text, "{}", event()).expect("a text grows");
        let mut report = self.report.lock().unwrap();
        for byte in text.bytes() {
            report.digest = (report.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        drop(report);
        if self.verbose {
            eprintln!("{text}");
        }
        let mut events = self.events.lock().unwrap();
        if events.len() >= 2 * EVENTS {
            events.drain(..EVENTS);
        }
        events.push(text);
    }

    /// Notes a wrong answer. The first one counts.
    pub fn fail(&self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        self.violation.lock().unwrap().get_or_insert(what);
    }

    pub fn has_failed(&self) -> bool {
        self.violation.lock().unwrap().is_some()
    }

    /// Returns the outcome of the run.
    pub fn outcome(&self) -> Result<Report, Violation> {
        match self.violation.lock().unwrap().clone() {
            None => Ok(*self.report.lock().unwrap()),
            Some(what) => Err(self.violation(what)),
        }
    }

    pub fn violation(&self, what: String) -> Violation {
        Violation {
            seed: self.seed,
            what,
            events: self
                .events
                .lock()
                .map(|events| events.clone())
                .unwrap_or_default(),
        }
    }

    /// Performs an operation of a port, if the port runs.
    pub fn operate<T>(
        self: &Arc<World>,
        port: usize,
        operation: Operation,
        act: impl FnOnce(&Arc<ClusterStore>) -> T,
    ) -> Option<T> {
        let store = self.slots[port].store.lock().unwrap().clone()?;
        self.frames.lock().unwrap().push((port, operation));
        self.slots[port].sleeps.store(0, Ordering::SeqCst);
        let done = alive(|| act(&store));
        self.frames.lock().unwrap().pop();
        done
    }

    /// Returns whether a port can begin an operation: it runs, and does nothing that excludes the operation.
    pub fn can(&self, port: usize, operation: Operation) -> bool {
        let slot = &self.slots[port];
        let mut frames = self
            .frames
            .lock()
            .unwrap()
            .clone()
            .into_iter()
            .filter(|frame| frame.0 == port);
        // A query excludes nothing, as it has no lock.
        let during_query = !matches!(
            operation,
            Operation::Maintain | Operation::Open | Operation::Delete
        );
        let is_free = frames.all(|(_, other)| other == Operation::Query && during_query);
        let runs = slot.store.lock().unwrap().is_some() != (operation == Operation::Open);
        is_free && runs && !self.is_paused(port)
    }

    pub fn is_paused(&self, port: usize) -> bool {
        self.time() < self.slots[port].paused_until.load(Ordering::SeqCst)
    }

    /// Makes a port stand still.
    pub fn pause(&self, port: usize, ns: u64) {
        self.note(|| format!("{} stands still for {} s", PORTS[port], ns / SECOND));
        self.slots[port]
            .paused_until
            .store(self.time() + ns, Ordering::SeqCst);
    }

    /// Events during a request of a port.
    pub fn at_request(self: &Arc<World>, port: usize) {
        let slowest = match self.is_calm() {
            true => 2,
            false => self.plan.slowest_ms,
        };
        let latency = self.rng(|rng| match rng.chance(1, 20) {
            true => rng.between(1, slowest),
            false => rng.between(1, 2),
        });
        self.advance(latency * SECOND / 1000);
        if self.time() > LONGEST && !self.is_calm() {
            self.heal();
        }
        if self.is_calm() || self.has_failed() || self.is_beating.load(Ordering::SeqCst) {
            return;
        }
        let depth = self.frames.lock().unwrap().len();
        if self.strikes(self.plan.kill) {
            self.crash(port);
        }
        if depth < DEPTH && self.strikes(self.plan.stall) {
            self.stall(port);
        }
        if depth < DEPTH && self.strikes(self.plan.interlude) {
            self.act();
        }
    }

    /// Lets others work while a port stands still in the middle of an operation.
    fn stall(self: &Arc<World>, port: usize) {
        let ns = self.rng(|rng| rng.between(5, 45)) * SECOND;
        self.pause(port, ns);
        while self.is_paused(port) {
            self.advance(SECOND);
            self.maintain_some();
        }
        self.note(|| format!("{} continues", PORTS[port]));
    }

    /// Maintains some of the idle ports.
    pub fn maintain_some(self: &Arc<World>) {
        for port in 0..PORTS.len() {
            if self.can(port, Operation::Maintain) && self.rng(|rng| rng.chance(1, 2)) {
                self.operate(port, Operation::Maintain, |store| store.maintain());
            }
        }
    }

    /// Advances the time. Late messages arrive, and ports beat.
    pub fn advance(self: &Arc<World>, ns: u64) {
        let now = self.time.fetch_add(ns, Ordering::SeqCst) + ns;
        {
            let mut network = self.network();
            network.now = now;
            network.deliver(false);
        }
        if self.is_beating.swap(true, Ordering::SeqCst) {
            return;
        }
        for (port, slot) in self.slots.iter().enumerate() {
            let is_due = now >= slot.last_beat.load(Ordering::SeqCst) + SECOND / 2;
            // A beat that begins a new journal waits for the end of a write.
            if is_due && !self.is_paused(port) && slot.syncing.load(Ordering::SeqCst) == 0 {
                slot.last_beat.store(now, Ordering::SeqCst);
                let store = slot.store.lock().unwrap().clone();
                store.into_iter().for_each(|store| store.keep_leases());
            }
        }
        self.is_beating.store(false, Ordering::SeqCst);
    }

    /// Lets a port wait. A port that waits for too long is rescued: the network heals, or the port is killed.
    pub fn sleep(self: &Arc<World>, port: usize, ns: u64) {
        let rate = self.plan.rates[port];
        self.advance(ns * 1000 / rate);
        let slot = &self.slots[port];
        let sleeps = slot.sleeps.fetch_add(1, Ordering::SeqCst);
        let depth = self.frames.lock().unwrap().len();
        if sleeps % 10 == 9 && depth < DEPTH {
            self.maintain_some();
        }
        if sleeps >= 150 {
            slot.sleeps.store(0, Ordering::SeqCst);
            if slot.rescues.fetch_add(1, Ordering::SeqCst) > RESCUES {
                self.fail(format!("{} waits for ever", PORTS[port]));
                self.crash(port);
            } else if self.is_calm() || self.rng(|rng| rng.chance(1, 2)) {
                self.note(|| format!("{} waits; the network heals", PORTS[port]));
                let mut network = self.network();
                network.up = [true; 3];
                network.paths[port] = [true; 3];
            } else {
                self.note(|| format!("{} waits and is killed", PORTS[port]));
                self.crash(port);
            }
        }
    }

    /// Counts a journal write that begins (`by` 1) or ends.
    pub fn syncing(&self, port: usize, begins: bool) {
        let syncing = &self.slots[port].syncing;
        match begins {
            true => syncing.fetch_add(1, Ordering::SeqCst),
            false => syncing.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// Returns another port, if it can be reached.
    pub fn peer(&self, from: usize, name: &str, to_change: bool) -> Option<Arc<ClusterStore>> {
        let port = PORTS.iter().position(|other| *other == name)?;
        let slot = &self.slots[port];
        // A delete waits for the end of a write, and for the sleep between two attempts.
        let is_blocked = to_change && slot.syncing.load(Ordering::SeqCst) > 0
            || to_change && !self.can(port, Operation::HandOver) && !self.hands_over(port);
        let is_connected = self.links.lock().unwrap()[from][port];
        let store = slot.store.lock().unwrap().clone();
        store.filter(|_| is_connected && !is_blocked && !self.is_paused(port))
    }

    /// Returns whether the innermost operation of a port is a handover.
    fn hands_over(&self, port: usize) -> bool {
        let frames = self.frames.lock().unwrap();
        let own = frames.iter().rev().find(|frame| frame.0 == port);
        own.is_some_and(|(_, operation)| *operation == Operation::HandOver)
    }

    /// Performs a delete of another port.
    pub fn while_deleting<T>(&self, port: &str, act: impl FnOnce() -> T) -> Option<T> {
        let port = PORTS
            .iter()
            .position(|other| *other == port)
            .expect("a port's name");
        self.frames.lock().unwrap().push((port, Operation::Delete));
        let done = alive(act);
        self.frames.lock().unwrap().pop();
        done
    }

    /// Returns whether an answer of another port is lost.
    pub fn loses_answer(&self) -> bool {
        self.strikes(self.plan.read_timeout / 2)
    }

    /// Returns the rows from before the present query.
    pub fn early(&self, port: usize) -> Option<Replicas> {
        self.slots[port].early.lock().unwrap().clone()
    }

    /// Crashes a port, in the middle of its operation if there is one.
    pub fn crash(&self, port: usize) {
        let kinds: &[Crash] = match self.plan.weights.power {
            0 => &[Crash::Kill, Crash::PowerCut, Crash::Loss],
            _ => &[Crash::Kill, Crash::PowerCut],
        };
        let crash = self.rng(|rng| *rng.pick(kinds));
        self.crash_by(port, crash);
    }

    /// Crashes a port in one way.
    pub fn crash_by(&self, port: usize, crash: Crash) {
        let slot = &self.slots[port];
        let Some(process) = slot.process.lock().unwrap().take() else {
            return;
        };
        self.note(|| format!("{} crashes: {crash:?}", PORTS[port]));
        self.report.lock().unwrap().crashes += 1;
        process.kill();
        slot.paused_until.store(0, Ordering::SeqCst);
        let store = slot.store.lock().unwrap().take();
        if let Some(store) = store {
            self.count(&store);
        }
        let mut disk = slot.disk.lock().unwrap();
        *disk = match crash {
            Crash::Kill => disk.restart(),
            Crash::PowerCut => disk.crash(),
            Crash::Loss => {
                // The handles of the old process must fail.
                let _ = disk.crash();
                SimDisk::new(self.rng(Rng::next_u64))
            }
        };
    }

    /// Adds the counts of a port to the report.
    pub fn count(&self, store: &ClusterStore) {
        let counts = store.counts();
        let mut report = self.report.lock().unwrap();
        report.takeovers += counts.takeovers;
        report.handovers += counts.handovers;
    }

    /// Starts a port.
    pub fn open(self: &Arc<World>, port: usize) -> Result<(), String> {
        let slot = &self.slots[port];
        let process = Process::new(port, Arc::downgrade(self));
        *slot.process.lock().unwrap() = Some(process.clone());
        slot.sleeps.store(0, Ordering::SeqCst);
        slot.rescues.store(0, Ordering::SeqCst);
        let disk = slot.disk.lock().unwrap().restart();
        *slot.disk.lock().unwrap() = disk.clone();
        let around = Surroundings {
            rows: process.clone(),
            disk: Arc::new(disk),
            spare: slot.spare.clone(),
            clock: process.clone(),
            peers: Arc::new(Links(process.clone())),
        };
        self.frames.lock().unwrap().push((port, Operation::Open));
        let opened = alive(|| ClusterStore::open(self.options(port), around));
        self.frames.lock().unwrap().pop();
        let is_alive = slot
            .process
            .lock()
            .unwrap()
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &process));
        match opened.unwrap_or(Err(seiner_store::Error::Closed)) {
            Ok(store) if is_alive => {
                self.note(|| format!("{} runs", PORTS[port]));
                self.oracle.lock().unwrap().runs(port);
                *slot.store.lock().unwrap() = Some(Arc::new(store));
                Ok(())
            }
            Ok(_) => Err("killed".to_string()),
            Err(error) => {
                self.note(|| format!("{} does not start: {error}", PORTS[port]));
                process.kill();
                Err(error.to_string())
            }
        }
    }

    fn options(&self, port: usize) -> PortOptions {
        let acknowledge = match self.canary {
            Some(Canary::LocalAcknowledgement) => Acknowledge::Local,
            _ => Acknowledge::Replicated(seiner_cluster::Level::Quorum),
        };
        PortOptions {
            acknowledge,
            handover_every: Duration::from_secs(20),
            replica_sync: match self.canary {
                Some(Canary::EarlyRelease) => Duration::ZERO,
                _ => Duration::from_millis(600),
            },
            grid: Grid {
                shelves: 2,
                period_ns: 60 * SECOND,
            },
            engine: Options {
                memory: 8 << 20,
                block_bytes: 512,
                segment_bytes: 256 << 10,
                journal_bytes: 1 << 20,
                ..Options::default()
            },
            ..PortOptions::new(PORTS[port])
        }
    }

    /// Ends all failures.
    pub fn heal(self: &Arc<World>) {
        self.note(|| "everything heals".to_string());
        self.is_calm.store(true, Ordering::SeqCst);
        *self.links.lock().unwrap() = [[true; 3]; 3];
        for slot in &self.slots {
            slot.paused_until.store(0, Ordering::SeqCst);
        }
        let mut network = self.network();
        network.up = [true; 3];
        network.paths.fill([true; 3]);
        network.is_calm = true;
        network.deliver(true);
    }
}
