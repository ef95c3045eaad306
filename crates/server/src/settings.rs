//! Settings: one table, from which flags, environment, file, `seiner config` and
//! `docs/config.md` are derived.
//!
//! Every setting is a text with a name, whatever its origin. One function per setting parses the
//! text. A value therefore has the same meaning and the same error messages in all places.

use crate::classes::{KEYS, VARIABLE};
use crate::hosts::HostName;
use seiner_engine::{Classes, Durability, Given, MergePolicy, Options};
use seiner_model::parse_duration;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
    /// True if addresses other than loopback are allowed.
    pub allow_remote: bool,
    /// Names of the server besides its addresses.
    pub allowed_hosts: Vec<HostName>,
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
    /// Size of a segment, bytes, unless it follows from the budget.
    pub segment_bytes: Option<u64>,
    /// Maximum size of the journal, bytes, unless it follows from the budget.
    pub journal_bytes: Option<u64>,
    /// Idle time after which the open block of a source is sealed.
    pub idle_seal: Duration,
    /// Interval of reading the host's own sensors; `None` to disable them.
    pub host_sensors: Option<Duration>,
    /// True if times in 1970 are stored although they look like present seconds or milliseconds.
    pub allow_1970: bool,
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
}

/// Setting: its name, its meaning, and the parser of its text.
pub struct Setting {
    /// Key in the file. The flag is `--` and the name with `-` for `_`; the variable is
    /// `SEINER_` and the name in capitals.
    pub name: &'static str,
    /// Default text.
    pub default: &'static str,
    /// Kind of the expected text, for help texts.
    pub form: &'static str,
    /// Effect and trade-off.
    pub help: &'static str,
    /// Parses a text into the settings. The error contains the remedy.
    pub(crate) assign: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Setting {
    /// Returns the flag, without the dashes: `max-body`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns the environment variable: `SEINER_MAX_BODY`.
    pub fn variable(&self) -> String {
        format!("SEINER_{}", self.name.to_uppercase())
    }

    /// Returns the setting with this name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        TABLE.iter().find(|setting| setting.name == name)
    }
}

