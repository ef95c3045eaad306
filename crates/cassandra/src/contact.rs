//! Addresses and settings of a cluster, and the URL that contains them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Port of Cassandra's query language.
pub const DEFAULT_PORT: u16 = 9042;
/// Scheme of a [`ClusterUrl`].
const SCHEME: &str = "cassandra";
/// Form of a [`ClusterUrl`], for messages. The other settings have a default.
const FORM: &str = "cassandra://[user@]host[:port],host/keyspace?rf=3";
/// Maximum length of the name of a keyspace or table in Cassandra.
const MAX_NAME: usize = 48;

/// Node through which a client finds all nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or address. An address of IPv6 has no brackets here.
    pub name: String,
    /// Port of the query language.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(out, "[{}]:{}", self.name, self.port),
            false => write!(out, "{}:{}", self.name, self.port),
        }
    }
}

/// User of a cluster. The password is left out of `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password. A [`ClusterUrl`] has none, because URLs are shown by programs and logs.
    pub password: String,
}

/// Files for encrypted connections, in the format PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the authorities that sign the certificates of nodes. The certificate of a node must contain the
    /// address of the node.
    pub authorities: PathBuf,
    /// Certificate of the client and its private key, if the nodes require one.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl fmt::Debug for Login {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Login({})", self.user)
    }
}

/// Limits of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time for [`crate::CassandraRows::connect`] to reach a node.
    pub connect: Duration,
    /// Time for one attempt of a request. Should exceed the timeouts of the nodes, which are 2 to 10 s by default.
    pub request: Duration,
    /// Time for a request with all its retries.
    pub total: Duration,
    /// Time for a change of the schema to reach all nodes.
    pub schema: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(15),
            request: Duration::from_secs(12),
            total: Duration::from_secs(30),
            schema: Duration::from_secs(60),
        }
    }
}

/// Cluster, keyspace and settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Nodes to ask for the other nodes. One reachable node is enough.
    pub hosts: Vec<Host>,
    /// Name of the keyspace: lower-case letters, digits and underscores, beginning with a letter.
    pub keyspace: String,
    /// User, if the cluster requires one.
    pub login: Option<Login>,
    /// Files for encrypted connections. `None`: connections are not encrypted.
    pub tls: Option<Tls>,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// Maximum number of rows that are written at the same time, at most 1,024. A node is busy with 32. Large rows
    /// count as several.
    pub concurrency: usize,
    /// Compaction of tables that are created.
    pub compaction: Compaction,
}

/// Compaction of the tables whose rows die by age. Existing tables keep theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compaction {
    /// Time windows, which Cassandra and ScyllaDB have.
    #[default]
    Windows,
    /// Strategy of this project: drops files that died whole, and merges none. The nodes of Cassandra need its jar.
    Fisherman,
}

impl Contact {
    /// Returns a contact without a user and without encryption, with the default limits.
    pub fn new(hosts: Vec<Host>, keyspace: impl Into<String>) -> Contact {
        Contact {
            hosts,
            keyspace: keyspace.into(),
            login: None,
            tls: None,
            timeouts: Timeouts::default(),
            concurrency: 32,
            compaction: Compaction::default(),
        }
    }
}

/// Replication of a keyspace that is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Number of copies of a row in each data centre. A smaller data centre has a copy on each node.
    pub factor: usize,
}

impl Default for Replication {
    fn default() -> Replication {
        Replication { factor: 3 }
    }
}

/// Contact and replication in a text: `cassandra://[user@]host[:port],host/keyspace?rf=3`.
///
/// Settings are separated by `&`: `rf`, the number of copies, and `compaction`, `windows` or `fisherman`.
///
/// A port belongs to its own host; without a port, it is [`DEFAULT_PORT`]. Signs in the user that separate parts of a
/// URL are written as `%` and two hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterUrl {
    /// Cluster and keyspace.
    pub contact: Contact,
    /// Replication of the keyspace, if it is created.
    pub replication: Replication,
}

