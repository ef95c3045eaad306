//! Settings of TLS.

use super::setting::Setting;
use super::text::file;
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
}

impl TlsSettings {
    /// Checks that certificate and key are set together.
    ///
    /// # Errors
    /// A sentence with the missing setting.
    pub fn check(&self) -> Result<(), String> {
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

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 3] = [
    Setting {
        name: "tls_certificate",
        default: "none",
        form: "FILE|none",
        help: "File in the format PEM with the certificate of the server, and those of the authorities between. With it, \
               the ports for HTTP, OTLP over gRPC and MQTT accept encrypted connections only (TLS 1.2 and 1.3). The \
               server reads the files of TLS again within a second of a change.",
        assign: |settings, text| file(text).map(|path| settings.tls.certificate = path),
    },
    Setting {
        name: "tls_key",
        default: "none",
        form: "FILE|none",
        help: "File in the format PEM with the private key of `tls_certificate`.",
        assign: |settings, text| file(text).map(|path| settings.tls.key = path),
    },
    Setting {
        name: "tls_client_ca",
        default: "none",
        form: "FILE|none",
        help: "File in the format PEM with certificates of authorities. A client then needs a certificate that one of them \
               signed, besides a token.",
        assign: |settings, text| file(text).map(|path| settings.tls.client_ca = path),
    },
];