/// Every setting, in the order of display.
pub static TABLE: [Setting; 32] = [
    Setting {
        name: "data",
        default: "./seiner-data",
        form: "PATH",
        help: "The directory that holds the data; it is made when it is missing. One server or program at a time may \
               have it open. Not used where an `array` holds them.",
        assign: |settings, text| {
            settings.data = PathBuf::from(non_empty(text)?);
            Ok(())
        },
    },
    Setting {
        name: "array",
        default: "off",
        form: "MEMBER,...|off",
        help: "The members of an array that holds the data instead of a directory: files or block devices of which \
               `seiner raid create` made one, in any order. A blank array becomes a store; one that holds anything else \
               is refused. Data survive the loss of as many members as the level bears; see raid.md.",
        assign: |settings, text| {
            settings.array = match text {
                "off" => Vec::new(),
                _ => members(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "array_degraded",
        default: "false",
        form: "true|false",
        help: "Whether members of the array may be missing at the start, as many as its level bears. They are put on \
               record as gone and come back only as new devices, so that a forgotten device costs a rebuild.",
        assign: |settings, text| boolean(text).map(|may| settings.array_degraded = may),
    },
    Setting {
        name: "array_control",
        default: "./seiner-raid.sock",
        form: "PATH",
        help: "The socket by which `seiner raid status`, `fail`, `replace`, `spare`, `scrub` and `stop` reach the array \
               that holds the data.",
        assign: |settings, text| {
            settings.array_control = PathBuf::from(non_empty(text)?);
            Ok(())
        },
    },
    Setting {
        name: "array_io",
        default: "auto",
        form: "auto|ring|threads",
        help: "How the members of the array are read and written: by io_uring (ring), by threads, or by io_uring where \
               the kernel has it (auto). Threads cost more CPU; take them where members lie on file systems in user \
               space or across a network.",
        assign: |settings, text| {
            settings.array_io = match text {
                "auto" => ArrayIo::Auto,
                "ring" => ArrayIo::Ring,
                "threads" => ArrayIo::Threads,
                _ => return Err(format!("{text:?} is none of auto, ring and threads")),
            };
            Ok(())
        },
    },
    Setting {
        name: "array_patience",
        default: "30s",
        form: "DURATION",
        help: "How long a member of the array may take for an operation before it is used no longer; 0 waits for ever. \
               Below what a disk takes to find an unreadable sector by itself, some ten seconds, members are lost that \
               need not be.",
        assign: |settings, text| patience(text).map(|time| settings.array_patience = time),
    },
    Setting {
        name: "array_background_rate",
        default: "0",
        form: "SIZE",
        help: "Bytes a second of each member that filling, checking and resyncing the array may take; 0 is as many as \
               they can. The lower, the less writes and queries feel of it, and the longer the array lives without its \
               redundancy.",
        assign: |settings, text| rate(text).map(|rate| settings.array_background_rate = rate),
    },
    Setting {
        name: "listen",
        default: "127.0.0.1:7670",
        form: "ADDRESS:PORT",
        help: "Where HTTP is served: writes, queries, metrics and the page. There is no password: other hosts reach \
               the server only if `allow_remote` says so too.",
        assign: |settings, text| address(text).map(|address| settings.listen = address),
    },
    Setting {
        name: "line_tcp",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Where line protocol is taken over plain TCP, one line after the other. It costs the sender least, but \
               nothing is acknowledged: lines that are refused are only counted and logged.",
        assign: |settings, text| {
            settings.line_tcp = if text == "off" {
                None
            } else {
                Some(address(text)?)
            };
            Ok(())
        },
    },
    Setting {
        name: "allow_remote",
        default: "false",
        form: "true|false",
        help: "Whether addresses other than loopback may be listened on. Whoever reaches the port may read and write \
               everything: put a proxy that checks who asks in front of it, or a firewall around it.",
        assign: |settings, text| boolean(text).map(|allow| settings.allow_remote = allow),
    },
    Setting {
        name: "allowed_hosts",
        default: "none",
        form: "NAME[:PORT],...|none",
        help: "Names by which the server is asked, beside `localhost`, the loopback addresses and the addresses that it \
               listens on: its name in the network such as `nas.local`, or the name of a proxy in front of it. A request \
               with any other name as its Host is answered 421, so that no page that a browser opens can reach the \
               server by a name of its own (DNS rebinding). A proxy that changes Host needs the origin of the page here, \
               with its port unless that is 80 or 443.",
        assign: |settings, text| {
            settings.allowed_hosts = match text {
                "none" => Vec::new(),
                _ => host_names(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "durability",
        default: "100ms",
        form: "sync|DURATION|memory",
        help: "When an acknowledged row survives a power cut. `sync`: always; every write waits for the disk, which \
               flushes once for all who wait. A duration (`interval` is 100ms): the journal is flushed this often, \
               and a crash loses at most that much and what arrived during the flush. `memory`: no journal; a crash \
               loses what is not in a segment yet, and half as much is written to the disk.",
        assign: |settings, text| {
            durability(text).map(|durability| settings.durability = durability)
        },
    },
    Setting {
        name: "memory",
        default: "auto",
        form: "SIZE|auto",
        help: "The memory that the store takes at most for buffers, names and index. `auto`: a quarter of the \
               machine's memory, or of the control group's limit if that is less, from 128 MiB to 8 GiB. More lets \
               blocks grow larger before they are sealed, which compresses better; less leaves more to other \
               programs and to the page cache. Each source needs some 200 bytes. When names alone would take nine \
               sixteenths of the memory, new sources are refused. The process takes up to 64 MiB beside it, for its \
               program, threads, requests and answers.",
        assign: |settings, text| automatic(text, 8 << 20).map(|bytes| settings.memory = bytes),
    },
    Setting {
        name: "block_bytes",
        default: "4 KiB",
        form: "SIZE",
        help: "The bytes that one source gathers in memory before they are sealed into a block. Larger blocks \
               compress better and are cheaper to read, smaller ones need less memory a source. 256 bytes to 64 KiB.",
        assign: |settings, text| {
            let bytes = at_least(text, u64::from(*Options::BLOCK_BYTES.start()))?;
            settings.block_bytes = u32::try_from(bytes)
                .ok()
                .filter(|bytes| Options::BLOCK_BYTES.contains(bytes))
                .ok_or_else(|| {
                    let most = Options::BLOCK_BYTES.end() >> 10;
                    format!("{text:?} is more than a block can hold; give at most {most} KiB")
                })?;
            Ok(())
        },
    },
    Setting {
        name: "disk",
        default: "all",
        form: "SIZE|all",
        help: "What the data directory may take, everything in it included, at every moment. Near it the store merges, \
               slows writers, and then sheds or refuses as the retention classes say; see retention.md. `all`: as \
               much as there is; on an array, what it has room for.",
        assign: |settings, text| {
            settings.disk = match text {
                "all" => None,
                _ => Some(at_least(text, 1).map_err(|error| format!("{error}, or \"all\""))?),
            };
            Ok(())
        },
    },
    Setting {
        name: "leave_free",
        default: "0 B",
        form: "SIZE",
        help: "What is left free on the file system of the data directory, whoever else fills it.",
        assign: |settings, text| parse_size(text).map(|bytes| settings.leave_free = bytes),
    },
    Setting {
        name: "merge_from",
        default: "0.95",
        form: "SHARE",
        help: "The share of `disk` at which merging begins. Later merging finds more that is dead and writes less, and \
               has less room for surprises.",
        assign: |settings, text| {
            settings.merge_from = text
                .parse()
                .ok()
                .filter(|share| (0.1..=0.99).contains(share))
                .ok_or_else(|| format!("{text:?} is no share; give a number from 0.1 to 0.99"))?;
            Ok(())
        },
    },
    Setting {
        name: "policy",
        default: "patient",
        form: "NAME",
        help: "Which segments are merged: `fifo` the oldest; `greedy` those with most that is dead; `cost-benefit` free \
               space times age over cost; `fisherman` by hunger, no worse than before; `patient` what buys most room \
               for longest, waiting for what dies anyway.",
        assign: |settings, text| text.parse().map(|policy| settings.policy = policy),
    },
    Setting {
        name: "extra_writes",
        default: "0.2",
        form: "RATIO",
        help: "Bytes that may be written for each byte stored, over what merging for room writes anyway, to gather small \
               blocks into larger ones. More makes later reads of a source faster and the store smaller, and wears the \
               device; 0 gathers only what a merge writes again anyway.",
        assign: |settings, text| {
            settings.extra_writes = text
                .parse()
                .ok()
                .filter(|ratio| (0.0..=10.0).contains(ratio))
                .ok_or_else(|| format!("{text:?} is no ratio; give a number from 0 to 10"))?;
            Ok(())
        },
    },
    Setting {
        name: "lanes",
        default: "32",
        form: "COUNT",
        help: "Logs written side by side at most, each with data that go at about the same time, so that whole segments can \
               be dropped. More lanes write fewer bytes twice, and each takes memory and an open segment; there is no more than \
               one for each 512 KiB of the journal, or four, or their indexes would take too much of a small budget.",
        assign: |settings, text| {
            settings.lanes = text
                .parse()
                .ok()
                .filter(|lanes| (2..=256).contains(lanes))
                .ok_or_else(|| {
                    format!("{text:?} is no count of lanes; give a whole number from 2 to 256")
                })?;
            Ok(())
        },
    },
    Setting {
        name: "device_tbw",
        default: "unknown",
        form: "SIZE|unknown",
        help: "The bytes that may be written to the device of the data directory in its life, as its data sheet says \
               (TBW), such as `600 TB`. Then `seiner log status`, `/metrics` and the page tell how long a new one \
               lasts at the present rate.",
        assign: |settings, text| {
            settings.device_tbw = match text {
                "unknown" => None,
                _ => Some(
                    at_least(text, 1_000_000_000)
                        .map_err(|error| format!("{error}, or \"unknown\""))?,
                ),
            };
            Ok(())
        },
    },
    Setting {
        name: "segment_bytes",
        default: "auto",
        form: "SIZE|auto",
        help: "The bytes of a segment, the file that blocks are written to in one sequential stream. Larger ones mean \
               fewer files and a faster start, smaller ones give space back sooner. `auto`: 64 MiB, or what a 512th \
               of `disk` comes to if that is less, 256 KiB at least.",
        assign: |settings, text| {
            automatic(text, 64 << 10).map(|bytes| settings.segment_bytes = bytes)
        },
    },
    Setting {
        name: "journal_bytes",
        default: "auto",
        form: "SIZE|auto",
        help: "The bytes of journal kept at most. It bounds how long a start after a crash takes; a larger journal \
               lets slow sources fill their blocks before they are sealed to free it. `auto`: 128 MiB, or a 32nd of \
               `disk` if that is less, 1 MiB at least.",
        assign: |settings, text| {
            automatic(text, 64 << 10).map(|bytes| settings.journal_bytes = bytes)
        },
    },
    Setting {
        name: "idle_seal",
        default: "10m",
        form: "DURATION",
        help: "A source that was silent this long is sealed, so that it does not hold the journal. Shorter keeps the \
               journal small, longer makes fuller blocks of sources that speak rarely.",
        assign: |settings, text| duration(text).map(|duration| settings.idle_seal = duration),
    },
    Setting {
        name: "host_sensors",
        default: "1s",
        form: "DURATION|off",
        help: "How often the sensors of the host itself (CPU, memory, disks, network, temperatures, and the store's \
               own figures) are read and stored, as `host_cpu`, `host_mem`, `host_load`, `host_disk`, `host_fs`, `host_net`, \
               `host_temp` and `seiner`, so that an agent such as Telegraf can write its `cpu` and `mem` beside them. A second \
               costs a few hundred samples and about 0.1 % of a core.",
        assign: |settings, text| {
            settings.host_sensors = match text {
                "off" | "false" => None,
                "on" | "true" => Some(Duration::from_secs(1)),
                _ => Some(duration(text).map_err(|error| format!("{error}, or \"off\""))?),
            };
            Ok(())
        },
    },
    Setting {
        name: "allow_1970",
        default: "false",
        form: "true|false",
        help: "Whether lines are stored whose times are in 1970, but would be between 1990 and 2100 in a coarser unit, such \
               as 1700000000 in ns. Mostly the precision was forgotten, so that they are refused. A write can allow them \
               for itself, by `allow_1970=true` in its address.",
        assign: |settings, text| boolean(text).map(|allow| settings.allow_1970 = allow),
    },
    Setting {
        name: "max_body",
        default: "256 MiB",
        form: "SIZE",
        help: "The largest body of one write, after decompression. Bodies are streamed, so that it costs no memory; \
               it bounds how long one request can keep its place among `max_requests`.",
        assign: |settings, text| at_least(text, 1024).map(|bytes| settings.max_body = bytes),
    },
    Setting {
        name: "max_requests",
        default: "256",
        form: "COUNT",
        help: "Writes taken at the same time; more are answered 503 with Retry-After instead of being queued. Each \
               takes up to 128 KiB of memory while its body arrives.",
        assign: |settings, text| count(text).map(|count| settings.max_requests = count),
    },
    Setting {
        name: "max_queries",
        default: "16",
        form: "COUNT",
        help: "Queries answered at the same time; more are answered 503 with Retry-After. Each holds one series and a \
               few answer chunks in memory, and up to one core.",
        assign: |settings, text| count(text).map(|count| settings.max_queries = count),
    },
    Setting {
        name: "max_connections",
        default: "1024",
        form: "COUNT",
        help: "Connections open at the same time, of HTTP and of line protocol each; more are turned away. A \
               connection that once sent a large body holds up to 128 KiB.",
        assign: |settings, text| count(text).map(|count| settings.max_connections = count),
    },
    Setting {
        name: "stop_timeout",
        default: "10s",
        form: "DURATION",
        help: "How long to wait at a stop for requests in flight. What was acknowledged is kept in any case; a longer \
               wait lets slow senders finish, a shorter one stops sooner.",
        assign: |settings, text| duration(text).map(|duration| settings.stop_timeout = duration),
    },
    Setting {
        name: "log",
        default: "info",
        form: "FILTER",
        help: "What is logged to standard error: error, warn, info, debug, trace, or a list such as \
               `info,seiner_server=debug`. Single rows are never logged.",
        assign: |settings, text| {
            settings.log = non_empty(text)?.to_string();
            Ok(())
        },
    },
];

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

    /// Returns the settings for a store on a dedicated disk, with this space for files in units of this size. The whole space
    /// is the budget, unless a smaller one was given.
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
                "disk = {disk} bytes is more than the {most} for which there is room; lower it, or leave it out"
            )),
            _ => Ok(self),
        }
    }

    /// Refuses an address that other hosts can reach, unless the settings allow it.
    ///
    /// # Errors
    /// A sentence that names the setting and the remedy.
    pub fn check_exposure(&self) -> Result<(), String> {
        let addresses = [("listen", Some(self.listen)), ("line_tcp", self.line_tcp)];
        for (name, address) in addresses {
            if let Some(address) = address
                && !address.ip().is_loopback()
                && !self.allow_remote
            {
                return Err(format!(
                    "{name} = \"{address}\" can be reached from other hosts, and there is no password: whoever \
                     reaches it may read and write everything; listen on 127.0.0.1, or set allow_remote = true"
                ));
            }
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Settings {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let mut settings = Settings {
            data: PathBuf::new(),
            array: Vec::new(),
            array_degraded: false,
            array_control: PathBuf::new(),
            array_io: ArrayIo::Auto,
            array_patience: Duration::ZERO,
            array_background_rate: 0,
            listen: local,
            line_tcp: None,
            allow_remote: false,
            allowed_hosts: Vec::new(),
            durability: Durability::Memory,
            memory: None,
            block_bytes: 0,
            disk: None,
            leave_free: 0,
            merge_from: 0.0,
            policy: MergePolicy::default(),
            extra_writes: 0.0,
            lanes: 0,
            classes: Classes::default(),
            given: Given::default(),
            apply_retention: false,
            device_tbw: None,
            segment_bytes: None,
            journal_bytes: None,
            idle_seal: Duration::ZERO,
            host_sensors: None,
            allow_1970: false,
            max_body: 0,
            max_requests: 0,
            max_queries: 0,
            max_connections: 0,
            stop_timeout: Duration::ZERO,
            log: String::new(),
        };
        for setting in &TABLE {
            (setting.assign)(&mut settings, setting.default).expect("a test reads every default");
        }
        settings
    }
}

/// Returns the page `docs/config.md`, generated from the table.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Every setting can be given as a flag of `seiner serve`, as an environment variable, or as a key of a TOML\n\
         file (`--config FILE`; without it `./seiner.toml`, if there is one). A flag goes before a variable, a\n\
         variable before the file, the file before the default. `seiner config` prints what holds, and where each\n\
         value came from. A key that does not exist or a value that cannot be read is an error: the server does not\n\
         start. Terms: [glossary](glossary.md).\n\n\
         Retention classes, `disk`, `leave_free`, `merge_from`, `policy`, `extra_writes`, `lanes`, `block_bytes`,\n\
         `segment_bytes` and `journal_bytes` are rules: they are stored with the data. In a store that exists the\n\
         stored rule goes before the default; one that is given replaces it, unless data would go sooner for it: that\n\
         needs `--apply-retention`. See [retention.md](retention.md#rules-live-with-the-data).\n\n\
         Sizes take B, KiB, MiB, GiB, TiB (and kB, MB, GB, TB for powers of ten); durations ns, us, ms, s, m, h, d,\n\
         also put together, such as `1h30m`.\n\n\
         <!-- Made from the table in crates/server/src/settings.rs; SEINER_BLESS=1 cargo test -p seiner-server -->\n",
    );
    for setting in &TABLE {
        write!(
            page,
            "\n## `{}`\n\nDefault `{}`, form `{}`, flag `--{}`, variable `{}`.\n\n{}\n",
            setting.name,
            setting.default,
            setting.form,
            setting.flag(),
            setting.variable(),
            setting.help
        )
        .expect("a String takes everything");
    }
    page.push_str(&classes_markdown());
    page
}

fn classes_markdown() -> String {
    let mut section = format!(
        "\n## Retention classes\n\n\
         Which sources are kept how long: see [retention.md](retention.md). A class is a table of the file, or a flag\n\
         `--class`, or a part of the variable `{VARIABLE}`. Classes of a flag replace those of the variable, these those\n\
         of the file. The first class that means a source has it.\n\n\
         ```toml\n[[class]]\nname = \"raw\"\nsources = 'accel{{axis=\"x\"}}'\nage = \"30d\"\nwhen_full = \"shed\"\n```\n\n\
         ```sh\nseiner serve --class 'name=raw,sources=accel{{axis=\"x\"}},age=30d,when_full=shed' --class 'name=rest,sources=cpu,rows=100000'\n\
         SEINER_CLASS='name=raw,sources=accel,age=30d; name=rest,sources=cpu,rows=100000' seiner serve\n```\n\n\
         | key | form | |\n| --- | --- | --- |\n"
    );
    for key in &KEYS {
        let form = key.form.replace('|', "\\|");
        writeln!(section, "| `{}` | `{form}` | {} |", key.name, key.help)
            .expect("a String takes everything");
    }
    section
}

fn non_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        Err("it is empty; give a value or leave the setting out".to_string())
    } else {
        Ok(text)
    }
}

