//! Encrypted connections to the nodes.
//!
//! The driver's interface to rustls enables the default features of rustls. Among them is the cryptography of AWS-LC,
//! whose sources are C. Features of Cargo only add up, so no other crate can remove it. TLS is therefore a feature of
//! this crate that is off by default.

use crate::contact::Tls;

#[cfg(feature = "tls")]
pub(crate) use with_rustls::{TlsConfig, config};

/// Settings of encrypted connections, in a build without them.
#[cfg(not(feature = "tls"))]
pub(crate) enum TlsConfig {}

/// Rejects encrypted connections.
///
/// # Errors
/// A sentence with the remedy, always.
#[cfg(not(feature = "tls"))]
pub(crate) fn config(_tls: &Tls) -> Result<TlsConfig, String> {
    let text = "this program was built without encrypted connections to Cassandra; build it with --features cluster-tls, \
                or leave cassandra_ca_file out";
    Err(text.to_string())
}

#[cfg(feature = "tls")]
mod with_rustls {
    use super::Tls;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore};
    use std::fmt::Display;
    use std::path::Path;
    use std::sync::Arc;

    /// Settings of encrypted connections.
    pub(crate) type TlsConfig = Arc<ClientConfig>;

    /// Reads the files.
    ///
    /// # Errors
    /// A sentence with the remedy, if a file cannot be read or has other contents.
    pub(crate) fn config(tls: &Tls) -> Result<TlsConfig, String> {
        let mut roots = RootCertStore::empty();
        let path = &tls.authorities;
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| wrong(path, error))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(path, error))?;
        let builder = builder.with_root_certificates(roots);
        let config = match &tls.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let own = certificates(certificate)?;
                let private =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
                builder
                    .with_client_auth_cert(own, private)
                    .map_err(|error| wrong(certificate, error))?
            }
        };
        Ok(Arc::new(config))
    }

    /// Reads the certificates of a file, at least one.
    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
        let found: Result<Vec<_>, _> = read.collect();
        let found = found.map_err(|error| wrong(path, error))?;
        match found.is_empty() {
            true => Err(wrong(path, "there is no certificate")),
            false => Ok(found),
        }
    }

    fn wrong(path: &Path, error: impl Display) -> String {
        format!("{}: {error}; give a file in the format PEM", path.display())
    }
}
