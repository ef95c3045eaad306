//! Route of writes: the port of a cluster that this client uses, and the other ports that it knows.
//!
//! A server that is not a port of a cluster gives no advice, so the route stays at its address.

use std::time::Duration;

/// Weight of the latest request in the rate.
const LATEST: f64 = 0.3;
/// Maximum number of ports to remember.
const MAX_KNOWN: usize = 64;

/// Route of writes.
pub struct Route {
    /// Address of the server in use, with its scheme.
    current: String,
    /// Addresses of other ports.
    others: Vec<String>,
    /// Rows per second of this client, smoothed.
    rate: Option<f64>,
}

impl Route {
    /// Creates a route to one server.
    pub fn new(address: String) -> Route {
        Route {
            current: address,
            others: Vec::new(),
            rate: None,
        }
    }

    /// Returns the address of the server in use.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// Returns the rows per second of this client, if they are known.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Notes a completed request with its rows and duration.
    pub fn note(&mut self, rows: usize, duration: Duration) {
        let rate = rows as f64 / duration.as_secs_f64().max(1e-6);
        let before = self.rate.unwrap_or(rate);
        self.rate = Some(before + LATEST * (rate - before));
    }

    /// Follows advice: addresses of better ports, the best first, separated by commas. Returns false if there is none.
    pub fn follow(&mut self, ports: &str) -> bool {
        let mut ports: Vec<String> = ports
            .split(',')
            .filter(|port| !port.is_empty())
            .map(|port| url(port.trim(), &self.current))
            .collect();
        ports.retain(|port| *port != self.current);
        if ports.is_empty() {
            return false;
        }
        let left = std::mem::replace(&mut self.current, ports.remove(0));
        self.learn(ports.into_iter().chain([left]));
        true
    }

    /// Remembers other ports. The latest come first.
    pub fn learn(&mut self, ports: impl IntoIterator<Item = String>) {
        let mut known: Vec<String> = Vec::new();
        for port in ports.into_iter().chain(std::mem::take(&mut self.others)) {
            if port != self.current && !known.contains(&port) {
                known.push(port);
            }
        }
        known.truncate(MAX_KNOWN);
        self.others = known;
    }

    /// Goes on to the next known port, because the present one does not answer. Returns false if there is no other.
    pub fn leave(&mut self) -> bool {
        if self.others.is_empty() {
            return false;
        }
        let failed = std::mem::replace(&mut self.current, self.others.remove(0));
        self.others.push(failed);
        true
    }
}

/// Returns the address of a port, as a port publishes it, with its scheme. Ports without TLS publish none. A client that
/// uses TLS does not send its token to them.
pub fn url(port: &str, current: &str) -> String {
    match (port.contains("://"), current.split_once("://")) {
        (true, _) => port.to_string(),
        (false, Some((scheme, _))) => format!("{scheme}://{port}"),
        (false, None) => format!("http://{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        Route::new("http://a:1".to_string())
    }

    #[test]
    fn a_client_follows_the_best_port_and_remembers_the_others() {
        let mut route = route();
        assert!(route.follow("b:1,c:1"));
        assert_eq!(route.current(), "http://b:1");
        assert!(!route.follow("b:1") && !route.follow(""));
        assert!(route.leave());
        assert_eq!(route.current(), "http://c:1");
        assert!(route.leave());
        assert_eq!(route.current(), "http://a:1");
        assert!(route.leave());
        assert_eq!(route.current(), "http://b:1");
    }

    #[test]
    fn a_client_with_tls_does_not_go_on_without() {
        let mut route = Route::new("https://a:1".to_string());
        assert!(route.follow("https://b:1,c:1"));
        assert_eq!(route.current(), "https://b:1");
        assert!(route.leave());
        assert_eq!(route.current(), "https://c:1");
        assert_eq!(url("https://d:1", "http://a:1"), "https://d:1");
    }

    #[test]
    fn a_single_server_is_not_left() {
        let mut route = route();
        assert!(!route.leave());
        route.learn(["http://a:1".to_string()]);
        assert!(!route.leave());
    }

    #[test]
    fn the_rate_follows_the_requests() {
        let mut route = route();
        assert_eq!(route.rate(), None);
        route.note(100, Duration::from_secs(1));
        assert_eq!(route.rate(), Some(100.0));
        (0..30).for_each(|_| route.note(1000, Duration::from_secs(1)));
        assert!(route.rate().is_some_and(|rate| rate > 990.0));
    }
}
