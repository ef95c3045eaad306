//! Limit of wrong tokens per peer.
//!
//! The limit keeps a peer with a wrong token from filling log and processor. The token itself cannot be found by trying.
//! Therefore a right token is accepted at any time: peers behind one proxy share an address, and a wrong token of one of
//! them must not shut out the others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Number of wrong tokens that a peer may present in a window.
pub const LIMIT: u32 = 10;
/// Length of a window.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of peers in the table. The peer with the oldest window leaves the table for a new peer.
const PEERS: usize = 4096;

/// Wrong tokens of each peer in its window.
#[derive(Default)]
pub struct Failures {
    windows: Mutex<HashMap<IpAddr, Window>>,
}

struct Window {
    began: Instant,
    failures: u32,
}

/// Result of counting a wrong token.
#[derive(Debug, PartialEq, Eq)]
pub enum Counted {
    /// The peer may try again.
    Below,
    /// The peer reached the limit with this failure.
    Reached,
    /// The peer is above the limit. It may try again after this number of seconds.
    Above(u64),
}

impl Failures {
    /// Counts a wrong token of a peer.
    pub fn count(&self, peer: IpAddr, now: Instant) -> Counted {
        let mut windows = self
            .windows
            .lock()
            .expect("no thread panics while it holds the table");
        let peer = network(peer);
        if windows.len() >= PEERS && !windows.contains_key(&peer) {
            make_room(&mut windows, now);
        }
        let window = windows.entry(peer).or_insert(Window {
            began: now,
            failures: 0,
        });
        if now.duration_since(window.began) >= WINDOW {
            (window.began, window.failures) = (now, 0);
        }
        window.failures = window.failures.saturating_add(1);
        let rest = WINDOW.saturating_sub(now.duration_since(window.began));
        match window.failures {
            failures if failures > LIMIT => Counted::Above(rest.as_secs().max(1)),
            LIMIT => Counted::Reached,
            _ => Counted::Below,
        }
    }
}

fn make_room(windows: &mut HashMap<IpAddr, Window>, now: Instant) {
    windows.retain(|_, window| now.duration_since(window.began) < WINDOW);
    if windows.len() >= PEERS {
        let oldest = windows.iter().min_by_key(|(_, window)| window.began);
        let oldest = oldest.map(|(peer, _)| *peer);
        oldest.and_then(|peer| windows.remove(&peer));
    }
}

/// Returns the address that stands for a peer. A host with IPv6 has a whole network of addresses.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_failure_in_a_minute_is_limited() {
        let failures = Failures::default();
        let began = crate::time::now();
        let peer = "192.0.2.1".parse().unwrap();
        for _ in 1..LIMIT {
            assert_eq!(failures.count(peer, began), Counted::Below);
        }
        assert_eq!(failures.count(peer, began), Counted::Reached);
        let later = began + Duration::from_secs(20);
        assert_eq!(failures.count(peer, later), Counted::Above(40));
        let other = "192.0.2.2".parse().unwrap();
        assert_eq!(failures.count(other, later), Counted::Below);
        assert_eq!(failures.count(peer, began + WINDOW), Counted::Below);
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let failures = Failures::default();
        let now = crate::time::now();
        for host in 0..LIMIT {
            let address = format!("2001:db8::{host:x}");
            failures.count(address.parse().unwrap(), now);
        }
        let host = |text: &str| failures.count(text.parse().unwrap(), now);
        assert_eq!(host("2001:db8::ffff"), Counted::Above(60));
        assert_eq!(host("2001:db8:0:1::1"), Counted::Below);
    }

    #[test]
    fn the_table_has_a_limit() {
        let failures = Failures::default();
        let now = crate::time::now();
        for number in 0..PEERS as u32 + 100 {
            let at = now + Duration::from_millis(number.into());
            failures.count(IpAddr::V4(number.into()), at);
        }
        assert_eq!(failures.windows.lock().unwrap().len(), PEERS);
    }
}
