//! Replicas: the rows of a simulated Cassandra.
//!
//! Every replica has every row. A row counts by the timestamp of its write; at equal timestamps a removal counts, then
//! the larger value. Conditional writes have one order of their own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Number of replicas.
pub const NODES: usize = 3;
/// More than half of the replicas.
pub const MAJORITY: usize = 2;

/// Longest time for which a replica has a change in memory only, ns.
pub const UNSYNCED: u64 = 500_000_000;

/// Version of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Timestamp of the write, ns.
    pub stamp: i64,
    /// True for a removal.
    pub is_removed: bool,
    /// Value.
    pub value: Arc<[u8]>,
    /// Time at which the row expires, ns.
    pub expires: i64,
}

/// Place of a row: table, partition, key. Without a key: the whole partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the table.
    pub table: Arc<str>,
    /// Key of the partition.
    pub partition: Vec<u8>,
    /// Key of the row.
    pub key: Option<Vec<u8>>,
}

/// Write of a row or removal, as replicas receive it.
#[derive(Clone, Debug)]
pub struct Change {
    /// Place.
    pub place: Place,
    /// New version.
    pub cell: Cell,
}

/// Partition at one replica.
#[derive(Clone, Debug)]
struct Partition {
    /// Timestamp of the last removal of the whole partition.
    removed: i64,
    rows: BTreeMap<Vec<u8>, Cell>,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition {
            removed: i64::MIN,
            rows: BTreeMap::new(),
        }
    }
}

impl Partition {
    fn add(&mut self, other: &Partition) {
        self.removed = self.removed.max(other.removed);
        for (key, cell) in &other.rows {
            self.put(key, cell);
        }
    }

    fn put(&mut self, key: &[u8], cell: &Cell) {
        match self.rows.get_mut(key) {
            Some(old) if *old < *cell => *old = cell.clone(),
            Some(_) => {}
            None => drop(self.rows.insert(key.to_vec(), cell.clone())),
        }
    }
}

/// Partitions of a replica, by table and key.
type Node = BTreeMap<Arc<str>, BTreeMap<Vec<u8>, Partition>>;

fn apply(node: &mut Node, change: &Change) {
    let Place {
        table,
        partition,
        key,
    } = &change.place;
    let table = node.entry(table.clone()).or_default();
    let found = table.entry(partition.clone()).or_default();
    match key {
        Some(key) => found.put(key, &change.cell),
        None => found.removed = found.removed.max(change.cell.stamp),
    }
}

/// Rows of all replicas.
#[derive(Clone, Default)]
pub struct Replicas {
    nodes: [Node; NODES],
    /// Rows that survive a power cut: those of changes that are older than `UNSYNCED`.
    synced: [Node; NODES],
    /// Later changes with their times, ns, in the order of their arrival.
    unsynced: [VecDeque<(u64, Change)>; NODES],
    serial: BTreeMap<(Arc<str>, Vec<u8>), Serial>,
}

/// Partition whose rows are written conditionally.
#[derive(Clone, Debug, Default)]
pub struct Serial {
    /// Values in the one order of all conditional writes.
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Write that was accepted by too few replicas. The next conditional write completes or discards it.
    pub in_doubt: Option<(Vec<u8>, Vec<u8>)>,
}

impl Replicas {
    /// Applies a change at a replica at a time, ns.
    pub fn apply(&mut self, now: u64, node: usize, change: &Change) {
        apply(&mut self.nodes[node], change);
        let unsynced = &mut self.unsynced[node];
        unsynced.push_back((now, change.clone()));
        while unsynced.front().is_some_and(|(at, _)| at + UNSYNCED < now) {
            let (_, change) = unsynced.pop_front().expect("there is a first change");
            apply(&mut self.synced[node], &change);
        }
    }

    /// Applies a conditional write at a replica, which syncs it.
    pub fn apply_synced(&mut self, node: usize, change: &Change) {
        apply(&mut self.nodes[node], change);
        apply(&mut self.synced[node], change);
    }

    /// Cuts the power of all replicas. Of the unsynced changes of a replica, the first ones survive; `survivors` chooses
    /// how many of them. Conditional writes survive.
    pub fn cut_power(&mut self, now: u64, mut survivors: impl FnMut(usize) -> usize) {
        for node in 0..NODES {
            let changes = std::mem::take(&mut self.unsynced[node]);
            let synced = changes.iter().filter(|(at, _)| at + UNSYNCED < now).count();
            let kept = synced + survivors(changes.len() - synced);
            for (_, change) in changes.iter().take(kept) {
                apply(&mut self.synced[node], change);
            }
            self.nodes[node] = self.synced[node].clone();
        }
    }

