//! Measurement `host_net`: traffic of an interface per second; tag `interface`.

use super::{Readings, rate};
use procfs::net::DeviceStatus;
use std::collections::HashMap;

#[derive(Default)]
pub struct Network {
    before: HashMap<String, DeviceStatus>,
}

impl Network {
    pub fn read(&mut self, seconds: f64, readings: &mut Readings) {
        let Ok(status) = procfs::net::dev_status() else {
            return;
        };
        for (name, now) in &status {
            let Some(before) = self.before.get(name) else {
                continue;
            };
            if now.recv_packets + now.sent_packets == 0 {
                continue;
            }
            let fields = vec![
                (
                    "rx_bytes_per_s",
                    rate(now.recv_bytes, before.recv_bytes, seconds),
                ),
                (
                    "tx_bytes_per_s",
                    rate(now.sent_bytes, before.sent_bytes, seconds),
                ),
                (
                    "rx_packets_per_s",
                    rate(now.recv_packets, before.recv_packets, seconds),
                ),
                (
                    "tx_packets_per_s",
                    rate(now.sent_packets, before.sent_packets, seconds),
                ),
                (
                    "rx_errors_per_s",
                    rate(now.recv_errs, before.recv_errs, seconds),
                ),
                (
                    "tx_errors_per_s",
                    rate(now.sent_errs, before.sent_errs, seconds),
                ),
                (
                    "rx_dropped_per_s",
                    rate(now.recv_drop, before.recv_drop, seconds),
                ),
            ];
            readings.add("host_net", &[("interface", name)], fields);
        }
        self.before = status;
    }
}
