//! Small Cassandra cluster on one Linux machine, for tests and trials.
//!
//! Each node is a Java process with the address 127.0.k.n: k is the *network* of the cluster, n the node. Several
//! clusters can run side by side, and none uses 127.0.0.1. The nodes of a cluster have fixed tokens and start together.
//!
//! Nodes never outlive this process for long:
//!
//! 1. If the program `setpriv` is installed, the kernel kills a node when the thread that started the node ends. One
//!    thread, the *parent*, starts all nodes. It ends with the cluster or with the process.
//! 2. Without `setpriv`, a killed process leaves its nodes running. Their numbers are in the folder of the cluster, and
//!    the next start in that folder kills them first.

mod jars;
mod machine;
mod node;
mod parent;
mod settings;

use crate::connect::{self, ConnectError};
use crate::contact::{Contact, Host, Login, Tls};
use crate::rows;
use node::Node;
use parent::Parent;
use seiner_platform::{Clock, SystemClock};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;

pub use jars::default_cache;

/// Version of Cassandra.
pub const VERSION: &str = "5.0.9";
/// Networks to choose from. 127.0.0 and 127.0.1 belong to the system.
const NETWORKS: std::ops::RangeInclusive<u8> = 10..=250;
/// Maximum number of nodes.
const MAX_NODES: usize = 20;
/// Interval at which a starting node is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Address of a node that differs from the usual one, for experiments with networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address on which the node listens.
    pub address: Ipv4Addr,
    /// Address that the node publishes to clients, with the same port. `None`: the one on which it listens. Otherwise
    /// something must forward connections.
    pub public: Option<Ipv4Addr>,
    /// Name of the network namespace of the node (`ip netns`). Needs root.
    pub namespace: Option<String>,
}

/// Cluster to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of nodes, 1 to 20.
    pub nodes: usize,
    /// Folder of the nodes' files. A folder of an earlier cluster is continued, with the same number of nodes.
    pub folder: PathBuf,
    /// Folder of Cassandra's jars, 70 MB. They are fetched if they are missing.
    pub cache: PathBuf,
    /// Heap of a node, in MiB. The process takes about 400 MiB more.
    pub heap_mib: u32,
    /// The k of the addresses 127.0.k.n. `None`: a free one.
    pub network: Option<u8>,
    /// Places of the nodes. Empty: each node has the address 127.0.k.n.
    pub places: Vec<Place>,
    /// Port of the query language.
    pub port: u16,
    /// Port between nodes.
    pub storage_port: u16,
    /// Memory of a node for rows that are not in files yet, in MiB. A file has half of it, or less.
    pub memtables_mib: u32,
    /// True if the nodes have the compaction strategy of this project.
    pub has_fisherman: bool,
    /// Time for all nodes to start.
    pub timeout: Duration,
    /// Login and encryption that the nodes require of clients. `None`: neither.
    pub security: Option<Security>,
}

/// Login and encryption that nodes require of clients. The user is `cassandra` with the password `cassandra`, which
/// every new Cassandra has.
#[derive(Clone, Debug)]
pub struct Security {
    /// Key and certificate of all nodes, in the format PKCS12. The certificate contains the address of each node.
    pub keys: PathBuf,
    /// Certificates of the authorities of clients, in the same format.
    pub trusted: PathBuf,
    /// Password of both files.
    pub password: String,
    /// Files of the client.
    pub client: Tls,
}

impl Options {
    /// Returns a cluster of light nodes with the usual ports, on a free network.
    pub fn new(nodes: usize, folder: impl Into<PathBuf>) -> Options {
        Options {
            nodes,
            folder: folder.into(),
            cache: default_cache(),
            heap_mib: 256,
            network: None,
            places: Vec::new(),
            port: crate::DEFAULT_PORT,
            storage_port: 7000,
            memtables_mib: 192,
            has_fisherman: true,
            timeout: Duration::from_secs(180),
            security: None,
        }
    }
}

