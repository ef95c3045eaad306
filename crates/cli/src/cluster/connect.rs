//! Connection to the Cassandra of a cluster, with the user's password and the files of TLS.

use crate::failure::Failure;
use anyhow::Context;
use clap::Args;
use seiner_cassandra::{CassandraRows, ClusterUrl, Contact, Replication, Tls};
use seiner_server::{Layers, Settings};
use std::fs;
use std::path::{Path, PathBuf};

/// Variable with the password of the user.
const PASSWORD: &str = "SEINER_CASSANDRA_PASSWORD";

// Flags of a connection. Not a doc comment: it would remove the description of the command from its help.
#[derive(Args, Default)]
pub struct Access {
    /// File with the password of the user in the cluster's address. Default: the variable SEINER_CASSANDRA_PASSWORD.
    #[arg(long, value_name = "FILE")]
    cassandra_password_file: Option<PathBuf>,
    /// File (PEM) with the authorities of the nodes' certificates. Connections are then encrypted.
    #[arg(long, value_name = "FILE")]
    cassandra_ca_file: Option<PathBuf>,
    /// File (PEM) with the certificate to show to the nodes.
    #[arg(long, value_name = "FILE")]
    cassandra_certificate_file: Option<PathBuf>,
    /// File (PEM) with the private key of that certificate.
    #[arg(long, value_name = "FILE")]
    cassandra_key_file: Option<PathBuf>,
}

impl Access {
    /// Returns the files that settings name.
    pub fn of(settings: &Settings) -> Access {
        Access {
            cassandra_password_file: settings.cassandra_password_file.clone(),
            cassandra_ca_file: settings.cassandra_ca_file.clone(),
            cassandra_certificate_file: settings.cassandra_certificate_file.clone(),
            cassandra_key_file: settings.cassandra_key_file.clone(),
        }
    }

    /// Returns this access with the variables of the server's settings where a flag is missing.
    ///
    /// # Errors
    /// If a variable is invalid.
    pub fn with_environment(self) -> Result<Access, Failure> {
        let mut layers = Layers::default();
        layers.environment(|variable| std::env::var(variable).ok())?;
        let around = Access::of(&layers.settings()?);
        Ok(Access {
            cassandra_password_file: self
                .cassandra_password_file
                .or(around.cassandra_password_file),
            cassandra_ca_file: self.cassandra_ca_file.or(around.cassandra_ca_file),
            cassandra_certificate_file: self
                .cassandra_certificate_file
                .or(around.cassandra_certificate_file),
            cassandra_key_file: self.cassandra_key_file.or(around.cassandra_key_file),
        })
    }

    /// Connects to a cluster, and creates the keyspace if it is missing.
    ///
    /// # Errors
    /// If the URL or a file is invalid, or no node answers.
    pub fn connect(&self, url: &str) -> Result<CassandraRows, Failure> {
        let (contact, replication) = self.contact(url)?;
        let rows = CassandraRows::connect(contact, replication);
        Ok(rows.context("the cluster was not reached")?)
    }

    /// Connects to a cluster whose keyspace exists.
    ///
    /// # Errors
    /// As [`Access::connect`], and if the keyspace does not exist.
    pub fn open(&self, url: &str) -> Result<CassandraRows, Failure> {
        let (contact, _) = self.contact(url)?;
        Ok(CassandraRows::open(&contact).context("the cluster cannot be used")?)
    }

    fn contact(&self, url: &str) -> Result<(Contact, Replication), Failure> {
        let url: ClusterUrl = url
            .parse()
            .map_err(|error| Failure::Usage(format!("cluster: {error}")))?;
        let mut contact = url.contact;
        if let Some(login) = &mut contact.login {
            login.password = self.password(&login.user)?;
        }
        contact.tls = self.tls()?;
        Ok((contact, url.replication))
    }

    /// Returns the password of a user.
    fn password(&self, user: &str) -> Result<String, Failure> {
        match (&self.cassandra_password_file, std::env::var(PASSWORD)) {
            (Some(path), _) => read(path),
            (None, Ok(password)) => Ok(password),
            (None, Err(_)) => Err(Failure::Usage(format!(
                "cluster: the user {user:?} has no password; set {PASSWORD}, or give cassandra_password_file"
            ))),
        }
    }

    /// Returns the files of TLS.
    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let client = (&self.cassandra_certificate_file, &self.cassandra_key_file);
        let client = match client {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => {
                let text = "cassandra_certificate_file and cassandra_key_file belong together; give both or none";
                return Err(Failure::Usage(text.to_string()));
            }
        };
        match &self.cassandra_ca_file {
            Some(authorities) => Ok(Some(Tls {
                authorities: authorities.clone(),
                client,
            })),
            None if client.is_some() => {
                let text = "cassandra_certificate_file needs cassandra_ca_file, with the authority of the nodes";
                Err(Failure::Usage(text.to_string()))
            }
            None => Ok(None),
        }
    }
}

/// Reads a password, without the line break at its end.
fn read(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("the password file {}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_string())
}
