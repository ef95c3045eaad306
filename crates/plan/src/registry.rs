//! Memory of the names and figures of sensors, by the engine's rules.

use crate::calibration::Calibration;
use crate::demand::Demand;

/// Share of the store's memory that the registry may take: names, look-up and figures of all sensors. The store rejects
/// new sensors beyond it.
const SHARE: f64 = 17.0 / 32.0;
/// Share of the registry that names and tags may take before they move to names files.
const NAMES_SHARE: f64 = 0.2;
/// Share of the registry above which silent sensors leave memory completely.
const SILENT_LEAVE: f64 = 0.75;
/// Bytes of a sensor with its name and tags in names files: the hash of the name, layout, lists, and its part of the files'
/// pages in memory.
const FILED: f64 = 26.5;
/// Bytes of figures of a sensor as soon as the log contains blocks of it: counters, last time and rate.
const LOGGED: f64 = 12.0;
/// Bytes that the store reserves for a row of each sensor in names files.
const ROW_OF_FILED: f64 = 16.0;
/// Bytes of a dormant sensor, with a reserve for those that are about to become dormant.
const DORMANT: f64 = 30.0;
/// Minimum interval in seconds at which sensors are silent for long enough to become dormant between two rows.
const SILENT_S: f64 = 1200.0;
/// Processor time in seconds in which the name of a dormant sensor is read, with its page in the page cache (benchmark
/// `crowd`, cell `silent`, and docs/capacity.md).
const RECALL_S: f64 = 7e-6;

/// Place of the names of sensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// All names are in memory.
    InMemory,
    /// Names are in files, and hashes of them in memory.
    InFiles,
    /// Names are in files, and nothing of them is in memory between two rows.
    Dormant,
}

/// Memory of the names and figures of all sensors.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// Place of the names.
    pub names: Names,
    /// Bytes of memory of a sensor.
    pub each: f64,
    /// Bytes that the store counts when it compares all sensors with its limit.
    pub claimed: f64,
    /// Maximum of these bytes.
    pub limit: f64,
}

impl Registry {
    /// Computes the registry of a store with so much memory.
    pub fn of(demand: &Demand, calibration: &Calibration, memory: f64) -> Registry {
        let limit = memory * SHARE;
        let with = |names, each, claimed_each: f64| Registry {
            names,
            each,
            claimed: demand.sensors * claimed_each,
            limit,
        };
        let tags = demand.sensors * (calibration.source_bytes - FILED).max(0.0);
        let known = match tags <= limit * NAMES_SHARE {
            true => {
                let each = calibration.source_bytes + LOGGED;
                with(Names::InMemory, each, each)
            }
            false => {
                let each = calibration.source_bytes.min(FILED) + LOGGED;
                with(Names::InFiles, each, each + ROW_OF_FILED)
            }
        };
        match known.claimed > limit * SILENT_LEAVE && demand.every_s >= SILENT_S {
            true => with(Names::Dormant, DORMANT, DORMANT),
            false => known,
        }
    }

    /// Returns whether the store accepts all sensors.
    pub fn fits(&self) -> bool {
        self.claimed <= self.limit
    }

    /// Returns the processor time per second in which names of dormant sensors are read, in seconds.
    pub fn recall_s(&self, demand: &Demand) -> f64 {
        match self.names {
            Names::Dormant => demand.rows_per_s() * RECALL_S,
            Names::InMemory | Names::InFiles => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Subject, load, open};
    use seiner_engine::{Durability, Options};
    use seiner_platform::sim::SimDisk;

    /// Bytes of a source in the lists of buffers.
    const PLACES: f64 = 4.5;

    /// Sensors with a tag value of their own, in a store that has no space for their names.
    #[test]
    fn the_memory_of_filed_sensors_matches_the_engine() {
        const SENSORS: u64 = 65_536;
        let options = Options {
            memory: 16 << 20,
            durability: Durability::Interval(std::time::Duration::from_secs(60)),
            ..Options::default()
        };
        let demand = Demand {
            sensors: SENSORS as f64,
            ..Demand::of_tests()
        };
        let engine = open(&SimDisk::new(1), options).unwrap();
        load(&engine, &Subject::uninterrupted(&demand), SENSORS).unwrap();
        engine.commit().unwrap();
        let before = engine.status();
        assert_eq!(before.sources_filed, 0);
        while engine.step().unwrap() {}
        let status = engine.status();
        assert_eq!(status.sources_filed, SENSORS);
        let each = |bytes: u64| bytes as f64 / SENSORS as f64 + PLACES;
        let (named, filed) = (each(before.dictionary_bytes), each(status.dictionary_bytes));
        assert!(named > 2.0 * filed, "{named} and {filed} bytes");
        assert!((0.85..1.15).contains(&(FILED / filed)), "{filed} bytes");
    }

    #[test]
    fn names_leave_memory_when_they_need_too_much_of_it() {
        let calibration = Calibration::of_tests();
        let place = |sensors: f64, every_s: f64| {
            let demand = Demand {
                sensors,
                every_s,
                ..Demand::of_tests()
            };
            let registry = Registry::of(&demand, &calibration, 256.0 * 1024.0 * 1024.0);
            (registry.names, registry.fits())
        };
        // Each has a tag value of its own: 100 bytes.
        assert_eq!(place(1e5, 10.0), (Names::InMemory, true));
        assert_eq!(place(2e6, 10.0), (Names::InFiles, true));
        assert_eq!(place(1.9e6, 3600.0), (Names::InFiles, true));
        assert_eq!(place(4e6, 10.0), (Names::InFiles, false));
        assert_eq!(place(4e6, 3600.0), (Names::Dormant, true));
        assert_eq!(place(6e6, 3600.0), (Names::Dormant, false));
    }
}