/// Error of a [`ClusterUrl`]. No message contains a user or a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// No URL of a cluster.
    #[error("the URL of a cluster does not begin with cassandra://; write {FORM}")]
    Scheme,
    /// No host, or an empty one.
    #[error(
        "the URL of a cluster has an empty host; write one host or several, separated by commas: {FORM}"
    )]
    Host,
    /// A port that is no number from 1 to 65535.
    #[error(
        "{0} is no port of a host; write a number from 1 to 65535, or leave the port out for 9042"
    )]
    Port(String),
    /// An address of IPv6 without brackets, or with one bracket.
    #[error("{0} is no host; write an address of IPv6 in brackets, such as [::1]:9042")]
    Brackets(String),
    /// No keyspace.
    #[error("the URL of a cluster has no keyspace; append one, such as /seiner")]
    NoKeyspace,
    /// A keyspace with a name that Cassandra does not accept.
    #[error(
        "{0:?} is no name of a keyspace; use at most 48 lower-case letters, digits and underscores, \
         beginning with a letter"
    )]
    Keyspace(String),
    /// Empty user.
    #[error("the URL of a cluster has an empty user; write user@ before the hosts, or leave @ out")]
    Login,
    /// Password, which every list of processes would show.
    #[error(
        "the URL of a cluster contains a password, which lists of processes and logs show; leave it out, and set \
         SEINER_CASSANDRA_PASSWORD or cassandra_password_file"
    )]
    Password,
    /// `%` without two hexadecimal digits after it.
    #[error("the user has a % without two hexadecimal digits; write the sign % as %25")]
    Percent,
    /// Replication that is no number.
    #[error("rf={0} is no number of copies; write a number from 1 to 100")]
    Factor(String),
    /// Unknown setting.
    #[error(
        "the URL of a cluster has the unknown setting {0:?}; the settings are rf, the number of copies, and \
         compaction, windows or fisherman"
    )]
    Setting(String),
    /// Unknown compaction.
    #[error("compaction={0} is no compaction; write windows or fisherman")]
    Compaction(String),
}

impl FromStr for ClusterUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<ClusterUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        if scheme != SCHEME {
            return Err(UrlError::Scheme);
        }
        let (rest, settings) = match rest.split_once('?') {
            Some((rest, settings)) => (rest, Some(settings)),
            None => (rest, None),
        };
        let (authority, keyspace) = match rest.split_once('/') {
            Some((authority, keyspace)) => (authority, keyspace.trim_end_matches('/')),
            None => (rest, ""),
        };
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(parse_login(login)?), hosts),
            None => (None, authority),
        };
        let hosts = hosts.split(',').map(parse_host);
        let hosts = hosts.collect::<Result<Vec<Host>, UrlError>>()?;
        if keyspace.is_empty() {
            return Err(UrlError::NoKeyspace);
        }
        if !is_name(keyspace) {
            return Err(UrlError::Keyspace(keyspace.to_string()));
        }
        let mut contact = Contact::new(hosts, keyspace);
        contact.login = login;
        let replication = parse_settings(settings, &mut contact.compaction)?;
        Ok(ClusterUrl {
            contact,
            replication,
        })
    }
}

/// Returns the keyspace and the name of a table: `SPACE.NAME` is the table `NAME` in the keyspace `KEYSPACE_SPACE`.
///
/// # Errors
/// A sentence with the remedy if a name is invalid. Valid names may be written into statements.
pub(crate) fn place_of<'t>(keyspace: &str, table: &'t str) -> Result<(String, &'t str), String> {
    let (space, name) = match table.split_once('.') {
        None => (keyspace.to_string(), table),
        Some((space, name)) => (format!("{keyspace}_{space}"), name),
    };
    if !is_name(&space) {
        return Err(format!(
            "{space:?}, the keyspace of a class with its own replication, is no name of a keyspace; use a shorter name \
             of the class or of the keyspace (together at most 47 letters, digits and underscores)"
        ));
    }
    match is_name(name) {
        true => Ok((space, name)),
        false => Err(format!("{name:?} is no name of a table")),
    }
}

/// Checks the name of a keyspace or table. Such a name may be written into a statement.
pub(crate) fn is_name(text: &str) -> bool {
    let is_sign = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'_';
    text.len() <= MAX_NAME
        && text.bytes().all(is_sign)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
}

fn parse_login(text: &str) -> Result<Login, UrlError> {
    if text.contains(':') {
        return Err(UrlError::Password);
    }
    if text.is_empty() {
        return Err(UrlError::Login);
    }
    Ok(Login {
        user: unescape(text)?,
        password: String::new(),
    })
}

fn parse_host(text: &str) -> Result<Host, UrlError> {
    let wrong = || UrlError::Brackets(text.to_string());
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or_else(wrong)?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err(wrong()),
                port => (name, port),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(wrong()),
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.trim().is_empty() {
        return Err(UrlError::Host);
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(UrlError::Port(port.to_string())),
        },
    };
    Ok(Host {
        name: name.to_string(),
        port,
    })
}

