//! TLS of the ports: certificate, key, and authorities of client certificates, from files in the format PEM.
//!
//! A timer reads the files again when they change. A file that cannot be used leaves the last certificate in place.

use crate::file_version::FileVersion;
use crate::secure::{Link, provider};
use crate::settings::TlsSettings;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Maximum time of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Protocol inside TLS, which the handshake states (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, for gRPC.
    Http2,
    /// MQTT.
    Mqtt,
    /// PostgreSQL's protocol.
    Postgres,
    /// Lines or pickles, whose clients state no protocol.
    Lines,
}

impl Inside {
    fn names(self) -> Vec<Vec<u8>> {
        let name: &[u8] = match self {
            Inside::Http1 => b"http/1.1",
            Inside::Http2 => b"h2",
            Inside::Mqtt => b"mqtt",
            Inside::Postgres => b"postgresql",
            Inside::Lines => return Vec::new(),
        };
        vec![name.to_vec()]
    }
}

/// TLS of a server.
pub struct Tls {
    files: TlsSettings,
    config: RwLock<Arc<ServerConfig>>,
    /// Versions of the files that were read last.
    seen: Mutex<Vec<FileVersion>>,
}

impl Tls {
    /// Reads the files. Returns `None` if no certificate is set.
    ///
    /// # Errors
    /// A sentence with the file and the remedy.
    pub fn open(files: &TlsSettings) -> Result<Option<Tls>, String> {
        files.check()?;
        let seen = versions(files);
        let Some(config) = read(files)? else {
            return Ok(None);
        };
        Ok(Some(Tls {
            files: files.clone(),
            config: RwLock::new(config),
            seen: Mutex::new(seen),
        }))
    }

    /// Reads the files again if one has changed. Called about once a second, on a thread that may block.
    pub fn refresh(&self) {
        let mut seen = self.seen.lock().expect("no thread panics while it reads");
        let present = versions(&self.files);
        if *seen == present {
            return;
        }
        *seen = present;
        match read(&self.files) {
            Ok(Some(config)) => {
                let mut held = self
                    .config
                    .write()
                    .expect("no thread panics while it writes");
                *held = config;
                tracing::info!("the certificate was read again");
            }
            Ok(None) => {}
            Err(error) => tracing::error!("the certificate stays as it is: {error}"),
        }
    }

    /// Encrypts a connection.
    ///
    /// # Errors
    /// If the client does not complete the handshake in time.
    pub async fn accept(&self, stream: TcpStream, inside: Inside) -> io::Result<Link> {
        let config = {
            let held = self
                .config
                .read()
                .expect("no thread panics while it writes");
            let mut config = ServerConfig::clone(&held);
            config.alpn_protocols = inside.names();
            config
        };
        let accepted = TlsAcceptor::from(Arc::new(config)).accept(stream);
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let accepted = tokio::time::timeout(HANDSHAKE, accepted)
            .await
            .map_err(late)??;
        Ok(Box::new(accepted))
    }
}

/// Returns whether a client begins TLS: the first byte is that of a handshake. Neither a line of text nor the length of a
/// pickle begins with it. Waits for the byte, and leaves it in the socket.
///
/// # Errors
/// If the connection breaks off.
pub async fn begins_tls(stream: &TcpStream) -> io::Result<bool> {
    const HANDSHAKE_RECORD: u8 = 22;
    let mut first = [0];
    let read = stream.peek(&mut first).await?;
    Ok(read == 1 && first == [HANDSHAKE_RECORD])
}

fn versions(files: &TlsSettings) -> Vec<FileVersion> {
    let all = [&files.certificate, &files.key, &files.client_ca];
    let all = all.into_iter().flatten();
    all.map(|path| FileVersion::of(path)).collect()
}

fn read(files: &TlsSettings) -> Result<Option<Arc<ServerConfig>>, String> {
    let (Some(certificate), Some(key)) = (&files.certificate, &files.key) else {
        return Ok(None);
    };
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| wrong(path, &error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(path, &error))?)
        }
    };
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let config = builder.with_single_cert(chain, private);
    config
        .map(|config| Some(Arc::new(config)))
        .map_err(|error| wrong(certificate, &error))
}

/// Checks that a file has certificates, and another file the private key of the first one.
///
/// # Errors
/// A sentence with the file and the remedy.
pub fn check_pair(certificate: &Path, key: &Path) -> Result<(), String> {
    let files = TlsSettings {
        certificate: Some(certificate.to_path_buf()),
        key: Some(key.to_path_buf()),
        ..TlsSettings::default()
    };
    read(&files).map(drop)
}

/// Reads the certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| wrong(path, &error))?;
    match all.is_empty() {
        true => Err(wrong(path, &"there is no certificate")),
        false => Ok(all),
    }
}

fn wrong(path: &Path, error: &dyn Display) -> String {
    format!(
        "{}: {error}; give files in the format PEM: tls_certificate with the certificate and those of the authorities \
         between, tls_key with its private key",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        let open = |certificate: &str, key: &str| {
            let files = TlsSettings {
                certificate: path(certificate),
                key: path(key),
                ..TlsSettings::default()
            };
            Tls::open(&files).err().unwrap_or_default()
        };
        assert!(open("missing.pem", "key.pem").contains("missing.pem"));
        std::fs::write(folder.path().join("empty.pem"), "").unwrap();
        assert!(open("empty.pem", "key.pem").contains("there is no certificate"));
        let half = TlsSettings {
            certificate: path("a"),
            ..TlsSettings::default()
        };
        assert!(Tls::open(&half).err().unwrap().contains("tls_key"));
        assert!(Tls::open(&TlsSettings::default()).unwrap().is_none());
    }
}