/// Returns hosts separated by commas.
fn host_names(text: &str) -> Result<Vec<HostName>, String> {
    let names = text.split(',').map(str::trim);
    names
        .map(|name| {
            HostName::parse(name).ok_or_else(|| {
                format!(
                    "{name:?} is no host; write names such as nas.local or nas.local:8443 with commas between them, or \"none\""
                )
            })
        })
        .collect()
}

/// Returns paths separated by commas.
fn members(text: &str) -> Result<Vec<PathBuf>, String> {
    let members = text.split(',').map(str::trim);
    members
        .map(|member| match member {
            "" => Err(format!(
                "{text:?} names a member that is empty; write their paths with commas between them, or \"off\""
            )),
            member => Ok(PathBuf::from(member)),
        })
        .collect()
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Parses the maximum time of an operation of a member; zero for no limit.
fn patience(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

/// Parses a rate in bytes per second; 0 for no limit.
fn rate(text: &str) -> Result<u64, String> {
    match text {
        "0" => Ok(0),
        _ => parse_size(text),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=1_000_000).contains(&count) => Ok(count),
        _ => Err(format!(
            "{text:?} is no count; give a whole number from 1 to 1000000"
        )),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let ns = parse_duration(text).map_err(|error| error.to_string())?;
    match u64::try_from(ns) {
        Ok(ns) if ns >= 1_000_000 => Ok(Duration::from_nanos(ns)),
        _ => Err(format!("{text:?} is too short; give at least 1ms")),
    }
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "memory" => Ok(Durability::Memory),
        "interval" => Ok(Durability::Interval(Duration::from_millis(100))),
        _ => duration(text).map(Durability::Interval).map_err(|_| {
            format!("{text:?} is no durability; write sync, memory, or a duration of at least 1ms such as 100ms")
        }),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("{text:?} is no address; write an IP address and a port, such as 127.0.0.1:7670")
    })
}

