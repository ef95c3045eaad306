//! Balance of load between ports.
//!
//! A port compares the rates that all ports publish. If it receives more than its share, it names a better port to some
//! of the clients that follow such advice. A client moves as a whole: it sends its next requests to the named port. The
//! rates become equal within a few plans, because a port advises at most as many clients as make up its surplus.

use crate::ports::PortInfo;
use std::collections::HashMap;

/// Interval between plans, in ns. The rates of a plan contain the moves that the plan before has caused.
const PLAN_EVERY: u64 = 2_500_000_000;
/// Time without news from a port after which it counts as failed, in ns. Ports publish about once a second.
const SILENCE: u64 = 5_000_000_000;
/// Surplus that is tolerated, as a share of the mean rate. Smaller differences are not worth the moves.
const TOLERANCE: f64 = 0.05;
/// Fill from which a port receives no more clients.
const NEARLY_FULL: f64 = 0.9;

/// Port to which clients can move.
#[derive(Clone, Debug)]
struct Target {
    address: String,
    /// Rows per second, with those of the clients that were advised to move there.
    rate: f64,
}

/// Plan of a port: the clients that it advises to move, and where to.
#[derive(Default)]
pub(crate) struct Balance {
    /// Monotonic time of the plan, in ns.
    planned: Option<u64>,
    /// Latest entry of each other port: its wall time, and the monotonic time of this port when it was first seen.
    news: HashMap<String, (i64, u64)>,
    /// Rows per second of this port, without those of the clients that were advised to move.
    own: f64,
    /// Rate from which this port has a surplus.
    share: f64,
    /// True if this port should not receive anything.
    is_unable: bool,
    targets: Vec<Target>,
}

impl Balance {
    /// Makes a new plan if one is due. `ports` is the directory of ports, which may contain this one.
    pub fn plan(&mut self, now: u64, own: &PortInfo, ports: &[PortInfo]) {
        for port in ports.iter().filter(|port| port.name != own.name) {
            let known = self.news.get(&port.name);
            if known.is_none_or(|(time, _)| *time != port.time) {
                self.news.insert(port.name.clone(), (port.time, now));
            }
        }
        if self.planned.is_some_and(|then| now < then + PLAN_EVERY) {
            return;
        }
        self.planned = Some(now);
        self.news
            .retain(|name, _| ports.iter().any(|port| port.name == *name));
        let able = ports.iter().filter(|port| {
            let news = self.news.get(&port.name);
            news.is_some_and(|(_, seen)| now < seen + SILENCE) && is_able(port)
        });
        let target = |port: &PortInfo| Target {
            address: port.address.clone(),
            rate: port.rows_per_second,
        };
        self.targets = able.map(target).collect();
        self.own = own.rows_per_second;
        self.is_unable = !is_able(own);
        let sum: f64 = self.targets.iter().map(|target| target.rate).sum();
        let mean = (sum + self.own) / (self.targets.len() + 1) as f64;
        self.share = mean * (1.0 + TOLERANCE);
    }

    /// Returns the address to which a client should move that sends so many rows per second to this port. `None` if the
    /// client should stay.
    pub fn better(&mut self, rate: f64) -> Option<String> {
        if !rate.is_finite() || rate < 0.0 || !(self.is_unable || self.own > self.share) {
            return None;
        }
        let lowest = self
            .targets
            .iter_mut()
            .min_by(|a, b| a.rate.total_cmp(&b.rate))?;
        // A move that exchanges the roles of the two ports would be followed by the move back.
        if !self.is_unable && lowest.rate + rate >= self.own {
            return None;
        }
        lowest.rate += rate;
        self.own -= rate;
        Some(lowest.address.clone())
    }

    /// Returns the addresses of the ports that can receive more, the one with the lowest rate first.
    pub fn able(&self) -> Vec<String> {
        let mut targets: Vec<&Target> = self.targets.iter().collect();
        targets.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let addresses = targets.into_iter().map(|target| target.address.clone());
        addresses.collect()
    }
}

