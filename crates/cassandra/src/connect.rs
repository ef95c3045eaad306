//! Connection to a cluster: reaches a node, and checks or creates the keyspace.

use crate::client::Client;
use crate::contact::{Contact, Host, Replication, is_name};
use crate::schema::{EARLIER, MARKER, OWNER, VERSION, create_keyspace, create_marker};
use crate::tls;
use seiner_cluster::{Level, RowsError};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Time for a host to answer at all.
const PROBE: Duration = Duration::from_secs(2);
/// Request OPTIONS of version 4 of Cassandra's protocol: version, flags, stream, operation, length of the body.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
/// Tables of a foreign keyspace that its error names.
const NAMED_TABLES: usize = 5;

/// Error of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// No node answered.
    #[error(
        "no node of the cluster answers: {0}; start the cluster, or correct the hosts, the port, the user, the \
         password or the files of TLS"
    )]
    Unreachable(String),
    /// A setting that cannot be right.
    #[error("{0}")]
    Setting(String),
    /// A keyspace that does not exist or has no tables of ours. Nothing was written.
    #[error(
        "the cluster has no keyspace {0} of Seiner; correct its name, or start a port, which creates it"
    )]
    NoKeyspace(String),
    /// A keyspace with tables of another program. Nothing was written.
    #[error(
        "the keyspace {keyspace} belongs to another program: it has the tables {tables}, and no table {MARKER}; use \
         another keyspace"
    )]
    ForeignKeyspace {
        /// Name of the keyspace.
        keyspace: String,
        /// Names of its first tables.
        tables: String,
    },
    /// A keyspace with tables of another version of Seiner. Nothing was written.
    #[error(
        "the keyspace {keyspace} has the schema {found}, and this program needs the schema {VERSION}; use the version \
         of Seiner that wrote the keyspace, or another keyspace"
    )]
    OtherSchema {
        /// Name of the keyspace.
        keyspace: String,
        /// Version of its tables.
        found: String,
    },
    /// The threads of the driver could not be started.
    #[error("the threads of the Cassandra driver cannot start: {0}")]
    Threads(String),
    /// The cluster did not execute a request.
    #[error("the cluster cannot be used: {0}")]
    Rows(#[from] RowsError),
}

/// Longest wait for the nodes of a new keyspace, and the interval at which they are looked for.
const NODES_WAIT: Duration = Duration::from_secs(30);
const NODES_POLL: Duration = Duration::from_millis(200);

/// Connects, and checks or creates the keyspace.
pub(crate) async fn connect(
    contact: &Contact,
    replication: Replication,
) -> Result<Client, ConnectError> {
    check_settings(contact, replication)?;
    let client = reach(contact).await?;
    if find_keyspace(&client).await? == Found::Ours {
        return Ok(client);
    }
    let datacenters = datacenters(&client, replication.factor).await?;
    let text = create_keyspace(&client.keyspace, replication.factor, &datacenters);
    client.change_schema(&text).await?;
    client
        .change_schema(&create_marker(&client.keyspace))
        .await?;
    mark(&client, &client.keyspace, "version", VERSION).await;
    match find_keyspace(&client).await? {
        Found::Ours => Ok(client),
        Found::Nothing => {
            let text = "the version of the tables could not be written to most nodes";
            Err(RowsError::Unavailable(text.to_string()).into())
        }
    }
}

/// Connects to a keyspace that exists.
pub(crate) async fn open(contact: &Contact) -> Result<Client, ConnectError> {
    check_settings(contact, Replication::default())?;
    let client = reach(contact).await?;
    match find_keyspace(&client).await? {
        Found::Ours => Ok(client),
        Found::Nothing => Err(ConnectError::NoKeyspace(contact.keyspace.clone())),
    }
}

