//! Access of a command to a server: its address, a token, and the authority of its certificate.

use anyhow::{Context, Result, bail};
use clap::Args;
use seiner_server::{provider, system_certificates};
use std::path::{Path, PathBuf};
use ureq::tls::{Certificate, ClientCert, PemItem, RootCerts, TlsConfig, parse_pem};

/// Address of a server that was started without arguments.
const DEFAULT: &str = "http://127.0.0.1:7670";
/// Variable with the address of the server.
const ADDRESS: &str = "SEINER_SERVER";
/// Variable with the text of a token.
const VARIABLE: &str = "SEINER_TOKEN";

// Flags for access to a server. Not a doc comment: it would remove the description of the command from its help.
#[derive(Args)]
pub struct ServerAccess {
    /// Address of the server [default: http://127.0.0.1:7670] [variable: SEINER_SERVER].
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    /// File with the token for the server, if the server needs one [variable: SEINER_TOKEN, with the
    /// token itself].
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// File in the format PEM with the certificate of the authority that signed the certificate of an
    /// https server [default: the authorities of the system].
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
}

impl ServerAccess {
    /// Returns the address of the server: of the flag, of the variable, or of a server on this host.
    pub fn address(&self) -> String {
        let given = self.server.clone();
        given
            .or_else(|| std::env::var(ADDRESS).ok())
            .unwrap_or_else(|| DEFAULT.to_string())
    }

    /// Returns the settings of TLS.
    ///
    /// # Errors
    /// If the file of the authority cannot be read, or there is no authority.
    pub fn tls(&self) -> Result<TlsConfig> {
        let certificates = match &self.ca {
            Some(path) => certificates(path)?,
            None => {
                let of_system = system_certificates();
                let certificates = of_system.iter().map(|der| Certificate::from_der(der));
                certificates
                    .map(|certificate| certificate.to_owned())
                    .collect()
            }
        };
        if certificates.is_empty() {
            bail!(
                "there is no certificate of an authority; name a file in the format PEM with --ca"
            );
        }
        Ok(trusting(&certificates, None))
    }

    /// Returns the token of the file or of the variable, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, or the text is not a token.
    pub fn token(&self) -> Result<Option<String>> {
        let (text, origin) = match &self.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let origin = path.display().to_string();
                (text.with_context(|| origin.clone())?, origin)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (text, VARIABLE.to_string()),
                Err(_) => return Ok(None),
            },
        };
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("{origin} contains no token; `seiner token create` prints one, without spaces");
        }
        Ok(Some(text.to_string()))
    }
}

/// Reads the certificates of a file.
pub fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let context = || path.display().to_string();
    let text = std::fs::read(path).with_context(context)?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.with_context(context)? {
            certificates.push(certificate);
        }
    }
    Ok(certificates)
}

/// Returns settings of TLS that trust these authorities. `own` is shown to servers that demand a certificate.
pub fn trusting(authorities: &[Certificate<'static>], own: Option<ClientCert>) -> TlsConfig {
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(authorities))
        .client_cert(own)
        .unversioned_rustls_crypto_provider(provider())
        .build()
}