/// Returns true if a port accepts rows without delay.
fn is_able(port: &PortInfo) -> bool {
    port.trouble.is_none() && port.fill < NEARLY_FULL && !port.address.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_random::SplitMixRng;

    const SECOND: u64 = 1_000_000_000;

    /// Cluster of ports with clients that follow advice. Rates are published once a second, and are smoothed as
    /// [`crate::load::Rate`] smooths them.
    struct Model {
        balances: Vec<Balance>,
        infos: Vec<PortInfo>,
        is_up: Vec<bool>,
        /// Port and rows per second of each client.
        clients: Vec<(usize, f64)>,
        tick: u64,
        random: SplitMixRng,
    }

    impl Model {
        fn new(seed: u64, ports: usize, clients: Vec<(usize, f64)>) -> Model {
            let info = |port: usize| PortInfo {
                name: format!("port{port}"),
                address: format!("10.0.0.{port}:7670"),
                ..PortInfo::default()
            };
            let mut model = Model {
                balances: (0..ports).map(|_| Balance::default()).collect(),
                infos: (0..ports).map(info).collect(),
                is_up: vec![true; ports],
                clients,
                tick: 0,
                random: SplitMixRng::new(seed),
            };
            for port in 0..ports {
                model.infos[port].rows_per_second = model.load(port);
            }
            model
        }

        fn load(&self, port: usize) -> f64 {
            let here = self.clients.iter().filter(|client| client.0 == port);
            here.map(|client| client.1).sum()
        }

        /// Runs for a quarter of a second.
        fn step(&mut self) {
            self.tick += 1;
            let now = self.tick * SECOND / 4;
            for port in 0..self.infos.len() {
                // The ports do not publish at the same time.
                if self.is_up[port] && (self.tick + port as u64).is_multiple_of(4) {
                    let before = self.infos[port].rows_per_second;
                    self.infos[port].rows_per_second = (before + self.load(port)) / 2.0;
                    self.infos[port].time += 1;
                    let own = self.infos[port].clone();
                    self.balances[port].plan(now, &own, &self.infos);
                }
            }
            for client in 0..self.clients.len() {
                let (port, rate) = self.clients[client];
                if !self.is_up[port] {
                    let up: Vec<usize> = (0..self.is_up.len())
                        .filter(|port| self.is_up[*port])
                        .collect();
                    self.clients[client].0 = *self.random.pick(&up);
                    continue;
                }
                // A client measures its own rate within some percent.
                let measured = rate * (0.9 + 0.2 * self.random.unit());
                if let Some(address) = self.balances[port].better(measured) {
                    let found = self.infos.iter().position(|info| info.address == address);
                    self.clients[client].0 = found.unwrap();
                }
            }
        }

        /// Runs for some seconds, and returns the largest distance of a port's load from the mean, as a share of it.
        fn run(&mut self, seconds: u64) -> f64 {
            (0..4 * seconds).for_each(|_| self.step());
            self.imbalance()
        }

        fn imbalance(&self) -> f64 {
            let up: Vec<usize> = (0..self.is_up.len())
                .filter(|port| self.is_up[*port])
                .collect();
            let loads: Vec<f64> = up.iter().map(|port| self.load(*port)).collect();
            let mean = loads.iter().sum::<f64>() / loads.len() as f64;
            let far = loads.iter().map(|load| (load / mean - 1.0).abs());
            far.fold(0.0, f64::max)
        }
    }

    #[test]
    fn skewed_clients_spread_within_ten_seconds() {
        for seed in 0..50 {
            // The first port has ten times the clients of the others.
            let clients = (0..120).map(|client| match client % 12 {
                10 => (1, 100.0),
                11 => (2, 100.0),
                _ => (0, 100.0),
            });
            let mut model = Model::new(seed, 3, clients.collect());
            assert!(model.imbalance() > 1.0);
            let after = model.run(10);
            assert!(after <= 0.15, "seed {seed}: {after}");
            let before = model.clients.clone();
            model.run(60);
            let moved = (0..120).filter(|at| model.clients[*at].0 != before[*at].0);
            assert!(moved.count() <= 12, "clients keep moving");
        }
    }

    #[test]
    fn the_clients_of_a_lost_port_spread_and_return() {
        for seed in 0..50 {
            let clients = (0..90).map(|client| (client % 3, 100.0));
            let mut model = Model::new(seed, 3, clients.collect());
            model.run(5);
            model.is_up[1] = false;
            let without = model.run(20);
            assert!(without <= 0.15, "seed {seed}: {without}");
            model.is_up[1] = true;
            model.infos[1].rows_per_second = 0.0;
            let with = model.run(15);
            assert!(with <= 0.15, "seed {seed}: {with}");
        }
    }

    #[test]
    fn a_client_larger_than_the_surplus_stays() {
        let mut model = Model::new(1, 3, vec![(0, 1000.0), (1, 100.0), (2, 100.0)]);
        model.run(20);
        assert_eq!(model.clients[0].0, 0);
    }

    #[test]
    fn a_port_in_trouble_sends_everybody_away_and_receives_nobody() {
        let mut model = Model::new(1, 3, (0..30).map(|client| (client % 3, 10.0)).collect());
        model.run(5);
        model.infos[2].trouble = Some("no replica answers".to_string());
        model.run(10);
        assert_eq!(model.load(2), 0.0);
        assert_eq!(model.balances[2].able().len(), 2);
        assert_eq!(model.balances[0].able().len(), 1);
    }
}
