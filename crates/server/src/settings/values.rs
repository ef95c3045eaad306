//! Values of the settings: data, and what follows from several of them together.

use super::alert_values::AlertSettings;
use super::collectd_values::CollectdSettings;
use super::exposure;
use super::mqtt_values::MqttSettings;
use super::scrape_values::ScrapeJob;
use super::statsd_values::StatsdSettings;
use super::text_port_values::TextPorts;
use super::tls_values::TlsSettings;
use crate::hosts::HostName;
use crate::size::format_size;
use seiner_engine::{Classes, Durability, Given, MergePolicy, Options};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Share of the budget that a segment takes, and its bounds: small enough that data of one lifetime
/// can be dropped in whole segments while the store is nearly full.
const SEGMENT_SHARE: u64 = 512;
const SEGMENT_BYTES: (u64, u64) = (256 << 10, 64 << 20);
/// Share of the budget that the journal takes, and its bounds.
const JOURNAL_SHARE: u64 = 32;
const JOURNAL_BYTES: (u64, u64) = (1 << 20, 128 << 20);
/// Number of units of a dedicated disk that are reserved for space about to be freed.
const AHEAD_UNITS: u64 = 16;
/// Minimum number of units per segment: the last unit is half empty in the mean.
const SEGMENT_UNITS: u64 = 8;

/// Method of I/O on the members of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayIo {
    /// io_uring if the kernel has it, otherwise threads.
    Auto,
    /// io_uring.
    Ring,
    /// Threads.
    Threads,
}

/// Replicas that must have a row before a port of a cluster acknowledges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// None: the row is in the journal of this machine.
    Local,
    /// One.
    One,
    /// More than half.
    Quorum,
}

/// Requests that need a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// All, if there are tokens or other hosts can reach a port.
    Tokens,
    /// As `Tokens`, but ports of protocols without credentials may be reached from other hosts.
    Mixed,
    /// None.
    Open,
}

