//! Settings of the ports, and of who may use them.

use super::setting::Setting;
use super::text::{address, boolean, host_names, names, non_empty, origins};
use super::values::AccessMode;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 9] = [
    Setting {
        name: "listen",
        default: "127.0.0.1:7670",
        form: "ADDRESS:PORT",
        help: "Address of the HTTP port, for writes, queries, metrics and the page. An address that other hosts can reach \
               also needs `allow_remote`, and tokens (docs/access.md).",
        assign: |settings, text| address(text).map(|address| settings.listen = address),
    },
    Setting {
        name: "line_tcp",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for line protocol over plain TCP, one line after the other. This port has the \
               lowest cost for senders, but it acknowledges nothing. Rejected lines are only counted and logged.",
        assign: |settings, text| {
            settings.line_tcp = if text == "off" {
                None
            } else {
                Some(address(text)?)
            };
            Ok(())
        },
    },
    Setting {
        name: "otlp_grpc",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for OTLP metrics over gRPC; 127.0.0.1:4317 is usual. The HTTP port receives \
               OTLP metrics over HTTP in any case.",
        assign: |settings, text| {
            settings.otlp_grpc = if text == "off" {
                None
            } else {
                Some(address(text)?)
            };
            Ok(())
        },
    },
    Setting {
        name: "otlp_labels",
        default: "none",
        form: "ATTRIBUTE,...|none",
        help: "Attributes of resources in OTLP metrics that become labels of all series of the resource, besides `job` and \
               `instance`: for example `host.name,k8s.namespace.name`. All attributes are in `target_info`. With more \
               labels, a changed attribute begins new series.",
        assign: |settings, text| {
            settings.otlp_labels = match text {
                "none" => Vec::new(),
                _ => names(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "allow_remote",
        default: "false",
        form: "true|false",
        help: "Permit addresses other than loopback. Requests then need a token (docs/access.md), unless `access` says \
               otherwise.",
        assign: |settings, text| boolean(text).map(|allow| settings.allow_remote = allow),
    },
    Setting {
        name: "access",
        default: "tokens",
        form: "tokens|mixed|open",
        help: "Requests that need a token (docs/access.md). `tokens`: all requests, if there is a file of tokens, or the \
               port of HTTP, gRPC or MQTT has an address other than loopback. Ports of protocols without credentials (line protocol over TCP and \
               UDP, Graphite, OpenTSDB, StatsD, collectd without signatures) then need an address on loopback. `mixed`: \
               these ports may have any address, and whoever reaches one can write. `open`: no request needs a token, \
               and whoever reaches a port can read and write all data.",
        assign: |settings, text| {
            settings.access = match text {
                "tokens" => AccessMode::Tokens,
                "mixed" => AccessMode::Mixed,
                "open" => AccessMode::Open,
                _ => {
                    return Err(format!(
                        "{text:?} is not tokens, mixed or open; write one of these"
                    ));
                }
            };
            Ok(())
        },
    },
    Setting {
        name: "access_file",
        default: "auto",
        form: "FILE|auto",
        help: "File with the hashes of the tokens, which `seiner token` changes; auto: `access.toml` in the data directory. \
               The server reads the file again within a second of a change.",
        assign: |settings, text| {
            settings.access_file = match non_empty(text)? {
                "auto" => None,
                path => Some(path.into()),
            };
            Ok(())
        },
    },
    Setting {
        name: "allowed_hosts",
        default: "none",
        form: "NAME[:PORT],...|none",
        help: "Names of the server besides `localhost`, the loopback addresses and the addresses that it listens on: its \
               name in the network, such as `nas.local`, or the name of a proxy in front of it. A request with any other \
               name in its Host header is answered 421. Otherwise a web page of another site could reach the server by a \
               name of that site (DNS rebinding). If a proxy changes Host, add the origin of the page, with its port \
               unless the port is 80 or 443.",
        assign: |settings, text| {
            settings.allowed_hosts = match text {
                "none" => Vec::new(),
                _ => host_names(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "cors_origins",
        default: "none",
        form: "ORIGIN,...|none",
        help: "Origins of web pages of other hosts that may use this server (CORS), such as `https://app.example`. Such a \
               page can send what a program on the user's machine can send. With tokens, the page needs one: the server \
               accepts no cookies.",
        assign: |settings, text| {
            settings.cors_origins = match text {
                "none" => Vec::new(),
                _ => origins(text)?,
            };
            Ok(())
        },
    },
];
