//! Datagrams that the kernel dropped, from its table of sockets.

use crate::traffic::ProtocolCounters;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// Tables of sockets of the network namespace.
const TABLES: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];

/// Columns of the inode and of the dropped datagrams.
const INODE: usize = 9;
const DROPS: usize = 12;

/// Sockets whose dropped datagrams are counted.
#[derive(Default)]
pub struct UdpDrops {
    sockets: Mutex<Vec<(u64, Arc<ProtocolCounters>)>>,
}

impl UdpDrops {
    /// Adds a socket. Without an inode, its drops are not counted.
    pub fn add(&self, socket: impl AsFd, counters: Arc<ProtocolCounters>) {
        if let Ok(stat) = rustix::fs::fstat(socket) {
            self.sockets().push((stat.st_ino, counters));
        }
    }

    /// Updates the counters. A protocol has one socket.
    pub fn read(&self) {
        let sockets = self.sockets();
        if sockets.is_empty() {
            return;
        }
        for table in TABLES {
            let Ok(text) = std::fs::read_to_string(table) else {
                continue;
            };
            for (inode, drops) in text.lines().filter_map(socket) {
                for (_, counters) in sockets.iter().filter(|(of, _)| *of == inode) {
                    counters.dropped.store(drops, Relaxed);
                }
            }
        }
    }

    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Arc<ProtocolCounters>)>> {
        self.sockets
            .lock()
            .expect("nothing panics while it holds the list")
    }
}

/// Returns the inode and the dropped datagrams of a line of a table; `None` for the heading.
fn socket(line: &str) -> Option<(u64, u64)> {
    let mut columns = line.split_ascii_whitespace();
    let inode = columns.nth(INODE)?.parse().ok()?;
    let drops = columns.nth(DROPS - INODE - 1)?.parse().ok()?;
    Some((inode, drops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_read() {
        let heading = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
        assert_eq!(socket(heading), None);
        let line = " 2110: 0100007F:07D3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 44207 2 0000000000000000 17";
        assert_eq!(socket(line), Some((44207, 17)));
    }

    #[test]
    fn drops_of_a_full_buffer_are_counted() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let counters = Arc::new(ProtocolCounters::default());
        let drops = UdpDrops::default();
        drops.add(&receiver, counters.clone());
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2_000 {
            let _ = sender.send_to(&[0; 8_000], receiver.local_addr().unwrap());
        }
        drops.read();
        assert!(counters.dropped.load(Relaxed) > 0);
    }
}