/// Form of the lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Settings of a server: data, not components.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of the data.
    pub data: PathBuf,
    /// Members of the array that holds the data instead; `None` for a directory.
    pub array: Vec<PathBuf>,
    /// True if members of the array may be missing at the start.
    pub array_degraded: bool,
    /// Control socket of the array.
    pub array_control: PathBuf,
    /// Method of I/O on the members of the array.
    pub array_io: ArrayIo,
    /// Maximum time of an operation of a member; zero for no limit.
    pub array_patience: Duration,
    /// Maximum rate of rebuilding, scrubbing and resyncing, bytes per second and member; 0 for no limit.
    pub array_background_rate: u64,
    /// Address of the HTTP port.
    pub listen: SocketAddr,
    /// Address of the port for line protocol over plain TCP, if there is one.
    pub line_tcp: Option<SocketAddr>,
    /// Address of the port for OTLP metrics over gRPC, if there is one.
    pub otlp_grpc: Option<SocketAddr>,
    /// Attributes of OTLP resources that become labels of all their series.
    pub otlp_labels: Vec<String>,
    /// True if addresses other than loopback are allowed.
    pub allow_remote: bool,
    /// Requests that need a token.
    pub access: AccessMode,
    /// File with the tokens; `None` for a file in the data directory.
    pub access_file: Option<PathBuf>,
    /// Files of TLS.
    pub tls: TlsSettings,
    /// Origins of pages of other hosts that may use the server, in lower case.
    pub cors_origins: Vec<String>,
    /// Names of the server besides its addresses.
    pub allowed_hosts: Vec<HostName>,
    /// Addresses of the ports for protocols without answers.
    pub text_ports: TextPorts,
    /// Settings of StatsD.
    pub statsd: StatsdSettings,
    /// Settings of collectd.
    pub collectd: CollectdSettings,
    /// Settings of MQTT.
    pub mqtt: MqttSettings,
    /// Settings of alerts.
    pub alert: AlertSettings,
    /// Jobs of scraping.
    pub scrape: Vec<ScrapeJob>,
    /// Program that answers SQL; `None` for `seiner-sql` beside this program.
    pub sql_program: Option<PathBuf>,
    /// Maximum memory of all SQL queries together, bytes.
    pub sql_memory: u64,
    /// Address of the port for PostgreSQL clients, if there is one.
    pub postgres_listen: Option<SocketAddr>,
    /// Address of the port for clients of Flight SQL, if there is one.
    pub flight_sql_listen: Option<SocketAddr>,
    /// Durability of acknowledged rows.
    pub durability: Durability,
    /// Memory of the store, bytes; `None`: a share of the machine's.
    pub memory: Option<u64>,
    /// Size of a block, bytes.
    pub block_bytes: u32,
    /// Maximum size of the data directory, bytes, if it is limited.
    pub disk: Option<u64>,
    /// Space to leave free on the file system, bytes.
    pub leave_free: u64,
    /// Share of the budget at which merging begins.
    pub merge_from: f64,
    /// Policy that chooses the segments to merge.
    pub policy: MergePolicy,
    /// Bytes per stored byte that may be written to give reads larger blocks.
    pub extra_writes: f64,
    /// Number of logs written side by side.
    pub lanes: u32,
    /// Retention classes.
    pub classes: Classes,
    /// Rules among these that replace the ones stored with the data.
    pub given: Given,
    /// True if rules may apply that delete data sooner than the stored ones.
    pub apply_retention: bool,
    /// Bytes that may be written to the device in its lifetime, if known.
    pub device_tbw: Option<u64>,
    /// Size of a segment, bytes; `None` for a size that depends on the budget.
    pub segment_bytes: Option<u64>,
    /// Maximum size of the journal, bytes; `None` for a size that depends on the budget.
    pub journal_bytes: Option<u64>,
    /// Idle time after which the open block of a source is sealed.
    pub idle_seal: Duration,
    /// Interval of reading the host's own sensors; `None` to disable them.
    pub host_sensors: Option<Duration>,
    /// True if times in 1970 are stored although they look like present seconds or milliseconds.
    pub allow_1970: bool,
    /// Name of the tag that keeps the database or bucket of a write; `None` if writes to all of them are merged.
    pub database_tag: Option<String>,
    /// Maximum body of a write, bytes after decompression.
    pub max_body: u64,
    /// Maximum number of concurrent writes.
    pub max_requests: usize,
    /// Maximum number of concurrent queries.
    pub max_queries: usize,
    /// Maximum number of open connections, of HTTP and line protocol each.
    pub max_connections: usize,
    /// Maximum time to wait at a stop for requests in flight.
    pub stop_timeout: Duration,
    /// Filter of log messages, such as `info` or `seiner_server=debug`.
    pub log: String,
    /// Form of the lines of the log.
    pub log_format: LogFormat,
    /// Duration from which a request is logged as slow; `None` for never.
    pub log_slow: Option<Duration>,
    /// Address of the cluster's distributed store; empty for a store of this machine alone.
    pub cluster: String,
    /// File with the password of the cluster's user.
    pub cassandra_password_file: Option<PathBuf>,
    /// File with the certificates of the authorities that sign the certificates of the cluster's nodes. `None`:
    /// connections are not encrypted.
    pub cassandra_ca_file: Option<PathBuf>,
    /// File with the certificate that this port shows to the nodes.
    pub cassandra_certificate_file: Option<PathBuf>,
    /// File with the private key of that certificate.
    pub cassandra_key_file: Option<PathBuf>,
    /// Name of this port in the cluster; empty for the name of the host.
    pub port_name: String,
    /// Address of this port for other ports and clients; empty for `listen`.
    pub port_address: String,
    /// File with the certificates of the authorities that sign the certificates of the cluster's ports. `None`: requests
    /// to ports with TLS fail.
    pub ports_ca_file: Option<PathBuf>,
    /// Replicas that must have a row before it is acknowledged.
    pub acknowledge: Acknowledge,
    /// Longest time between handovers to the distributed store.
    pub handover: Duration,
    /// Time after which a replica has synced what it has acknowledged.
    pub replica_sync: Duration,
    /// Number of shelves of a new cluster.
    pub shelves: u32,
    /// Length of a period of a new cluster.
    pub period: Duration,
}

impl Settings {
    /// Returns the options of the store.
    pub fn options(&self) -> Options {
        Options {
            durability: self.durability,
            memory: self.memory.unwrap_or_else(Options::automatic_memory),
            block_bytes: self.block_bytes,
            segment_bytes: self
                .segment_bytes
                .unwrap_or_else(|| self.share_of_disk(SEGMENT_SHARE, SEGMENT_BYTES)),
            journal_bytes: self
                .journal_bytes
                .unwrap_or_else(|| self.share_of_disk(JOURNAL_SHARE, JOURNAL_BYTES)),
            idle_seal: self.idle_seal,
            disk: self.disk,
            leave_free: self.leave_free,
            merge_from: self.merge_from,
            policy: self.policy,
            extra_writes: self.extra_writes,
            lanes: self.lanes,
            classes: self.classes.clone(),
            given: self.given,
            apply_retention: self.apply_retention,
            ..Options::default()
        }
    }

    /// Returns a power of two near a share of the budget, within bounds.
    fn share_of_disk(&self, share: u64, (least, most): (u64, u64)) -> u64 {
        match self.disk {
            Some(disk) if disk / share < most => (1 << (disk / share).max(1).ilog2()).max(least),
            _ => most,
        }
    }