    /// Returns the rows of a partition as some replicas have them. With `repair`, all of these replicas have the
    /// newest versions afterwards, as with Cassandra's blocking repair.
    pub fn read(
        &mut self,
        nodes: &[usize],
        table: &str,
        partition: &[u8],
        now: i64,
        repair: bool,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut merged = Partition::default();
        for &node in nodes {
            let found = self.nodes[node]
                .get(table)
                .and_then(|table| table.get(partition));
            found.into_iter().for_each(|found| merged.add(found));
        }
        if repair {
            self.repair(nodes, table, partition, now as u64, &merged);
        }
        let Partition { removed, rows } = merged;
        let live = rows
            .into_iter()
            .filter(|(_, cell)| !cell.is_removed && cell.stamp > removed && cell.expires > now);
        live.map(|(key, cell)| (key, cell.value.to_vec())).collect()
    }

    /// Writes what a read has merged to the replicas that it has asked.
    fn repair(
        &mut self,
        nodes: &[usize],
        table: &str,
        partition: &[u8],
        now: u64,
        merged: &Partition,
    ) {
        let change = |key: Option<&Vec<u8>>, cell: Cell| Change {
            place: Place {
                table: table.into(),
                partition: partition.to_vec(),
                key: key.cloned(),
            },
            cell,
        };
        for &node in nodes {
            let found = self.nodes[node].get(table);
            let own = found.and_then(|table| table.get(partition)).cloned();
            let own = own.unwrap_or_default();
            if own.removed < merged.removed {
                let removal = Cell {
                    stamp: merged.removed,
                    is_removed: true,
                    value: [].into(),
                    expires: i64::MAX,
                };
                self.apply(now, node, &change(None, removal));
            }
            for (key, cell) in &merged.rows {
                if own.rows.get(key).is_none_or(|own| own < cell) {
                    self.apply(now, node, &change(Some(key), cell.clone()));
                }
            }
        }
    }

    /// Returns the keys of the partitions of a table that some replicas have.
    pub fn partitions(&self, nodes: &[usize], table: &str) -> Vec<Vec<u8>> {
        let tables = nodes.iter().filter_map(|&node| self.nodes[node].get(table));
        let mut keys: Vec<Vec<u8>> = tables.flat_map(|table| table.keys().cloned()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Returns a partition of conditional writes.
    pub fn serial(&mut self, table: &str, partition: &[u8]) -> &mut Serial {
        self.serial
            .entry((table.into(), partition.to_vec()))
            .or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: Option<&str>, stamp: i64, value: Option<&str>) -> Change {
        Change {
            place: Place {
                table: "t".into(),
                partition: b"p".to_vec(),
                key: key.map(|key| key.as_bytes().to_vec()),
            },
            cell: Cell {
                stamp,
                is_removed: value.is_none(),
                value: value.unwrap_or("").as_bytes().into(),
                expires: i64::MAX,
            },
        }
    }

    fn values(replicas: &mut Replicas, nodes: &[usize]) -> Vec<String> {
        let rows = replicas.read(nodes, "t", b"p", 0, false).into_iter();
        rows.map(|(_, value)| String::from_utf8(value).unwrap())
            .collect()
    }

    #[test]
    fn the_newest_version_of_any_replica_counts() {
        let mut replicas = Replicas::default();
        replicas.apply(0, 0, &change(Some("a"), 5, Some("new")));
        replicas.apply(0, 1, &change(Some("a"), 3, Some("old")));
        assert_eq!(values(&mut replicas, &[0, 1]), ["new"]);
        assert_eq!(values(&mut replicas, &[1, 2]), ["old"]);
        replicas.apply(0, 2, &change(Some("a"), 5, None));
        assert!(values(&mut replicas, &[0, 2]).is_empty());
        replicas.apply(0, 0, &change(Some("a"), 9, Some("later")));
        replicas.apply(0, 1, &change(None, 8, None));
        assert_eq!(values(&mut replicas, &[0, 1, 2]), ["later"]);
        replicas.apply(0, 1, &change(None, 9, None));
        assert!(values(&mut replicas, &[0, 1]).is_empty());
    }

    #[test]
    fn a_power_cut_costs_the_latest_changes() {
        let mut replicas = Replicas::default();
        let rows = [(0, "a"), (UNSYNCED, "b"), (UNSYNCED + 2, "c")];
        for (stamp, (at, key)) in rows.into_iter().enumerate() {
            replicas.apply(at, 0, &change(Some(key), stamp as i64, Some(key)));
        }
        replicas.cut_power(UNSYNCED + 2, |unsynced| unsynced.min(1));
        assert_eq!(values(&mut replicas, &[0]), ["a", "b"]);
        replicas.cut_power(UNSYNCED + 2, |_| 0);
        assert_eq!(values(&mut replicas, &[0]), ["a", "b"]);
    }

    #[test]
    fn a_repaired_replica_has_what_the_reader_saw() {
        let mut replicas = Replicas::default();
        replicas.apply(0, 0, &change(Some("a"), 5, Some("new")));
        assert_eq!(replicas.read(&[0, 1], "t", b"p", 0, true).len(), 1);
        assert_eq!(values(&mut replicas, &[1, 2]), ["new"]);
    }
}
