//! Connections that the server opens as a client, encrypted by TLS or not.
//!
//! The certificate of the other side must be valid for the host's name or address, and signed by an authority of a given
//! file or of the system.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Encryption of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// Without encryption.
    Plain,
    /// TLS 1.2 or 1.3. The file (PEM) has the certificates of the authorities; `None` for those of the system.
    Tls(Option<PathBuf>),
}

impl Security {
    /// Returns TLS with the authorities of a file, or of the system, if the connection is encrypted.
    pub fn of(is_encrypted: bool, authorities: Option<PathBuf>) -> Security {
        match is_encrypted {
            true => Security::Tls(authorities),
            false => Security::Plain,
        }
    }
}

/// Stream of bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

/// Connection, encrypted or not.
pub type Link = Box<dyn Stream>;

/// Connects to a host. The caller limits the time.
///
/// # Errors
/// A sentence for people, if the host cannot be reached or has another certificate.
pub async fn connect(host: &str, port: u16, security: &Security) -> Result<Link, String> {
    let text = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect((host, port)).await.map_err(text)?;
    // Requests and acknowledgements are written in one piece: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let Security::Tls(authorities) = security else {
        return Ok(Box::new(stream));
    };
    let authorities = authorities.clone();
    let config = tokio::task::spawn_blocking(move || match authorities {
        Some(path) => config(authorities_of(&path)?),
        None => of_system(),
    });
    let config = config.await.map_err(|error| error.to_string())??;
    let name = ServerName::try_from(host.to_string())
        .map_err(|_| format!("{host} is no name that a certificate can have"))?;
    let secured = TlsConnector::from(config).connect(name, stream).await;
    let secured = secured.map_err(|error| format!("TLS: {error}"))?;
    Ok(Box::new(secured))
}

/// Returns the certificates of the authorities of the system.
pub fn system_certificates() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Returns the implementation of cryptography that all connections use.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

/// Returns the settings with the authorities of the system, which are read once.
fn of_system() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system_certificates());
        match roots.is_empty() {
            true => Err("the system has no certificates of authorities; install ca-certificates, or give a file"
                .to_string()),
            false => config(roots),
        }
    };
    CONFIG.get_or_init(read).clone()
}

/// Reads the certificates of a file, at least one. The file is read at each connection, so that it may change.
fn authorities_of(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |error: &dyn Display| {
        format!(
            "{}: {error}; give a file in the format PEM with the certificate of an authority",
            path.display()
        )
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    match roots.is_empty() {
        true => Err(wrong(&"there is no certificate")),
        false => Ok(roots),
    }
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    Ok(Arc::new(builder.with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn faults_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let to = |file: &Path| Security::Tls(Some(file.to_path_buf()));
        let error = |security| async move {
            let opened = connect("127.0.0.1", port, &security).await;
            opened.err().unwrap_or_default()
        };
        let missing = error(to(&file)).await;
        assert!(missing.contains("ca.pem"), "{missing}");
        for (text, part) in [
            ("", "there is no certificate"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "give a file in the format PEM",
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            let found = error(to(&file)).await;
            assert!(found.contains(part), "{found}");
        }
        assert_eq!(error(Security::Plain).await, "");
        answers.abort();
    }
}
