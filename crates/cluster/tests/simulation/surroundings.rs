//! Surroundings of one port: its clock, its requests to the replicas and to other ports, its spare disks.

use crate::plan::Canary;
use crate::replicas::{Cell, Change, Place};
use crate::world::{Killed, World};
use seiner_cluster::{
    Level, PeerError, Peers, PortRows, Range, Row, Rows, RowsError, SpareDisks, Swap, TableSpec,
};
use seiner_platform::sim::SimDisk;
use seiner_platform::{Clock, Disk};
use seiner_store::Query;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Wall time of the simulation's begin, ns.
pub const START: i64 = 1_700_000_000_000_000_000;

/// Life of a port's process, from its start to its crash.
pub struct Process {
    pub port: usize,
    pub world: Weak<World>,
    is_killed: AtomicBool,
    /// Timestamp of the last write, ns.
    last_stamp: AtomicI64,
}

impl Process {
    pub fn new(port: usize, world: Weak<World>) -> Arc<Process> {
        Arc::new(Process {
            port,
            world,
            is_killed: AtomicBool::new(false),
            last_stamp: AtomicI64::new(0),
        })
    }

    /// Makes all requests fail from now on.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
    }

    fn world(&self) -> Arc<World> {
        self.world.upgrade().expect("the world outlives its ports")
    }

    fn check(&self) -> Result<(), RowsError> {
        match self.is_killed.load(Ordering::SeqCst) {
            true => Err(RowsError::Rejected("the port was killed".to_string())),
            false => Ok(()),
        }
    }

    /// Returns the timestamp of a write: the wall time of the port, or one more than the last one.
    fn stamp(&self) -> i64 {
        let now = self.now() / 1000 * 1000;
        let last = self.last_stamp.load(Ordering::SeqCst);
        let stamp = now.max(last + 1000);
        self.last_stamp.store(stamp, Ordering::SeqCst);
        stamp
    }

    /// Performs a request, with events before and after its effect.
    fn request<T>(&self, act: impl FnOnce(&World) -> Result<T, RowsError>) -> Result<T, RowsError> {
        let world = self.world();
        self.check()?;
        world.at_request(self.port);
        self.check()?;
        let found = act(&world);
        world.at_request(self.port);
        self.check()?;
        found
    }
}

impl Clock for Process {
    fn now(&self) -> i64 {
        let world = self.world();
        START + world.time() as i64 + world.plan.skews[self.port]
    }

    fn monotonic(&self) -> u64 {
        self.world().local_time(self.port)
    }

    fn sleep(&self, duration: Duration) {
        if self.check().is_ok() {
            self.world().sleep(self.port, duration.as_nanos() as u64);
        }
        // Some loops end with their process only.
        if self.check().is_err() {
            std::panic::resume_unwind(Box::new(Killed));
        }
    }
}

