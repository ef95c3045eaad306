//! Settings of the service: the host's own sensors, limits of requests, the stop and the messages.

use super::setting::Setting;
use super::text::{at_least, boolean, count, duration, non_empty, tag_name};
use super::values::LogFormat;
use std::time::Duration;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 11] = [
    Setting {
        name: "host_sensors",
        default: "1s",
        form: "DURATION|off",
        help: "Interval at which the sensors of the host itself (CPU, memory, disks, network, temperatures, and the \
               store's own figures) are read and stored, as `host_cpu`, `host_mem`, `host_load`, `host_disk`, `host_fs`, \
               `host_net`, `host_temp` and `seiner`. An agent such as Telegraf can write its `cpu` and `mem` beside them. \
               An interval of one second costs a few hundred samples per second and about 0.1 % of a core.",
        assign: |settings, text| {
            settings.host_sensors = match text {
                "off" | "false" => None,
                "on" | "true" => Some(Duration::from_secs(1)),
                _ => Some(duration(text).map_err(|error| format!("{error}, or \"off\""))?),
            };
            Ok(())
        },
    },
    Setting {
        name: "allow_1970",
        default: "false",
        form: "true|false",
        help: "Store lines whose times are in 1970, but would be between 1990 and 2100 in a coarser unit, such as \
               1700000000 in ns. Usually the precision is missing, so such lines are rejected by default. A single write \
               can permit them with `allow_1970=true` in its address.",
        assign: |settings, text| boolean(text).map(|allow| settings.allow_1970 = allow),
    },
    Setting {
        name: "database_tag",
        default: "off",
        form: "NAME|off",
        help: "Tag that keeps the name of the database (`db`) or bucket to which a client of InfluxDB writes lines. There is \
               one store: without the tag, lines with the same measurement and tags are one series, whatever their \
               database is. With it, they are separate, every line has one tag more, and lines that have a tag of this \
               name already are rejected. Statements in InfluxQL then read the database that they or the parameter `db` \
               name.",
        assign: |settings, text| tag_name(text).map(|name| settings.database_tag = name),
    },
    Setting {
        name: "max_body",
        default: "256 MiB",
        form: "SIZE",
        help: "Maximum body of one write, after decompression. Bodies are streamed, so a larger maximum costs no memory, \
               but one request can occupy one of the `max_requests` places for longer.",
        assign: |settings, text| at_least(text, 1024).map(|bytes| settings.max_body = bytes),
    },
    Setting {
        name: "max_requests",
        default: "256",
        form: "COUNT",
        help: "Maximum number of concurrent writes. Further writes are not queued: they are answered 503 with Retry-After. \
               Each write needs up to 128 KiB of memory while its body arrives.",
        assign: |settings, text| count(text).map(|count| settings.max_requests = count),
    },
    Setting {
        name: "max_queries",
        default: "16",
        form: "COUNT",
        help: "Maximum number of concurrent queries. The maximum is lower if `memory` is small: one query per 16 \
               MiB, but at least 4. Further queries are answered 503 with Retry-After. Each query holds the blocks \
               that it decodes and a few chunks of its answer in memory, and a heavy query uses all cores.",
        assign: |settings, text| count(text).map(|count| settings.max_queries = count),
    },
    Setting {
        name: "max_connections",
        default: "1024",
        form: "COUNT",
        help: "Maximum number of open connections, of HTTP and of line protocol each. Further connections are closed. Each \
               connection that sent a large body holds up to 128 KiB of memory.",
        assign: |settings, text| count(text).map(|count| settings.max_connections = count),
    },
    Setting {
        name: "stop_timeout",
        default: "10s",
        form: "DURATION",
        help: "Maximum time to wait for requests in flight at a stop. A longer time lets slow senders finish. A shorter time \
               stops sooner. Acknowledged rows are kept in any case.",
        assign: |settings, text| duration(text).map(|duration| settings.stop_timeout = duration),
    },
    Setting {
        name: "log",
        default: "info",
        form: "FILTER",
        help: "Filter of the messages on standard error: error, warn, info, debug, trace, or a list such as \
               `info,seiner_server=debug`. Single rows are never logged.",
        assign: |settings, text| {
            settings.log = non_empty(text)?.to_string();
            Ok(())
        },
    },
    Setting {
        name: "log_format",
        default: "text",
        form: "text|json",
        help: "Form of the messages on standard error, one line each: `text` for people, `json` for programs that collect \
               logs. See docs/logs.md.",
        assign: |settings, text| {
            settings.log_format = match text {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err(format!("{text:?} is not a format; write text or json")),
            };
            Ok(())
        },
    },
    Setting {
        name: "log_slow",
        default: "1s",
        form: "DURATION|off",
        help: "Duration from which a request over HTTP has a line in the log, from the head of the request to the last byte \
               of its answer. A longer duration suits a server that answers long exports.",
        assign: |settings, text| {
            settings.log_slow = match text {
                "off" => None,
                _ => Some(duration(text).map_err(|error| format!("{error}, or \"off\""))?),
            };
            Ok(())
        },
    },
];