/// Error of a local cluster.
#[derive(Debug, Error)]
pub enum LocalError {
    /// The machine cannot run the cluster. The text ends with the remedy.
    #[error("{0}")]
    Machine(String),
    /// The jars could not be fetched.
    #[error("the jars of Cassandra {VERSION} cannot be fetched by Maven: {0}")]
    Fetch(String),
    /// A file or process of the cluster failed.
    #[error("{what}: {error}")]
    Io {
        /// Action that failed, with its file.
        what: String,
        /// Error of the system.
        error: io::Error,
    },
    /// A node ended while it started.
    #[error("node {node} of Cassandra ended while it started; its log {log} ends with:\n{tail}")]
    Died {
        /// Number of the node.
        node: usize,
        /// File of the log.
        log: String,
        /// Last lines of the log.
        tail: String,
    },
    /// A node did not start in time.
    #[error(
        "node {node} of Cassandra did not start within {timeout:?}; see its log {log}, or set a longer time"
    )]
    Slow {
        /// Number of the node.
        node: usize,
        /// Time that was given.
        timeout: Duration,
        /// File of the log.
        log: String,
    },
    /// The nodes run, but cannot be used.
    #[error("the nodes started, but {0}")]
    Connect(#[from] ConnectError),
}

impl LocalError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LocalError {
        let what = what.into();
        move |error| LocalError::Io { what, error }
    }
}

/// Returns why this machine cannot run a cluster, with the remedy. `None` if it can.
///
/// Java must be installed; Maven too, unless the jars are in the cache; and memory must be free.
pub fn obstacle(options: &Options) -> Option<String> {
    machine::obstacle(options).err()
}

/// Deletes the folder of a cluster with all its data, after it has killed nodes that an earlier process left running.
///
/// # Errors
/// If a running process uses the folder, or the folder cannot be deleted.
pub fn delete_cluster(folder: &Path) -> Result<(), LocalError> {
    if !folder.exists() {
        return Ok(());
    }
    let _lock = lock_folder(folder)?;
    for number in 1..=MAX_NODES {
        node::reap(&settings::folder_of(folder, number), &SystemClock::new());
    }
    let what = LocalError::io(format!("cannot delete {}", folder.display()));
    fs::remove_dir_all(folder).map_err(what)
}

/// Running cluster. The drop stops all nodes.
pub struct LocalCluster {
    options: Options,
    network: u8,
    nodes: Mutex<Vec<Node>>,
    clock: SystemClock,
    /// Locks of the folder and the network, held until the nodes are stopped.
    _locks: [File; 2],
}

impl LocalCluster {
    /// Starts a cluster, and waits until all nodes answer and know each other.
    ///
    /// # Errors
    /// If the machine cannot run the cluster, another process uses the folder or the network, or a node does not start.
    pub fn start(options: Options) -> Result<LocalCluster, LocalError> {
        if !(1..=MAX_NODES).contains(&options.nodes) {
            let text = format!(
                "a local cluster has 1 to {MAX_NODES} nodes, not {}",
                options.nodes
            );
            return Err(LocalError::Machine(text));
        }
        if !options.places.is_empty() && options.places.len() != options.nodes {
            let text = format!(
                "{} nodes have {} places; give each node one, or none",
                options.nodes,
                options.places.len()
            );
            return Err(LocalError::Machine(text));
        }
        let java = machine::obstacle(&options).map_err(LocalError::Machine)?;
        let clock = SystemClock::new();
        let jars = jars::fetch(&options.cache, &clock)?;
        let folder = lock_folder(&options.folder)?;
        let (network, lock) = choose_network(&options)?;
        let parent = Parent::start().map_err(LocalError::io("a thread cannot start"))?;
        let mut nodes = Vec::new();
        for number in 1..=options.nodes {
            let settings = settings::Settings::new(&options, network, number);
            nodes.push(Node::new(settings, &java, &jars, &parent));
        }
        let cluster = LocalCluster {
            options,
            network,
            nodes: Mutex::new(nodes),
            clock,
            _locks: [folder, lock],
        };
        for node in cluster.nodes_locked().iter_mut() {
            node::reap(
                &settings::folder_of(&cluster.options.folder, node.number()),
                &cluster.clock,
            );
            node.start()?;
        }
        for number in 1..=cluster.options.nodes {
            cluster.wait_for(number)?;
        }
        cluster.wait_for_ring()?;
        Ok(cluster)
    }

