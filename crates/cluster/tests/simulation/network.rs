//! Network between ports and replicas, with the failures of both.

use crate::plan::{Canary, Plan};
use crate::replicas::{Cell, Change, MAJORITY, NODES, Place, Replicas};
use seiner_cluster::{Found, Level, RowsError, Swap};
use seiner_platform::sim::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// Replicas, and the paths from ports to them.
pub struct Network {
    pub replicas: Replicas,
    /// Names of the tables.
    pub tables: BTreeSet<String>,
    /// Nodes that run.
    pub up: [bool; NODES],
    /// Paths from ports to nodes.
    pub paths: Vec<[bool; NODES]>,
    /// True if requests do not fail by chance.
    pub is_calm: bool,
    /// Changes on their way: time of arrival, node, change.
    late: Vec<(u64, usize, Change)>,
    rng: Rng,
    plan: Plan,
    canary: Option<Canary>,
    last_swap: i64,
    /// True time, ns.
    pub now: u64,
}

fn unavailable(text: &str) -> RowsError {
    RowsError::Unavailable(text.to_string())
}

impl Network {
    /// Creates a network of running nodes without rows.
    pub fn new(rng: Rng, plan: Plan, canary: Option<Canary>, ports: usize) -> Network {
        Network {
            replicas: Replicas::default(),
            tables: BTreeSet::new(),
            up: [true; NODES],
            paths: vec![[true; NODES]; ports],
            is_calm: false,
            late: Vec::new(),
            rng,
            plan,
            canary,
            last_swap: 0,
            now: 0,
        }
    }