    /// Returns the effective value of a setting whose text leaves it open: `256 KiB` for `auto`.
    pub fn comes_to(&self, name: &str) -> Option<String> {
        let options = self.options();
        match name {
            "memory" if self.memory.is_none() => Some(format_size(options.memory)),
            "segment_bytes" if self.segment_bytes.is_none() => {
                Some(format_size(options.segment_bytes))
            }
            "journal_bytes" if self.journal_bytes.is_none() => {
                Some(format_size(options.journal_bytes))
            }
            _ => None,
        }
    }

    /// Returns the settings for a store on a dedicated disk, with this space for files in units of this size. The whole
    /// space is the budget, unless a smaller one was given.
    ///
    /// # Errors
    /// If a larger budget was given.
    pub fn on_disk_of(mut self, capacity: u64, unit: u64) -> Result<Settings, String> {
        let given = self.disk;
        self.disk = Some(capacity);
        // Journal files that are created ahead, and ends of units: they count when they are used.
        let ahead = (self.options().journal_bytes / 4).max(64 << 10) + AHEAD_UNITS * unit;
        let most = capacity.saturating_sub(ahead);
        self.disk = Some(given.unwrap_or(most));
        let segment = self.options().segment_bytes.max(SEGMENT_UNITS * unit);
        self.segment_bytes.get_or_insert(segment);
        match given {
            Some(disk) if disk > most => Err(format!(
                "disk = {disk} bytes is more than the {most} that are available; lower it, or leave it out"
            )),
            _ => Ok(self),
        }
    }

    /// Returns the path of the file with the tokens.
    pub fn token_file(&self) -> PathBuf {
        let in_data = || self.data.join("access.toml");
        self.access_file.clone().unwrap_or_else(in_data)
    }

    /// Refuses an address that other hosts can reach, unless the settings allow it.
    ///
    /// # Errors
    /// A sentence that names the setting and the remedy.
    pub fn check_exposure(&self) -> Result<(), String> {
        exposure::check(self)
    }

    /// Refuses a start without tokens if requests need one, and ports that cannot ask for tokens. `tokens` is the number
    /// of tokens; `None` if there is no file.
    ///
    /// # Errors
    /// A sentence with the remedy, and the commands.
    pub fn check_access(&self, tokens: Option<usize>) -> Result<(), String> {
        exposure::check_tokens(self, tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_engine() {
        let options = Settings::default().options();
        let engine = Options::default();
        assert_eq!(options.durability, engine.durability);
        // The server takes a share of the machine; a program that embeds the engine decides itself.
        assert_eq!(options.memory, Options::automatic_memory());
        assert_eq!(options.block_bytes, engine.block_bytes);
        assert_eq!(options.segment_bytes, engine.segment_bytes);
        assert_eq!(options.journal_bytes, engine.journal_bytes);
        assert_eq!(options.idle_seal, engine.idle_seal);
        assert_eq!(options.disk, engine.disk);
        assert_eq!(options.leave_free, engine.leave_free);
        assert_eq!(options.merge_from, engine.merge_from);
        assert_eq!(options.policy, engine.policy);
        assert_eq!(options.extra_writes, engine.extra_writes);
        assert_eq!(options.lanes, engine.lanes);
    }

    #[test]
    fn segments_and_journal_follow_the_budget() {
        let of = |disk: u64| {
            let settings = Settings {
                disk: Some(disk),
                ..Settings::default()
            };
            let options = settings.options();
            (options.segment_bytes, options.journal_bytes)
        };
        assert_eq!(of(1 << 20), (256 << 10, 1 << 20));
        assert_eq!(of(100 << 20), (256 << 10, 2 << 20));
        assert_eq!(of(1 << 30), (2 << 20, 32 << 20));
        assert_eq!(of(100 << 30), (64 << 20, 128 << 20));
        let settings = Settings {
            segment_bytes: Some(1 << 20),
            ..Settings::default()
        };
        assert_eq!(settings.comes_to("segment_bytes"), None);
        assert_eq!(
            settings.comes_to("journal_bytes").as_deref(),
            Some("128 MiB")
        );
    }

    #[test]
    fn the_budget_of_a_dedicated_disk_is_limited_by_its_capacity() {
        let (capacity, unit) = (100 << 20, 64 << 10);
        let settings = Settings::default();
        let fitted = settings.clone().on_disk_of(capacity, unit).unwrap();
        let most = fitted.disk.unwrap();
        assert!((90 << 20..capacity).contains(&most), "{most}");
        assert_eq!(fitted.options().segment_bytes, 512 << 10);
        let of = |disk| Settings {
            disk: Some(disk),
            ..settings.clone()
        };
        let less = of(50 << 20).on_disk_of(capacity, unit).unwrap();
        assert_eq!(less.disk, Some(50 << 20));
        let error = of(capacity).on_disk_of(capacity, unit).unwrap_err();
        assert!(error.contains("lower it"), "{error}");
    }
}