impl Rows for Process {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        self.request(|world| {
            let mut network = world.network();
            if !network.reaches_majority(self.port) {
                return Err(RowsError::Unavailable("creation of tables".to_string()));
            }
            network
                .tables
                .extend(tables.iter().map(|table| table.name.clone()));
            Ok(())
        })
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        self.request(|world| Ok(world.network().tables.iter().cloned().collect()))
    }

    fn write(&self, mut rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
        let stamp = self.stamp();
        let world = self.world();
        if world.canary == Some(Canary::LateNumbers) {
            rows.iter_mut().for_each(lower_mark);
        }
        let changes = rows.into_iter().map(|row| Change {
            place: Place {
                table: row.table,
                partition: row.partition,
                key: Some(row.key),
            },
            cell: Cell {
                stamp,
                is_removed: false,
                value: row.value.into(),
                expires: row.life.map_or(i64::MAX, |life| {
                    (world.network().now as i64).saturating_add(life.as_nanos() as i64)
                }),
            },
        });
        let changes: Vec<Change> = changes.collect();
        let is_journal = changes
            .iter()
            .any(|change| *change.place.table == *"journal");
        if !is_journal {
            return self.request(|world| world.network().write(self.port, &changes, level));
        }
        world.syncing(self.port, true);
        let done = self.request(|world| world.network().write(self.port, &changes, level));
        world.syncing(self.port, false);
        done
    }

    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        let found =
            self.request(|world| world.network().read(self.port, table, partition, level))?;
        Ok(found
            .into_iter()
            .find(|(other, _)| other == key)
            .map(|(_, value)| value))
    }

    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<(Vec<u8>, Vec<u8>)>, RowsError> {
        let found = self.request(|world| {
            let is_early = world.canary == Some(Canary::EarlyDirectories)
                && range.table.starts_with("directories");
            match is_early.then(|| world.early(self.port)).flatten() {
                Some(mut early) => {
                    Ok(early.read(&[0, 1, 2], range.table, range.partition, 0, false))
                }
                None => world
                    .network()
                    .read(self.port, range.table, range.partition, level),
            }
        })?;
        let wanted = found.into_iter().filter(|(key, _)| {
            key.as_slice() >= range.from && range.to.is_none_or(|to| key.as_slice() < to)
        });
        Ok(wanted.take(range.limit).collect())
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        let change = Change {
            place: Place {
                table: table.into(),
                partition: partition.to_vec(),
                key: key.map(<[u8]>::to_vec),
            },
            cell: Cell {
                stamp: self.stamp(),
                is_removed: true,
                value: [].into(),
                expires: i64::MAX,
            },
        };
        self.request(|world| world.network().write(self.port, &[change], level))
    }

    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        let place = Place {
            table: table.into(),
            partition: partition.to_vec(),
            key: Some(key.to_vec()),
        };
        self.request(|world| world.network().swap(self.port, &place, expected, value))
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        self.request(|world| world.network().partitions(self.port, table))
    }
}

/// Lowers the number of a handover in the mark of a delete.
fn lower_mark(row: &mut Row) {
    if *row.table == *"deletes"
        && let Some((journal, handover)) = row.value.split_first_chunk::<8>()
        && let Ok(handover) = <[u8; 8]>::try_from(handover)
    {
        let lower = u64::from_be_bytes(handover) - 1;
        row.value = [&journal[..], &lower.to_be_bytes()].concat();
    }
}

/// Connections of a port to other ports.
pub struct Links(pub Arc<Process>);

fn silent(port: &str, why: impl ToString) -> PeerError {
    PeerError {
        port: port.to_string(),
        why: why.to_string(),
    }
}

impl Peers for Links {
    fn unflushed(&self, port: &str, query: &Query) -> Result<PortRows, PeerError> {
        let world = self.0.world();
        world.at_request(self.0.port);
        let store = world
            .peer(self.0.port, port, false)
            .ok_or_else(|| silent(port, "no connection"))?;
        let found = store.unflushed(query).map_err(|error| silent(port, error));
        drop(store);
        world.at_request(self.0.port);
        match world.loses_answer() {
            true => Err(silent(port, "the answer was lost")),
            false => found,
        }
    }

    fn apply_deletes(&self, port: &str) -> Result<(), PeerError> {
        let world = self.0.world();
        world.at_request(self.0.port);
        let store = world
            .peer(self.0.port, port, true)
            .ok_or_else(|| silent(port, "no connection"))?;
        let found = world.while_deleting(port, || store.apply_deletes());
        let found = found
            .ok_or_else(|| silent(port, "it was killed"))?
            .map_err(|error| silent(port, error));
        drop(store);
        world.at_request(self.0.port);
        match world.loses_answer() {
            true => Err(silent(port, "the answer was lost")),
            false => found,
        }
    }
}

/// Spare disks of a port.
#[derive(Default)]
pub struct Spare(Mutex<BTreeMap<String, SimDisk>>);

impl SpareDisks for Spare {
    fn create(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let disk = SimDisk::new(9);
        self.0
            .lock()
            .unwrap()
            .insert(name.to_string(), disk.clone());
        Ok(Arc::new(disk))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }
}
