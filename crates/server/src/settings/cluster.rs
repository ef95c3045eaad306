//! Settings of a port of a cluster.

use super::setting::Setting;
use super::text::{count, duration, non_empty};
use super::values::Acknowledge;
use std::path::PathBuf;
use std::time::Duration;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 13] = [
    Setting {
        name: "cluster",
        default: "none",
        form: "cassandra://HOST,.../KEYSPACE|none",
        help: "Apache Cassandra or ScyllaDB in which the ports of a cluster store their samples: some of its hosts, with \
               ports if they differ from 9042, and a keyspace, which is created if it is missing. `?rf=3` sets the \
               number of replicas of a new keyspace; more replicas survive the loss of more machines, and each costs its \
               disk and network. `&compaction=fisherman` gives new tables the compaction of this project, which never \
               merges files and needs a jar on every node; `windows` (the default) needs nothing and writes more. \
               `USER@` before the hosts names a user; its password is in \
               `cassandra_password_file`, or in the variable SEINER_CASSANDRA_PASSWORD. The server becomes an ingest port of the cluster; `data` then \
               holds the rows that are not handed over yet. `none`: all samples are in `data`, on this machine.",
        assign: |settings, text| {
            settings.cluster = match text {
                "none" => String::new(),
                text if has_password(text) => {
                    let text = "the address of a cluster contains a password, which lists of processes and logs show; \
                                leave it out, and give cassandra_password_file";
                    return Err(text.to_string());
                }
                text if text.starts_with("cassandra://") => text.to_string(),
                _ => {
                    return Err(format!(
                        "{text:?} does not begin with cassandra://; give cassandra://host1,host2/keyspace, or none"
                    ));
                }
            };
            Ok(())
        },
    },
    Setting {
        name: "cassandra_password_file",
        default: "none",
        form: "PATH|none",
        help: "File with the password of the user in `cluster`. A line break at its end does not count. `none`: the \
               variable SEINER_CASSANDRA_PASSWORD, if there is a user.",
        assign: |settings, text| {
            settings.cassandra_password_file = file(text)?;
            Ok(())
        },
    },
    Setting {
        name: "cassandra_ca_file",
        default: "none",
        form: "PATH|none",
        help: "File (PEM) with the certificates of the authorities that sign the certificates of the cluster's nodes. \
               Connections to the nodes are then encrypted, and the certificate of a node must contain the address of \
               the node. Needs a program built with the feature `cluster-tls`. `none`: connections are not encrypted.",
        assign: |settings, text| {
            settings.cassandra_ca_file = file(text)?;
            Ok(())
        },
    },
    Setting {
        name: "cassandra_certificate_file",
        default: "none",
        form: "PATH|none",
        help: "File (PEM) with the certificate that this port shows to the nodes, if they require one. Needs \
               `cassandra_ca_file` and `cassandra_key_file`.",
        assign: |settings, text| {
            settings.cassandra_certificate_file = file(text)?;
            Ok(())
        },
    },
    Setting {
        name: "cassandra_key_file",
        default: "none",
        form: "PATH|none",
        help: "File (PEM) with the private key of the certificate in `cassandra_certificate_file`.",
        assign: |settings, text| {
            settings.cassandra_key_file = file(text)?;
            Ok(())
        },
    },
    Setting {
        name: "port_name",
        default: "auto",
        form: "NAME|auto",
        help: "Name of this port, unique in its cluster. The name and the directory `data` belong together. `auto`: the \
               name of the host.",
        assign: |settings, text| {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if text.is_empty() || text.len() > 200 || !text.chars().all(is_valid) {
                return Err(format!(
                    "{text:?} is not a name of a port; give letters, digits, dots, dashes and underscores"
                ));
            }
            settings.port_name = if text == "auto" {
                String::new()
            } else {
                text.to_string()
            };
            Ok(())
        },
    },
    Setting {
        name: "port_address",
        default: "auto",
        form: "HOST:PORT|auto",
        help: "Address under which other ports and clients reach this port. `auto`: the address in `listen`, which \
               suffices if that is not 0.0.0.0.",
        assign: |settings, text| {
            let text = non_empty(text)?;
            settings.port_address = if text == "auto" {
                String::new()
            } else {
                text.to_string()
            };
            Ok(())
        },
    },
    Setting {
        name: "ports_ca_file",
        default: "none",
        form: "PATH|none",
        help: "File (PEM) with the certificates of the authorities that sign the certificates of the cluster's ports. A \
               port with `tls_certificate` needs it, and every port that shall reach such a port. If the ports demand \
               certificates (`tls_client_ca`), a port shows its own. `none`: this port reaches ports without TLS only.",
        assign: |settings, text| {
            settings.ports_ca_file = file(text)?;
            Ok(())
        },
    },
    Setting {
        name: "acknowledge",
        default: "quorum",
        form: "quorum|one|local",
        help: "Replicas that must have the journal of a row before a port of a cluster acknowledges the row. `quorum`: more \
               than half. No failure of a minority of machines loses an acknowledged row. `one`: one replica. Ports \
               accept rows on both sides of a broken network; the loss of that replica and of this machine loses rows. \
               `local`: the disk of this machine only, which costs least. If the machine is lost before the next \
               handover, its latest rows are lost.",
        assign: |settings, text| {
            settings.acknowledge = match text {
                "quorum" => Acknowledge::Quorum,
                "one" => Acknowledge::One,
                "local" => Acknowledge::Local,
                _ => return Err(format!("{text:?} is not one of quorum, one, local")),
            };
            Ok(())
        },
    },
    Setting {
        name: "handover",
        default: "10m",
        form: "DURATION",
        help: "Longest time for which a port of a cluster keeps rows before it hands them over to the distributed store. A \
               longer time makes larger bundles, which take less space and fewer reads. A shorter time keeps the \
               replicated journal short.",
        assign: |settings, text| duration(text).map(|time| settings.handover = time),
    },
    Setting {
        name: "replica_sync",
        default: "20s",
        form: "DURATION|none",
        help: "Time after which a replica has certainly synced what it has acknowledged to its disk. A handover waits this \
               long twice, once for the data of its bundles and once for their directories; until then its rows stay in \
               the journal, and a port that stops waits. If the power of several replicas fails, a shorter time than \
               theirs loses rows. The default suits `commitlog_sync: periodic` with 10 s, which is Cassandra's default. \
               `none`: replicas sync before they acknowledge (`commitlog_sync: group` or `batch`).",
        assign: |settings, text| {
            settings.replica_sync = match text {
                "none" => Duration::ZERO,
                text => duration(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "shelves",
        default: "4",
        form: "COUNT",
        help: "Number of shelves of a new cluster: the parts of the sources that are stored together (F). More shelves \
               spread the load over more machines. Fewer shelves make larger bundles, which take less space. An existing \
               cluster has its own number: `seiner cluster plan` computes a number for a load, and changes it while ports \
               run.",
        assign: |settings, text| {
            let shelves = count(text)?;
            settings.shelves = u32::try_from(shelves)
                .ok()
                .filter(|shelves| *shelves <= 1 << 16)
                .ok_or_else(|| format!("{text:?} is more than 65536 shelves"))?;
            Ok(())
        },
    },
    Setting {
        name: "period",
        default: "24h",
        form: "DURATION",
        help: "Length of a period of a new cluster: the samples of a shelf in a period are one partition of the \
               distributed store. Longer periods need fewer requests for a long interval. Shorter periods keep \
               partitions small. An existing cluster has its own length, which `seiner cluster plan` changes.",
        assign: |settings, text| {
            let period = duration(text)?;
            if period < Duration::from_secs(1) {
                return Err(format!("{text:?} is shorter than a second"));
            }
            settings.period = period;
            Ok(())
        },
    },
];

/// Returns whether the address of a cluster contains a password.
fn has_password(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let login = rest.rsplit_once('@').map(|(login, _)| login);
    login.is_some_and(|login| login.contains(':'))
}

/// Parses the path of a file.
fn file(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(match non_empty(text)? {
        "none" => None,
        path => Some(PathBuf::from(path)),
    })
}
