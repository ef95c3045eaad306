//! Blocks of the cluster: bundles in the distributed store, written once under unique keys.
//!
//! A bundle consists of a directory and of parts of its data, each a row. A reader of one source reads the directories
//! of the source's shelf, and then only the parts that contain chunks of the source. `docs/format/cluster.md` describes
//! the rows.

mod cache;
mod check;
mod reader;
mod writer;

pub(crate) use cache::DirectoryCache;
pub(crate) use check::check_table;
pub(crate) use reader::{BlockDamage, Blocks, periods_of};
pub(crate) use writer::{Directories, Place, Stamped, put, remove_earlier};

use crate::classes::ClusterClass;
use crate::keys::{KeyBuilder, KeyReader};
use crate::rows::{Level, TableSpec};
use std::time::Duration;

/// Kind of a partition in a table of directories: the periods of a shelf.
const PERIODS: u16 = 0;
/// Kind of a partition in a table of directories: the directories of a shelf and period.
const DIRECTORIES: u16 = 1;

/// Unique number of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BundleId {
    /// Port that wrote the bundle.
    pub port: String,
    /// Number of the handover, ascending for the port.
    pub handover: u64,
    /// Number of the bundle within the handover.
    pub nth: u32,
}

impl BundleId {
    fn key(&self) -> Vec<u8> {
        KeyBuilder::new()
            .text(&self.port)
            .u64(self.handover)
            .u32(self.nth)
            .done()
    }

    fn parse(key: &[u8]) -> Option<BundleId> {
        let mut reader = KeyReader(key);
        Some(BundleId {
            port: reader.text()?.to_string(),
            handover: reader.u64()?,
            nth: reader.u32()?,
        })
    }
}

/// Partition of samples: a shelf and a period of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    /// Number of the grid.
    pub grid: u16,
    /// Shelf of the sources.
    pub shelf: u32,
    /// Period of the times.
    pub period: i64,
}

impl Cell {
    /// Returns the partition with the periods of the shelf.
    fn periods(&self) -> Vec<u8> {
        periods(self.grid, self.shelf)
    }

    /// Returns the partition with the directories.
    fn directories(&self) -> Vec<u8> {
        KeyBuilder::new()
            .u16(DIRECTORIES)
            .u16(self.grid)
            .u32(self.shelf)
            .i64(self.period)
            .done()
    }

    /// Returns the partition with the data of a bundle.
    fn data(&self, bundle: &BundleId) -> Vec<u8> {
        let mut partition = self.directories();
        partition.extend(bundle.key());
        partition
    }
}

fn periods(grid: u16, shelf: u32) -> Vec<u8> {
    KeyBuilder::new().u16(PERIODS).u16(grid).u32(shelf).done()
}

/// Tables of a retention class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassTables {
    /// Directories of bundles.
    pub directories: String,
    /// Data of bundles.
    pub data: String,
    /// Replicas that must answer a read of the class.
    pub read: Level,
}

impl ClassTables {
    /// Returns the tables of a class. Late bundles have tables of their own: their rows expire sooner than others
    /// that were written at the same time, and would keep files from dying whole.
    pub fn of(class: &ClusterClass, is_late: bool) -> ClassTables {
        let late = if is_late { "_late" } else { "" };
        let name = &class.name;
        // A class with its own number of copies has a space of its own.
        let space = match class.copies {
            Some(_) => format!("{name}."),
            None => String::new(),
        };
        ClassTables {
            directories: format!("{space}directories_{name}{late}"),
            data: format!("{space}blocks_{name}{late}"),
            read: class.read,
        }
    }

    /// Returns the tables of a class, and those of its late bundles.
    pub fn both(class: &ClusterClass) -> [ClassTables; 2] {
        [false, true].map(|is_late| ClassTables::of(class, is_late))
    }

    /// Returns the specifications of the tables of a class.
    pub fn specs(class: &ClusterClass) -> Vec<TableSpec> {
        let window = class
            .age
            .map_or(WINDOW, |age| (age / 25).max(SHORTEST_WINDOW));
        let names = ClassTables::both(class)
            .into_iter()
            .flat_map(|tables| [tables.directories, tables.data]);
        names
            .map(|name| TableSpec {
                name,
                copies: class.copies,
                life: None,
                // Rows have lives of their own. About 25 windows a life keep few files open.
                window: Some(window),
                is_compressed: false,
            })
            .collect()
    }
}

/// Window of a class without an age.
const WINDOW: Duration = Duration::from_secs(30 * 86_400);
/// Shortest window.
const SHORTEST_WINDOW: Duration = Duration::from_secs(60);