    /// Returns the contact of the cluster: all nodes, and a keyspace of this name.
    pub fn contact(&self, keyspace: &str) -> Contact {
        let hosts = (1..=self.options.nodes).map(|number| Host {
            name: self.address(number).to_string(),
            port: self.options.port,
        });
        let security = self.options.security.as_ref();
        let name = || "cassandra".to_string();
        Contact {
            login: security.map(|_| Login {
                user: name(),
                password: name(),
            }),
            tls: security.map(|security| security.client.clone()),
            ..Contact::new(hosts.collect(), keyspace)
        }
    }

    /// Returns the address of a node for clients. Nodes are numbered from 1.
    pub fn address(&self, number: usize) -> Ipv4Addr {
        let place = number
            .checked_sub(1)
            .and_then(|at| self.options.places.get(at));
        match place {
            Some(place) => place.public.unwrap_or(place.address),
            None => settings::address(self.network, number),
        }
    }

    /// Returns the number of a node's process, if the node runs.
    pub fn process(&self, number: usize) -> Option<u32> {
        self.with(number, |node| Ok(node.process())).ok().flatten()
    }

    /// Returns the memory that a node uses, in bytes.
    pub fn memory(&self, number: usize) -> Option<u64> {
        machine::memory_of(self.process(number)?)
    }

    /// Kills a node as a crash does (SIGKILL).
    ///
    /// # Errors
    /// If there is no such node, or the system refuses.
    pub fn kill(&self, number: usize) -> Result<(), LocalError> {
        self.with(number, Node::kill)
    }

    /// Stops a node in good order (SIGTERM), and kills it if it does not end.
    ///
    /// # Errors
    /// If there is no such node, or the system refuses.
    pub fn stop_node(&self, number: usize) -> Result<(), LocalError> {
        self.with(number, |node| {
            node.ask_to_end()?;
            node.wait_for_end(&self.clock)
        })
    }

    /// Starts a node again, with its files, and waits until the node answers. Kills the node first if it runs.
    ///
    /// # Errors
    /// If there is no such node, or the node does not start.
    pub fn restart(&self, number: usize) -> Result<(), LocalError> {
        self.with(number, |node| {
            node.kill()?;
            node.start()
        })?;
        self.wait_for(number)
    }

    /// Pauses a node (SIGSTOP): its connections stay open, and it does not answer.
    ///
    /// # Errors
    /// If there is no such node, or the node does not run.
    pub fn pause(&self, number: usize) -> Result<(), LocalError> {
        self.with(number, Node::pause)
    }

    /// Continues a paused node (SIGCONT).
    ///
    /// # Errors
    /// If there is no such node, or the node does not run.
    pub fn resume(&self, number: usize) -> Result<(), LocalError> {
        self.with(number, Node::resume)
    }

    /// Runs a command of Cassandra's `nodetool` on a node, and returns its output: `["flush"]`, `["repair", "-full"]`.
    ///
    /// # Errors
    /// If there is no such node, or the command fails.
    pub fn tool(&self, number: usize, arguments: &[&str]) -> Result<String, LocalError> {
        let command = self.with(number, |node| Ok(node.tool(arguments)))?;
        node::output_of(command)
    }

