//! Stores under test: the general model of the papers (Z buffers of B bytes, F files, M writers)
//! with the numbers of each store, and this project's engine.

mod akumuli;
mod files;
mod in_place;
mod log;
mod paths;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(any(feature = "references", feature = "rocksdb"))]
mod rows;
#[cfg(feature = "references")]
mod sqlite;
mod yawndb;

use super::{StoreKind, Write};
use crate::error::Result;
use crate::interrupt::Interrupt;
use akumuli::Volume;
pub use files::Files;
use in_place::InPlace;
use log::Log;
use std::path::PathBuf;
use yawndb::Recovery;

/// Bytes of a portion, B, in stores with a fixed portion.
pub const FIXED_PORTION: u64 = 4096;
/// Number of files made between two checks for an interrupt.
const AT_ONCE: u64 = 256;

/// Samples that a store receives in one call.
pub struct Portion<'a> {
    /// First sensor.
    pub first: u64,
    /// Number of consecutive sensors.
    pub count: u64,
    /// Number of portions that these sensors received before.
    pub turn: u64,
    /// Pool of incompressible bytes.
    pub contents: &'a [u8],
    /// Start of this portion in `contents`.
    pub content: usize,
}

/// A store under test.
pub trait Store: Sync {
    /// Writes a portion. Returns the bytes of accepted samples.
    ///
    /// # Errors
    /// The store fails.
    fn put(&self, portion: &Portion<'_>) -> Result<u64>;

    /// Number of sensors per call.
    fn stride(&self) -> u64 {
        1
    }

    /// Bytes of a lap: the samples after which every sensor has filled a buffer once.
    fn lap_bytes(&self) -> u64;
}

/// Makes a store for the given number of sensors.
///
/// # Errors
/// The store cannot be made, or the user stopped the run.
pub fn make(
    kind: StoreKind,
    settings: &Write,
    sensors: u64,
    portion: u64,
    directories: &[PathBuf],
    interrupt: &Interrupt,
) -> Result<Box<dyn Store>> {
    Ok(match kind {
        StoreKind::Files => Box::new(Files::make(
            settings,
            sensors,
            portion,
            directories,
            interrupt,
        )?),
        StoreKind::InPlace => Box::new(InPlace::make(settings, sensors, directories, interrupt)?),
        StoreKind::Akumuli => Box::new(Volume::make(settings, sensors, directories)?),
        StoreKind::Yawndb => Box::new(Recovery::make(settings, sensors, directories)?),
        StoreKind::Log | StoreKind::LogOnly => {
            Box::new(Log::make(kind, settings, sensors, directories, interrupt)?)
        }
        #[cfg(feature = "references")]
        StoreKind::Sqlite => Box::new(sqlite::Sqlite::make(settings, sensors, directories)?),
        #[cfg(feature = "rocksdb")]
        StoreKind::Rocksdb => Box::new(rocks::Rocks::make(settings, sensors, directories)?),
        #[allow(
            unreachable_patterns,
            reason = "programs with all references have none left out"
        )]
        StoreKind::Sqlite | StoreKind::Rocksdb => unreachable!("the plan leaves this store out"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    #[test]
    fn every_store_accepts_all_portions() {
        let outside = [StoreKind::Sqlite, StoreKind::Rocksdb];
        let built = outside.iter().filter(|kind| kind.obstacle().is_none());
        for kind in StoreKind::ALL.iter().chain(built).copied() {
            let home = tempfile::tempdir().unwrap();
            let settings = Write {
                space_bytes: 1 << 20,
                ..Write::new(home.path().to_owned(), Profile::Toy)
            };
            let directories = [home.path().to_owned()];
            let store = make(
                kind,
                &settings,
                3,
                4096,
                &directories,
                &Interrupt::default(),
            )
            .unwrap();
            assert!(store.lap_bytes() > 0, "{kind:?}");
            let contents = vec![9; 8192];
            for turn in 0..400 {
                let portion = Portion {
                    first: 1,
                    count: store.stride().min(2),
                    turn,
                    contents: &contents,
                    content: 4096,
                };
                assert!(store.put(&portion).unwrap() > 0, "{kind:?}");
            }
        }
    }
}
