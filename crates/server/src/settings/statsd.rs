//! Settings of StatsD.

use super::setting::Setting;
use super::text::{address_or_off, at_least, duration};

/// Least memory for the values of an interval, bytes.
const LEAST_MEMORY: u64 = 64 << 10;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 3] = [
    Setting {
        name: "statsd_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for StatsD, over TCP and UDP; 127.0.0.1:8125 is usual. Nothing is acknowledged, and a crash \
               loses the values of the present interval. docs/statsd.md has examples.",
        assign: |settings, text| {
            address_or_off(text).map(|address| settings.statsd.listen = address)
        },
    },
    Setting {
        name: "statsd_interval",
        default: "10s",
        form: "DURATION",
        help: "Time for which values of StatsD are aggregated. Then each metric with values becomes a row.",
        assign: |settings, text| duration(text).map(|time| settings.statsd.interval = time),
    },
    Setting {
        name: "statsd_memory",
        default: "32 MiB",
        form: "SIZE",
        help: "Maximum memory for the metrics and values of an interval. Values that need more are rejected and counted.",
        assign: |settings, text| {
            at_least(text, LEAST_MEMORY).map(|bytes| settings.statsd.memory = bytes)
        },
    },
];
