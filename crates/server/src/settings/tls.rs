//! Settings of TLS.

use super::setting::Setting;
use super::text::{boolean, file};
/// Settings, in the order of display.
pub static SETTINGS: [Setting; 4] = [
    Setting {
        name: "tls_certificate",
        default: "none",
        form: "FILE|none",
        help: "File in the format PEM with the certificate of the server, and those of the authorities between. With it, \
               all ports of TCP accept encrypted connections only (TLS 1.2 and 1.3). The \
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
               signed, besides a token. It is the only proof that senders of lines over TCP can give.",
        assign: |settings, text| file(text).map(|path| settings.tls.client_ca = path),
    },
    Setting {
        name: "tls_plain_lines",
        default: "false",
        form: "true|false",
        help: "With a certificate, the ports for line protocol, Graphite, OpenTSDB and StatsD over TCP accept unencrypted \
               connections too. For senders without TLS. Whoever can read the network can then read their samples, \
               and with `tls_client_ca` their senders need no certificate.",
        assign: |settings, text| boolean(text).map(|on| settings.tls.plain_lines = on),
    },
];