fn parse_settings(
    settings: Option<&str>,
    compaction: &mut Compaction,
) -> Result<Replication, UrlError> {
    let mut replication = Replication::default();
    let settings = settings.unwrap_or_default().split('&');
    for setting in settings.filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some(("rf", factor)) => match factor.parse() {
                Ok(number @ 1..=100) => replication.factor = number,
                _ => return Err(UrlError::Factor(factor.to_string())),
            },
            Some(("compaction", "windows")) => *compaction = Compaction::Windows,
            Some(("compaction", "fisherman")) => *compaction = Compaction::Fisherman,
            Some(("compaction", other)) => return Err(UrlError::Compaction(other.to_string())),
            _ => return Err(UrlError::Setting(setting.to_string())),
        }
    }
    Ok(replication)
}

/// Replaces each `%` and two digits by their byte.
fn unescape(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => return Err(UrlError::Percent),
        }
    }
    String::from_utf8(bytes).map_err(|_| UrlError::Percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        let name = name.to_string();
        Host { name, port }
    }

    #[test]
    fn all_parts_of_a_url_are_found() {
        let url = "cassandra://an%40n%3a@db1,db2:9142,[::1]:9242/sensors?rf=2";
        let url: ClusterUrl = url.parse().unwrap();
        let hosts = [host("db1", 9042), host("db2", 9142), host("::1", 9242)];
        assert_eq!(url.contact.hosts, hosts);
        assert_eq!(url.contact.keyspace, "sensors");
        assert_eq!(url.replication.factor, 2);
        let login = url.contact.login.clone().unwrap();
        assert_eq!((&*login.user, &*login.password), ("an@n:", ""));
        let login = Login {
            password: "secret".to_string(),
            ..login
        };
        assert!(!format!("{login:?}").contains("secret"));
        assert_eq!(url.contact.hosts[2].to_string(), "[::1]:9242");
        let url: ClusterUrl = "cassandra://db1/sensors/".parse().unwrap();
        assert_eq!((url.contact.login, url.replication.factor), (None, 3));
        assert_eq!(url.contact.compaction, Compaction::Windows);
        let url = "cassandra://db1/sensors?compaction=fisherman&rf=1";
        let url: ClusterUrl = url.parse().unwrap();
        assert_eq!(url.contact.compaction, Compaction::Fisherman);
        assert_eq!(url.replication.factor, 1);
    }

    #[test]
    fn a_table_in_a_space_has_a_keyspace_of_its_own() {
        let place = |table| place_of("sensors", table);
        assert_eq!(place("blocks"), Ok(("sensors".to_string(), "blocks")));
        let own = ("sensors_raw".to_string(), "blocks_raw");
        assert_eq!(place("raw.blocks_raw"), Ok(own));
        for wrong in ["Raw.blocks", "raw.", ".", "raw.blocks\"", "a\".b"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        let long = format!("{}.t", "a".repeat(41));
        let error = place(&long).unwrap_err();
        assert!(error.contains("shorter name"), "{error}");
    }

    #[test]
    fn each_fault_of_a_url_has_its_message() {
        let text = String::from;
        let cases = [
            ("db1/sensors", UrlError::Scheme),
            ("scylla://db1/sensors", UrlError::Scheme),
            ("cassandra:///sensors", UrlError::Host),
            ("cassandra://db1,,db2/sensors", UrlError::Host),
            ("cassandra://db1:0/sensors", UrlError::Port(text("0"))),
            ("cassandra://db1:x/sensors", UrlError::Port(text("x"))),
            ("cassandra://::1/sensors", UrlError::Brackets(text("::1"))),
            ("cassandra://[::1/s", UrlError::Brackets(text("[::1"))),
            ("cassandra://[::1]9/s", UrlError::Brackets(text("[::1]9"))),
            ("cassandra://db1", UrlError::NoKeyspace),
            ("cassandra://db1/", UrlError::NoKeyspace),
            (
                "cassandra://db1/Sensors",
                UrlError::Keyspace(text("Sensors")),
            ),
            ("cassandra://db1/a\";--", UrlError::Keyspace(text("a\";--"))),
            ("cassandra://@db1/sensors", UrlError::Login),
            ("cassandra://ann:secret@db1/sensors", UrlError::Password),
            ("cassandra://ann%4@db1/sensors", UrlError::Percent),
            ("cassandra://db1/sensors?rf=0", UrlError::Factor(text("0"))),
            (
                "cassandra://db1/sensors?a=b",
                UrlError::Setting(text("a=b")),
            ),
            (
                "cassandra://db1/sensors?compaction=tiered",
                UrlError::Compaction(text("tiered")),
            ),
        ];
        for (url, error) in cases {
            assert_eq!(url.parse::<ClusterUrl>(), Err(error), "{url}");
        }
    }
}
