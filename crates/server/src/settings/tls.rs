//! Settings of TLS.

use super::setting::Setting;
use super::text::file;
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