/// Writes a row of a marker, unless the row exists. If the answer is lost, the next look finds out.
pub(crate) async fn mark(client: &Client, keyspace: &str, name: &str, value: &str) {
    let text = format!(
        "INSERT INTO \"{keyspace}\".{MARKER} (name, value) VALUES ('{name}', '{value}') IF NOT EXISTS"
    );
    let _ = client
        .patience
        .once(|| client.session.query_unpaged(&*text, ()))
        .await;
}

/// Reaches a node, and connects through the hosts that answer. On failure, returns the reason for each host.
///
/// The driver waits for hosts that accept connections and do not answer, so such hosts are found first.
pub(crate) async fn reach(contact: &Contact) -> Result<Client, ConnectError> {
    let tls = contact.tls.as_ref().map(tls::config).transpose();
    let tls = tls.map_err(ConnectError::Setting)?;
    let is_plain = tls.is_none();
    let mut probes = JoinSet::new();
    for (number, host) in contact.hosts.iter().cloned().enumerate() {
        probes.spawn(async move { (number, probe(&host, is_plain).await, host) });
    }
    let mut hosts = probes.join_all().await;
    hosts.sort_by_key(|(number, ..)| *number);
    let mut answering = contact.clone();
    answering.hosts.clear();
    for (_, outcome, host) in &hosts {
        if outcome.is_ok() {
            answering.hosts.push(host.clone());
        }
    }
    let open_client = Client::open(&answering, tls, contact.hosts.len());
    let driver = match answering.hosts.is_empty() {
        true => String::new(),
        false => match timeout(contact.timeouts.connect, open_client).await {
            Ok(Ok(client)) => return Ok(client),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no connection within {:?}", contact.timeouts.connect),
        },
    };
    let reasons = hosts.into_iter().map(|(_, outcome, host)| match outcome {
        Ok(()) => format!("{host} (answers, but: {driver})"),
        Err(reason) => format!("{host} ({reason})"),
    });
    let reasons: Vec<String> = reasons.collect();
    Err(ConnectError::Unreachable(reasons.join(", ")))
}

