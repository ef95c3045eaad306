//! Settings of collectd.

use super::setting::Setting;
use super::text::{address_or_off, members, non_empty};
use seiner_wire::collectd::Level;
use std::path::PathBuf;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 4] = [
    Setting {
        name: "collectd_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for the network plugin of collectd, over UDP; 127.0.0.1:25826 is usual. Nothing is \
               acknowledged. docs/collectd.md has examples.",
        assign: |settings, text| {
            address_or_off(text).map(|address| settings.collectd.listen = address)
        },
    },
    Setting {
        name: "collectd_types_db",
        default: "auto",
        form: "PATH,...|auto",
        help: "Files of types of collectd, which name the fields. Later files replace types of earlier ones. `auto`: \
               /usr/share/collectd/types.db, if that file exists.",
        assign: |settings, text| {
            settings.collectd.types_db = match non_empty(text)? {
                "auto" => Vec::new(),
                text => members(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "collectd_security",
        default: "none",
        form: "none|sign|encrypt",
        help: "Protection that packets of collectd must have. `sign`: a signature or encryption. `encrypt`: encryption. Others \
               are rejected and counted.",
        assign: |settings, text| {
            settings.collectd.security = match text {
                "none" => Level::None,
                "sign" => Level::Sign,
                "encrypt" => Level::Encrypt,
                _ => return Err(format!("{text:?} is none of none, sign and encrypt")),
            };
            Ok(())
        },
    },
    Setting {
        name: "collectd_auth_file",
        default: "none",
        form: "PATH|none",
        help: "File with lines `user: password` for signed and encrypted packets, as AuthFile of collectd.",
        assign: |settings, text| {
            settings.collectd.auth_file = match non_empty(text)? {
                "none" => None,
                path => Some(PathBuf::from(path)),
            };
            Ok(())
        },
    },
];