    /// Stops all nodes in good order.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn stop(self) -> Result<(), LocalError> {
        self.stop_all()
    }

    fn stop_all(&self) -> Result<(), LocalError> {
        let mut nodes = self.nodes_locked();
        let asked: Vec<_> = nodes.iter_mut().map(Node::ask_to_end).collect();
        let ended = nodes.iter_mut().map(|node| node.wait_for_end(&self.clock));
        let ended: Vec<_> = ended.collect();
        asked.into_iter().chain(ended).collect()
    }

    fn nodes_locked(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        number: usize,
        act: impl FnOnce(&mut Node) -> Result<T, LocalError>,
    ) -> Result<T, LocalError> {
        let mut nodes = self.nodes_locked();
        let place = number.checked_sub(1);
        match place.and_then(|place| nodes.get_mut(place)) {
            Some(node) => act(node),
            None => Err(LocalError::Machine(format!(
                "there is no node {number}; the cluster has the nodes 1 to {}",
                self.options.nodes
            ))),
        }
    }

    /// Waits until a node accepts connections of clients.
    fn wait_for(&self, number: usize) -> Result<(), LocalError> {
        let end = self.clock.monotonic() + self.options.timeout.as_nanos() as u64;
        while !self.with(number, Node::has_started)? {
            if self.clock.monotonic() > end {
                return self.with(number, |node| {
                    Err(LocalError::Slow {
                        node: number,
                        timeout: self.options.timeout,
                        log: node.log().display().to_string(),
                    })
                });
            }
            self.clock.sleep(POLL);
        }
        Ok(())
    }

    /// Waits until the driver finds all nodes and has a connection to each.
    fn wait_for_ring(&self) -> Result<(), LocalError> {
        let threads = rows::start_threads()?;
        let end = self.clock.monotonic() + self.options.timeout.as_nanos() as u64;
        loop {
            let client = threads.block_on(connect::reach(&self.contact("none")));
            match client {
                Err(error) if self.clock.monotonic() > end => return Err(error.into()),
                Ok(client) => {
                    let nodes = rows::nodes(&client);
                    let up = nodes.iter().filter(|node| node.is_up).count();
                    if up == self.options.nodes {
                        return Ok(());
                    }
                    if self.clock.monotonic() > end {
                        let text = format!("only {up} of {} are up: {nodes:?}", self.options.nodes);
                        return Err(ConnectError::Unreachable(text).into());
                    }
                }
                Err(_) => {}
            }
            self.clock.sleep(POLL);
        }
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if let Err(error) = self.stop_all() {
            tracing::warn!("a node of the local cluster could not be stopped: {error}");
        }
    }
}

/// Creates and locks the folder of a cluster.
fn lock_folder(folder: &Path) -> Result<File, LocalError> {
    let what = |what: &str| LocalError::io(format!("{what} {}", folder.display()));
    fs::create_dir_all(folder).map_err(what("cannot create"))?;
    let lock = File::create(folder.join("lock")).map_err(what("cannot lock"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::Error(error)) => Err(what("cannot lock")(error)),
        Err(fs::TryLockError::WouldBlock) => Err(LocalError::Machine(format!(
            "another process runs a cluster in {}; stop it, or use another folder",
            folder.display()
        ))),
    }
}

/// Chooses a network and locks it. A folder keeps its network and its number of nodes: the nodes know each other by
/// address.
fn choose_network(options: &Options) -> Result<(u8, File), LocalError> {
    let file = options.folder.join("network");
    let saved = fs::read_to_string(&file).ok();
    let saved: Option<(u8, usize)> = saved.as_deref().and_then(|text| {
        let (network, nodes) = text.trim().split_once(' ')?;
        Some((network.parse().ok()?, nodes.parse().ok()?))
    });
    let wanted: Option<u8> = match saved {
        Some((_, nodes)) if nodes != options.nodes => {
            return Err(LocalError::Machine(format!(
                "the cluster in {} has {nodes} nodes, not {}; use another folder",
                options.folder.display(),
                options.nodes
            )));
        }
        Some((network, _)) if options.network.is_none_or(|wanted| wanted == network) => {
            Some(network)
        }
        _ => options.network,
    };
    let candidates = match wanted {
        Some(network) => network..=network,
        None => NETWORKS,
    };
    for network in candidates {
        if let Some(lock) = try_network(options, network) {
            let text = format!("{network} {}\n", options.nodes);
            fs::write(&file, text)
                .map_err(LocalError::io(format!("cannot write {}", file.display())))?;
            return Ok((network, lock));
        }
    }
    let text = match wanted {
        Some(network) => format!(
            "the addresses 127.0.{network}.* with port {} are in use; stop the other cluster, or choose another network",
            options.port
        ),
        None => format!(
            "port {} is in use at all addresses 127.0.*.1; choose another port",
            options.port
        ),
    };
    Err(LocalError::Machine(text))
}

/// Locks a network if no other cluster uses it.
fn try_network(options: &Options, network: u8) -> Option<File> {
    let path = std::env::temp_dir().join(format!("seiner-cassandra-127.0.{network}.lock"));
    // A lock of another user cannot be opened: that network is not free.
    let lock = File::create(path).ok()?;
    lock.try_lock().ok()?;
    for port in [options.port, options.storage_port] {
        TcpListener::bind((settings::address(network, 1), port)).ok()?;
    }
    Some(lock)
}