/// Parses a size; `None` if it follows from other settings.
fn automatic(text: &str, least: u64) -> Result<Option<u64>, String> {
    match text {
        "auto" => Ok(None),
        _ => at_least(text, least)
            .map(Some)
            .map_err(|error| format!("{error}, or \"auto\"")),
    }
}

fn at_least(text: &str, least: u64) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes >= least => Ok(bytes),
        _ => Err(format!(
            "{text:?} is too little; give at least {}",
            format_size(least)
        )),
    }
}

const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses a size such as `256 MiB`, `1.5GiB` or `4096`, in bytes.
///
/// # Errors
/// A sentence with the remedy.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let error = || format!("{text:?} is no size; write a number and a unit, such as 256 MiB");
    let (number, unit) = match UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
    {
        Some((number, unit)) => (number.trim_end(), unit),
        None => (text, 1),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(error);
    }
    match number.parse::<f64>() {
        Ok(number) if (0.0..1e6).contains(&number) => Ok((number * unit as f64) as u64),
        _ => Err(error()),
    }
}

/// Returns a size in the largest unit that gives a whole number: `256 MiB`.
pub fn format_size(bytes: u64) -> String {
    UNITS[..4]
        .iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit))
        .map_or_else(
            || format!("{bytes} B"),
            |(name, unit)| format!("{} {name}", bytes / unit),
        )
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
    fn the_budget_on_a_disk_of_its_own_is_what_fits() {
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

    #[test]
    fn members_are_named_with_commas_between() {
        assert_eq!(members("a, b"), Ok(vec!["a".into(), "b".into()]));
        assert!(members("a,").is_err());
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4 KiB", 4096),
            ("1.5MiB", 3 << 19),
            ("2 GB", 2_000_000_000),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "MiB",
            "-1",
            "1 mb",
            "lots",
            "99999999999999999999",
            "1e30 GiB",
            "NaN",
        ] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
        assert_eq!(format_size(256 << 20), "256 MiB");
        assert_eq!(format_size(1000), "1000 B");
    }

    #[test]
    fn every_bad_value_is_refused_with_a_remedy() {
        for (name, bad) in [
            ("data", ""),
            ("array", "a,,b"),
            ("array_degraded", "perhaps"),
            ("array_control", ""),
            ("array_io", "fast"),
            ("array_patience", "long"),
            ("array_background_rate", "slow"),
            ("listen", "7670"),
            ("line_tcp", "yes"),
            ("allow_remote", "maybe"),
            ("allowed_hosts", "https://nas.local"),
            ("durability", "often"),
            ("memory", "1 KiB"),
            ("block_bytes", "1 GiB"),
            // The value passed here, and the engine refused it at the start.
            ("block_bytes", "65 KiB"),
            ("segment_bytes", "0"),
            ("journal_bytes", "x"),
            ("disk", "some"),
            ("leave_free", "-1"),
            ("merge_from", "1.5"),
            ("policy", "hungry"),
            ("extra_writes", "-1"),
            ("lanes", "1"),
            ("device_tbw", "1 MB"),
            ("idle_seal", "10"),
            ("host_sensors", "1us"),
            ("allow_1970", "1970"),
            ("max_body", "1"),
            ("max_requests", "0"),
            ("max_queries", "-1"),
            ("max_connections", "many"),
            ("stop_timeout", "soon"),
            ("log", ""),
        ] {
            let setting = Setting::named(name).expect("it is in the table");
            let error = (setting.assign)(&mut Settings::default(), bad).expect_err(name);
            assert!(error.len() > 15, "{name}: {error}");
        }
    }

    #[test]
    fn only_loopback_without_leave() {
        let mut settings = Settings::default();
        assert_eq!(settings.check_exposure(), Ok(()));
        settings.line_tcp = Some("[::]:7671".parse().unwrap());
        assert!(
            settings
                .check_exposure()
                .unwrap_err()
                .contains("allow_remote = true")
        );
        settings.allow_remote = true;
        assert_eq!(settings.check_exposure(), Ok(()));
    }

    #[test]
    fn the_page_about_settings_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
        if std::env::var_os("SEINER_BLESS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/config.md is out of date; run with SEINER_BLESS=1 to rewrite it"
        );
    }
}
