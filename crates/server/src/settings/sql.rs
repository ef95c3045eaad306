//! Settings of SQL.

use super::setting::Setting;
use super::text::{address, at_least, non_empty};
use std::path::PathBuf;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 4] = [
    Setting {
        name: "sql_program",
        default: "beside",
        form: "PATH|beside",
        help: "Program that answers SQL, which `make sql` builds. `beside`: `seiner-sql` in the directory of this program. \
               The server starts it with the first query.",
        assign: |settings, text| {
            settings.sql_program = match non_empty(text)? {
                "beside" => None,
                path => Some(PathBuf::from(path)),
            };
            Ok(())
        },
    },
    Setting {
        name: "sql_memory",
        default: "1 GiB",
        form: "SIZE",
        help: "Maximum memory of all SQL queries together, at least 16 MiB. A query that needs more fails.",
        assign: |settings, text| at_least(text, 16 << 20).map(|bytes| settings.sql_memory = bytes),
    },
    Setting {
        name: "postgres_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for PostgreSQL clients, which can only read; 127.0.0.1:5432 is usual. There is no \
               password: every user and every database name are accepted.",
        assign: |settings, text| {
            settings.postgres_listen = match text {
                "off" => None,
                _ => Some(address(text)?),
            };
            Ok(())
        },
    },
    Setting {
        name: "flight_sql_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for clients of Arrow Flight SQL, such as ADBC, which can only read; 127.0.0.1:32010 is \
               usual. There is no password: every user is accepted.",
        assign: |settings, text| {
            settings.flight_sql_listen = match text {
                "off" => None,
                _ => Some(address(text)?),
            };
            Ok(())
        },
    },
];