    /// Returns the nodes that a port reaches, in random order.
    fn reached(&mut self, port: usize) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..NODES)
            .filter(|&node| self.up[node] && self.paths[port][node])
            .collect();
        self.rng.shuffle(&mut nodes);
        nodes
    }

    /// Returns whether a port reaches a majority.
    pub fn reaches_majority(&self, port: usize) -> bool {
        let reached = (0..NODES).filter(|&node| self.up[node] && self.paths[port][node]);
        reached.count() >= MAJORITY
    }

    fn fails(&mut self, per_mille: u32) -> bool {
        !self.is_calm && self.rng.chance(u64::from(per_mille), 1000)
    }

    /// Delivers the changes that have arrived by now; with `all`, those on their way too.
    pub fn deliver(&mut self, all: bool) {
        let (now, up) = (self.now, self.up);
        let late = std::mem::take(&mut self.late);
        for (at, node, change) in late {
            match (all || at <= now) && up[node] {
                true => self.replicas.apply(now, node, &change),
                false => self.late.push((at, node, change)),
            }
        }
    }

    /// Cuts the power of all nodes, which start again.
    pub fn cut_power(&mut self) {
        let Network { replicas, rng, .. } = self;
        replicas.cut_power(self.now, |unsynced| rng.below(unsynced as u64 + 1) as usize);
    }

    /// Makes a change arrive at a node later.
    fn delay(&mut self, node: usize, change: &Change) {
        let after = self.rng.between(SECOND / 100, 30 * SECOND);
        self.late.push((self.now + after, node, change.clone()));
    }

    /// Writes changes at enough nodes.
    pub fn write(
        &mut self,
        port: usize,
        changes: &[Change],
        level: Level,
    ) -> Result<(), RowsError> {
        let reached = self.reached(port);
        let need = self.need(level);
        let fails = reached.len() < need || self.fails(self.plan.write_timeout);
        // A coordinator that knows of the failure does not begin.
        if fails && self.rng.chance(1, 3) {
            return Err(unavailable("no effect"));
        }
        for change in changes {
            if self.canary == Some(Canary::LateDirectories)
                && change.place.table.starts_with("directories")
            {
                (0..NODES).for_each(|node| self.delay(node, change));
                continue;
            }
            let mut nodes = reached.clone();
            self.rng.shuffle(&mut nodes);
            let least = if fails { 0 } else { need };
            let most = nodes.len() as u64;
            let count = match self.is_calm
                || (!fails && !self.rng.chance(u64::from(self.plan.missing), 1000))
            {
                true => most,
                false => self.rng.between(least as u64, most),
            };
            for node in 0..NODES {
                match nodes.iter().position(|&other| other == node) {
                    Some(at) if (at as u64) < count => self.replicas.apply(self.now, node, change),
                    // A hint, or a slow replica. Others never get the change.
                    _ if self.rng.chance(u64::from(self.plan.hints), 1000) => {
                        self.delay(node, change)
                    }
                    _ => {}
                }
            }
        }
        match fails {
            true => Err(unavailable("a timeout")),
            false => Ok(()),
        }
    }

    fn need(&self, level: Level) -> usize {
        match level {
            Level::One => 1,
            Level::Quorum if self.canary == Some(Canary::LooseQuorum) => 1,
            Level::Quorum => MAJORITY,
            Level::All => 3,
        }
    }

    /// Returns the nodes that answer a read.
    fn readers(&mut self, port: usize, level: Level) -> Result<Vec<usize>, RowsError> {
        let mut nodes = self.reached(port);
        let need = self.need(level);
        if nodes.len() < need || self.fails(self.plan.read_timeout) {
            return Err(unavailable("a read"));
        }
        nodes.truncate(need);
        Ok(nodes)
    }

    /// Returns the rows of a partition.
    pub fn read(
        &mut self,
        port: usize,
        table: &str,
        partition: &[u8],
        level: Level,
    ) -> Result<Vec<Found>, RowsError> {
        let nodes = self.readers(port, level)?;
        let repair = level == Level::Quorum;
        Ok(self
            .replicas
            .read(&nodes, table, partition, self.now as i64, repair))
    }

    /// Returns the keys of partitions that have rows.
    pub fn partitions(&mut self, port: usize, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        let nodes = self.readers(port, Level::Quorum)?;
        let mut keys = self.replicas.partitions(&nodes, table);
        let now = self.now as i64;
        keys.retain(|key| {
            !self
                .replicas
                .read(&nodes, table, key, now, false)
                .is_empty()
        });
        Ok(keys)
    }

    /// Returns the keys of rows that every majority has.
    pub fn durable(&mut self, table: &str, partition: &[u8]) -> Vec<Vec<u8>> {
        let now = self.now as i64;
        let keys = [[0, 1], [0, 2], [1, 2]].map(|nodes| {
            let rows = self
                .replicas
                .read(&nodes, table, partition, now, false)
                .into_iter();
            rows.map(|(key, _)| key).collect::<Vec<_>>()
        });
        let [first, second, third] = keys;
        let is_durable = |key: &Vec<u8>| second.contains(key) && third.contains(key);
        first.into_iter().filter(is_durable).collect()
    }

    /// Performs a conditional write.
    pub fn swap(
        &mut self,
        port: usize,
        place: &Place,
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        if self.reached(port).len() < MAJORITY {
            return Err(unavailable("no majority for a conditional write"));
        }
        let (table, partition) = (place.table.clone(), place.partition.clone());
        let key = place.key.clone().unwrap_or_default();
        let in_doubt = self.replicas.serial(&table, &partition).in_doubt.take();
        if let Some((key, value)) = in_doubt
            && self.rng.chance(1, 2)
        {
            self.commit(port, &table, &partition, key, value);
        }
        let found = self
            .replicas
            .serial(&table, &partition)
            .rows
            .get(&key)
            .cloned();
        let fails = self.fails(self.plan.swap_timeout);
        if found.as_deref() != expected {
            return if fails {
                Err(unavailable("a conditional write"))
            } else {
                Ok(Swap::Found(found))
            };
        }
        if !fails {
            self.commit(port, &table, &partition, key, value.to_vec());
            return Ok(Swap::Done);
        }
        match self.rng.below(3) {
            0 => {}
            1 => self.commit(port, &table, &partition, key, value.to_vec()),
            _ => self.replicas.serial(&table, &partition).in_doubt = Some((key, value.to_vec())),
        }
        Err(unavailable("a conditional write"))
    }

    /// Commits a conditional write at a majority.
    fn commit(
        &mut self,
        port: usize,
        table: &Arc<str>,
        partition: &[u8],
        key: Vec<u8>,
        value: Vec<u8>,
    ) {
        self.last_swap += 1;
        let serial = self.replicas.serial(table, partition);
        serial.rows.insert(key.clone(), value.clone());
        let change = Change {
            place: Place {
                table: table.clone(),
                partition: partition.to_vec(),
                key: Some(key),
            },
            cell: Cell {
                stamp: self.last_swap,
                is_removed: false,
                value: value.into(),
                expires: i64::MAX,
            },
        };
        let nodes = self.reached(port);
        let count = self.rng.between(MAJORITY as u64, nodes.len() as u64) as usize;
        for node in 0..NODES {
            match nodes[..count].contains(&node) {
                true => self.replicas.apply_synced(node, &change),
                false => self.delay(node, &change),
            }
        }
    }
}
