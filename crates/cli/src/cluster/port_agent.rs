//! Sender of requests to other ports, whose certificates may change while a port runs.

use crate::server_access::{certificates, trusting};
use anyhow::{Context, Result, bail};
use seiner_server::{FileVersion, check_pair};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{ClientCert, PrivateKey, TlsConfig};

/// Maximum time for a connection. A port that does not accept one in this time counts as failed.
const CONNECT: Duration = Duration::from_secs(2);
/// Maximum time for an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// Files with certificates for requests to ports.
#[derive(Clone, Debug)]
pub struct PortFiles {
    /// Authorities that signed the certificates of the other ports.
    pub authorities: PathBuf,
    /// Certificate that this port shows and its key, if ports demand certificates.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Sender of requests to ports.
pub struct PortAgent {
    /// `None` if ports with TLS cannot be reached.
    files: Option<PortFiles>,
    held: Mutex<Held>,
}

struct Held {
    agent: Agent,
    /// Versions of the files that were read last.
    seen: Vec<FileVersion>,
}

impl PortFiles {
    fn read(&self) -> Result<TlsConfig> {
        let authorities = &self.authorities;
        let found = certificates(authorities)?;
        if found.is_empty() {
            bail!("{} contains no certificate", authorities.display());
        }
        let own = self.own.as_ref().map(|(certificate, key)| {
            // With a key of another certificate, which a renewal may leave for a moment, the library would panic.
            check_pair(certificate, key).map_err(anyhow::Error::msg)?;
            let text = std::fs::read(key).with_context(|| key.display().to_string())?;
            let key = PrivateKey::from_pem(&text).with_context(|| key.display().to_string())?;
            anyhow::Ok(ClientCert::new_with_certs(&certificates(certificate)?, key))
        });
        Ok(trusting(&found, own.transpose()?))
    }

    fn versions(&self) -> Vec<FileVersion> {
        let own = self
            .own
            .iter()
            .flat_map(|(certificate, key)| [certificate, key]);
        let files = std::iter::once(&self.authorities).chain(own);
        files.map(|path| FileVersion::of(path)).collect()
    }
}

impl PortAgent {
    /// Creates a sender. Without files, ports with TLS cannot be reached.
    ///
    /// # Errors
    /// If a file cannot be read or contains no certificate.
    pub fn new(files: Option<PortFiles>) -> Result<PortAgent> {
        let seen = files.iter().flat_map(PortFiles::versions).collect();
        let tls = files.as_ref().map(PortFiles::read).transpose()?;
        let agent = agent(tls.unwrap_or_else(|| trusting(&[], None)));
        Ok(PortAgent {
            files,
            held: Mutex::new(Held { agent, seen }),
        })
    }

    /// Returns the sender with the present certificates. Files that cannot be read leave the earlier ones.
    pub fn present(&self) -> Agent {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(files) = &self.files else {
            return held.agent.clone();
        };
        let seen = files.versions();
        if held.seen != seen {
            held.seen = seen;
            match files.read() {
                Ok(tls) => held.agent = agent(tls),
                Err(error) => {
                    tracing::error!("requests to other ports keep their certificates: {error:#}")
                }
            }
        }
        held.agent.clone()
    }
}

fn agent(tls: TlsConfig) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(ANSWER))
        .tls_config(tls)
        .user_agent(concat!("seiner/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a certificate and its key. Returns the bytes of the certificate.
    fn write(files: &PortFiles, name: &str) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed([name.to_string()]).unwrap();
        let (certificate, key) = files.own.as_ref().unwrap();
        std::fs::write(certificate, made.cert.pem()).unwrap();
        std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    }

    fn shown(agent: &PortAgent) -> Vec<u8> {
        let agent = agent.present();
        let own = agent.config().tls_config().client_cert().unwrap();
        own.certs()[0].der().to_vec()
    }

    #[test]
    fn changed_certificates_are_read_while_the_port_runs() {
        // Regression: a port showed the certificate of its start for ever, so other ports rejected it when that expired.
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = PortFiles {
            authorities: path("own.pem"),
            own: Some((path("own.pem"), path("own.key"))),
        };
        assert!(PortAgent::new(Some(files.clone())).is_err());
        let first = write(&files, "a.example");
        let agent = PortAgent::new(Some(files.clone())).unwrap();
        assert_eq!(shown(&agent), first);
        // A file that is damaged or missing, or belongs to another key, changes nothing.
        let other = rcgen::generate_simple_self_signed(["other.example".to_string()]).unwrap();
        std::fs::write(path("own.pem"), other.cert.pem()).unwrap();
        assert_eq!(shown(&agent), first);
        std::fs::write(path("own.pem"), "no certificate").unwrap();
        assert_eq!(shown(&agent), first);
        std::fs::remove_file(path("own.pem")).unwrap();
        assert_eq!(shown(&agent), first);
        let second = write(&files, "longer.example");
        assert_ne!(second, first);
        assert_eq!(shown(&agent), second);
    }

    #[test]
    fn a_port_without_tls_needs_no_files() {
        let agent = PortAgent::new(None).unwrap().present();
        assert!(agent.config().tls_config().client_cert().is_none());
    }
}
