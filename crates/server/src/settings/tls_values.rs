//! Values of the settings of TLS.

use std::path::PathBuf;

/// Values of the settings of TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// File with the certificate of the server.
    pub certificate: Option<PathBuf>,
    /// File with the private key.
    pub key: Option<PathBuf>,
    /// File with the certificates of the authorities that sign certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// True if the ports of lines accept connections without encryption too.
    pub plain_lines: bool,
}

impl TlsSettings {
    /// Returns whether every sender of lines over TCP needs a certificate.
    pub fn authenticates_lines(&self) -> bool {
        self.client_ca.is_some() && !self.plain_lines
    }

    /// Checks that certificate and key are set together.
    ///
    /// # Errors
    /// A sentence with the missing setting.
    pub fn check(&self) -> Result<(), String> {
        if self.plain_lines && self.certificate.is_none() {
            return Err(
                "tls_plain_lines needs tls_certificate and tls_key: without them, all connections are plain"
                    .to_string(),
            );
        }
        match (&self.certificate, &self.key, &self.client_ca) {
            (Some(_), None, _) => {
                Err("tls_certificate needs tls_key with its private key".to_string())
            }
            (None, Some(_), _) => {
                Err("tls_key needs tls_certificate with its certificate".to_string())
            }
            (None, None, Some(_)) => {
                Err("tls_client_ca needs tls_certificate and tls_key of the server".to_string())
            }
            _ => Ok(()),
        }
    }
}