/// Asks a host for the options of the query language. A host with encrypted connections is only reached.
async fn probe(host: &Host, is_plain: bool) -> Result<(), String> {
    let request = async {
        let mut stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
        if !is_plain {
            return Ok([0x80; OPTIONS.len()]);
        }
        stream.write_all(&OPTIONS).await?;
        let mut answer = [0; OPTIONS.len()];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(PROBE, request).await {
        // The highest bit of the version marks an answer.
        Ok(Ok([version, ..])) if version & 0x80 != 0 => Ok(()),
        Ok(Ok(_)) => Err("another protocol than that of Cassandra, or TLS".to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {PROBE:?}")),
    }
}

fn check_settings(contact: &Contact, replication: Replication) -> Result<(), ConnectError> {
    let wrong = |text: String| Err(ConnectError::Setting(text));
    if contact.hosts.is_empty() {
        return wrong("a cluster needs at least one host; set one".to_string());
    }
    if !is_name(&contact.keyspace) {
        return wrong(format!(
            "{:?} is no name of a keyspace; use at most 48 lower-case letters, digits and underscores, beginning \
             with a letter",
            contact.keyspace
        ));
    }
    if replication.factor == 0 {
        return wrong("a row needs at least one copy; set a replication of 1 or more".to_string());
    }
    Ok(())
}

/// Keyspace that a client finds.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// No keyspace, an empty one, or one whose creation was interrupted.
    Nothing,
    /// Keyspace with the tables of this version.
    Ours,
}

async fn find_keyspace(client: &Client) -> Result<Found, ConnectError> {
    let keyspace = &client.keyspace;
    let tables: Vec<String> = tables(client, keyspace).await?;
    if tables.is_empty() {
        return Ok(Found::Nothing);
    }
    let foreign = || {
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        ConnectError::ForeignKeyspace {
            keyspace: keyspace.clone(),
            tables: tables[..tables.len().min(NAMED_TABLES)].join(", "),
        }
    };
    if !tables.iter().any(|table| table == MARKER) {
        return Err(foreign());
    }
    if let Ok(Some(owner)) = marked(client, keyspace, OWNER, &[Level::One]).await {
        let text = format!(
            "the keyspace {keyspace} has the tables of a retention class of the keyspace {owner}; name {owner}, or \
             another keyspace"
        );
        return Err(ConnectError::Setting(text));
    }
    match version(client).await {
        Ok(Some(version)) if version == VERSION || version == EARLIER => Ok(Found::Ours),
        Ok(Some(found)) => Err(ConnectError::OtherSchema {
            keyspace: keyspace.clone(),
            found,
        }),
        Ok(None) if tables.len() == 1 => Ok(Found::Nothing),
        Ok(None) => Err(foreign()),
        // A table of this name with other columns.
        Err(RowsError::Rejected(_)) => Err(foreign()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the names of all tables of a keyspace, with the marker.
pub(crate) async fn tables(client: &Client, keyspace: &str) -> Result<Vec<String>, RowsError> {
    let text =
        format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    let rows: Vec<(String,)> = client.select(&text, Level::One).await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

/// Returns the version of the tables. One replica is enough if it has the version, so that a client can connect while
/// most nodes are down.
pub(crate) async fn version(client: &Client) -> Result<Option<String>, RowsError> {
    marked(
        client,
        &client.keyspace,
        "version",
        &[Level::One, Level::Quorum],
    )
    .await
}

/// Returns the value of a row of a marker, as found at the first level that finds the row.
pub(crate) async fn marked(
    client: &Client,
    keyspace: &str,
    name: &str,
    levels: &[Level],
) -> Result<Option<String>, RowsError> {
    let text = format!("SELECT value FROM \"{keyspace}\".{MARKER} WHERE name = '{name}'");
    for level in levels {
        let rows: Vec<(Option<String>,)> = client.select(&text, *level).await?;
        if let Some((Some(value),)) = rows.into_iter().next() {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Returns the number of nodes of each data centre, for a new keyspace. A node that started a moment ago may not know
/// all others, and the keyspace would have fewer copies for ever. So this function waits until the driver knows as many
/// nodes as hosts were named, or as a row needs.
///
/// # Errors
/// If the driver knows fewer after a while.
pub(crate) async fn datacenters(
    client: &Client,
    factor: usize,
) -> Result<BTreeMap<String, usize>, RowsError> {
    let needed = factor.min(client.named_hosts);
    let mut found = known_datacenters(client);
    for _ in 0..NODES_WAIT.as_millis() / NODES_POLL.as_millis() {
        if found.values().sum::<usize>() >= needed {
            break;
        }
        tokio::time::sleep(NODES_POLL).await;
        // A failure leaves the nodes that were known.
        let _ = client.session.refresh_metadata().await;
        found = known_datacenters(client);
    }
    let nodes = found.values().sum::<usize>();
    if nodes < needed {
        let text = format!(
            "only {nodes} of {} hosts are known as nodes of one cluster; look at `nodetool status`, and start the \
             port when all nodes are up",
            client.named_hosts
        );
        return Err(RowsError::Unavailable(text));
    }
    for (datacenter, nodes) in found.iter().filter(|(_, nodes)| **nodes < factor) {
        tracing::warn!(
            "the data centre {datacenter} has {nodes} nodes, so its rows get {nodes} copies instead of {factor}"
        );
    }
    Ok(found)
}

/// Returns the number of nodes of each data centre that the driver knows.
fn known_datacenters(client: &Client) -> BTreeMap<String, usize> {
    let state = client.session.get_cluster_state();
    let mut datacenters = BTreeMap::new();
    for node in state.get_nodes_info() {
        // All nodes of Cassandra and ScyllaDB have a data centre; this is the name of the only one by default.
        let name = node.datacenter.as_deref().unwrap_or("datacenter1");
        *datacenters.entry(name.to_string()).or_default() += 1;
    }
    datacenters
}
