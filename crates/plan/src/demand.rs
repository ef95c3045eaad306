//! Demand of a user, with the machine and the disks.

use crate::recording::Recording;
use crate::words::{bytes, count};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Share of the free space that the store may use by default.
const BUDGET_SHARE: f64 = 0.95;

/// Minimum memory of a machine in bytes.
const LEAST_RAM: f64 = 64.0 * 1024.0 * 1024.0;

/// Kind of values, which determines how well they compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Gauges with one decimal and small changes, such as temperatures and loads.
    Decimals,
    /// Counters: rising whole numbers.
    Counters,
    /// Floats with full mantissas, such as computed values.
    Floats,
}

/// Regularity of times, which determines their cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clockwork {
    /// Exact intervals.
    Regular,
    /// Random delays of some milliseconds.
    Jittered,
}

/// Figures of a disk for the store. Unknown figures are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Name that the user gave.
    pub name: String,
    /// Free bytes.
    pub free_bytes: f64,
    /// Rate of a long sequential write, in bytes per second.
    pub sustained: Option<f64>,
    /// Time of a small synced write, in seconds.
    pub sync_s: Option<f64>,
    /// Time of these measurements.
    pub measured: Option<String>,
    /// Problems of the disk, such as misalignment.
    pub warnings: Vec<String>,
}

/// An array: `level:members:strip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raid {
    /// RAID level: 0, 1, 5 or 6.
    pub level: u8,
    /// Number of disks.
    pub members: u64,
    /// Bytes of a strip, the part of a stripe on one member.
    pub strip: u64,
}

impl Raid {
    /// Returns the number of members that hold data, in each stripe.
    pub fn data_members(self) -> u64 {
        match self.level {
            1 => 1,
            5 => self.members - 1,
            6 => self.members - 2,
            _ => self.members,
        }
    }

    /// Returns the number of members that hold syndromes (copies in level 1), in each stripe.
    pub fn syndromes(self) -> u64 {
        self.members - self.data_members()
    }

    /// Returns the data bytes of a stripe.
    pub fn stripe(self) -> u64 {
        self.data_members() * self.strip
    }

    /// Checks that the array is possible.
    ///
    /// # Errors
    /// A text with the reason.
    pub fn check(self) -> Result<(), String> {
        let least = match self.level {
            0 => 2,
            1 => 2,
            5 => 3,
            6 => 4,
            other => return Err(format!("level {other} is none of 0, 1, 5 and 6")),
        };
        if self.members < least {
            return Err(format!(
                "level {} needs at least {least} members",
                self.level
            ));
        }
        if self.strip < 4096 || !self.strip.is_multiple_of(4096) {
            return Err("a strip must be a multiple of 4 KiB".to_string());
        }
        Ok(())
    }
}

/// A retention class: sensors with the same retention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Name of the class.
    pub name: String,
    /// Selector of its sources, as in `[[class]]`. An empty selector matches all sources that are in no other class.
    pub sources: String,
    /// Share of the sensors, 0 to 1.
    pub share: f64,
    /// Time for which samples are kept, Y, in seconds.
    pub keep_s: f64,
}

impl Lifetime {
    /// Returns one class for all sensors.
    pub fn of_all(keep_s: f64) -> Vec<Lifetime> {
        vec![Lifetime {
            name: "default".to_string(),
            sources: String::new(),
            share: 1.0,
            keep_s,
        }]
    }
}

/// A demand: sensors, retention, and the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// Number of sensors, S.
    pub sensors: f64,
    /// Seconds between two samples of a sensor.
    pub every_s: f64,
    /// Number of values of a sensor at each time.
    pub fields: u64,
    /// Number of sensors of a host. The sensors of a host share the values of its tags, which take
    /// less memory than values of their own.
    pub per_host: u64,
    /// Retention classes, at least one.
    pub lifetimes: Vec<Lifetime>,
    /// Kind of values.
    pub values: Values,
    /// Regularity of times.
    pub clockwork: Clockwork,
    /// Samples of the user, in place of generated ones.
    #[serde(skip)]
    pub recording: Option<Arc<Recording>>,
    /// Memory of the machine in bytes.
    pub ram: f64,
    /// Number of processors of the machine.
    pub processors: f64,
    /// True if every acknowledged sample must survive a power cut.
    pub is_synced: bool,
    /// Disks of the store.
    pub disks: Vec<Disk>,
    /// Disk budget in bytes, C; by default most of the free space.
    pub budget: Option<f64>,
    /// Bytes that may be written to a disk in its life.
    pub tbw: Option<f64>,
    /// Array that the disks form, or array behind a single disk.
    pub raid: Option<Raid>,
}

impl Demand {
    /// Returns the time in seconds after which a silent source is sealed. A source that sends at least once in three
    /// intervals is not silent.
    pub fn idle_seal_s(&self) -> f64 {
        ((self.every_s * 3.0).max(600.0) / 60.0).ceil() * 60.0
    }

    /// Sets the samples and the number of fields to those of a recording.
    pub fn record(&mut self, recording: Arc<Recording>) {
        self.fields = recording.samples_per_row().round().max(1.0) as u64;
        self.recording = Some(recording);
    }

    /// Returns the rows per second of all sensors.
    pub fn rows_per_s(&self) -> f64 {
        self.sensors / self.every_s
    }

    /// Returns the samples per second.
    pub fn samples_per_s(&self) -> f64 {
        self.rows_per_s() * self.samples_per_row()
    }

    /// Returns the samples of a row. Recorded rows may lack some of their fields.
    pub fn samples_per_row(&self) -> f64 {
        match &self.recording {
            Some(recording) => recording.samples_per_row(),
            None => self.fields as f64,
        }
    }

    /// Describes the samples.
    pub fn samples_in_words(&self) -> String {
        if let Some(recording) = &self.recording {
            return format!(
                "as in {}: {} rows of {} sources read",
                recording.name,
                count(recording.rows as f64),
                count(recording.sources.len() as f64)
            );
        }
        let values = match self.values {
            Values::Decimals => "decimals that change a little",
            Values::Counters => "rising whole numbers",
            Values::Floats => "floats with all digits",
        };
        let clockwork = match self.clockwork {
            Clockwork::Regular => "at regular times",
            Clockwork::Jittered => "some milliseconds late at random",
        };
        format!("{values}, {clockwork}")
    }

    /// Returns the mean retention over all sensors in seconds. The number of rows kept is this mean times the
    /// rows per second.
    pub fn mean_keep_s(&self) -> f64 {
        let parts = self.lifetimes.iter().map(|life| life.share * life.keep_s);
        parts.sum()
    }

    /// Returns the demand with all retention times multiplied by `factor`.
    pub fn with_keep(&self, factor: f64) -> Demand {
        let mut other = self.clone();
        for life in &mut other.lifetimes {
            life.keep_s *= factor;
        }
        other
    }

    /// Returns the demand with generated samples in place of recorded ones.
    pub fn generated(&self) -> Demand {
        Demand {
            recording: None,
            ..self.clone()
        }
    }

    /// Returns the disk budget in bytes, C.
    pub fn budget(&self) -> f64 {
        self.budget.unwrap_or(self.space() * BUDGET_SHARE)
    }

    /// Returns the space for data on all disks without parity, in bytes.
    pub fn space(&self) -> f64 {
        let free: f64 = self.disks.iter().map(|disk| disk.free_bytes).sum();
        match self.raid {
            // A single disk that is an array already reports its usable space.
            Some(raid) if self.disks.len() as u64 == raid.members => {
                free * raid.data_members() as f64 / raid.members as f64
            }
            _ => free,
        }
    }

    /// Returns the sustained rate of all disks in bytes of data per second; `None` if a disk was not measured.
    pub fn sustained(&self) -> Option<f64> {
        let rates: Option<Vec<f64>> = self.disks.iter().map(|disk| disk.sustained).collect();
        let sum: f64 = rates.filter(|rates| !rates.is_empty())?.iter().sum();
        Some(match self.raid {
            Some(raid) if self.disks.len() as u64 == raid.members => {
                sum * raid.data_members() as f64 / raid.members as f64
            }
            _ => sum,
        })
    }

    /// Checks that the demand is consistent and within the limits of a store.
    ///
    /// # Errors
    /// A text with the reason.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("--sensors", self.sensors),
            ("--every", self.every_s),
            ("--fields", self.fields as f64),
            ("--per-host", self.per_host as f64),
            ("--ram", self.ram),
            ("--processors", self.processors),
        ];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(format!("{name} must be more than 0"));
            }
        }
        if self.ram < LEAST_RAM {
            return Err(format!(
                "--ram: a machine needs at least {}, half for the store and half for the page cache",
                bytes(LEAST_RAM)
            ));
        }
        if self
            .lifetimes
            .iter()
            .any(|life| !(life.keep_s >= 1.0 && life.keep_s.is_finite()))
        {
            return Err("--keep must be a second or more".to_string());
        }
        let shares: f64 = self.lifetimes.iter().map(|life| life.share).sum();
        if (shares - 1.0).abs() > 0.001 || self.lifetimes.iter().any(|life| life.share <= 0.0) {
            return Err(format!(
                "shares of the classes make {:.1} %, not 100 %",
                shares * 100.0
            ));
        }
        if self.budget.is_some_and(|budget| budget > self.space()) {
            return Err(format!(
                "--budget is more than the space on the disks, {}",
                bytes(self.space())
            ));
        }
        if self.fields > 1024 {
            return Err("--fields: a source has at most 1024 fields".to_string());
        }
        if self.sensors > 4e9 {
            return Err(
                "--sensors: a store has at most 4 thousand million sources; plan several stores"
                    .to_string(),
            );
        }
        self.raid.map_or(Ok(()), Raid::check)
    }
}

#[cfg(test)]
impl Demand {
    /// Returns a small demand: a thousand sensors with one field.
    pub fn of_tests() -> Demand {
        Demand {
            sensors: 1000.0,
            every_s: 10.0,
            fields: 1,
            per_host: 1,
            lifetimes: Lifetime::of_all(86_400.0),
            values: Values::Decimals,
            clockwork: Clockwork::Regular,
            recording: None,
            ram: 1e9,
            processors: 1.0,
            is_synced: false,
            disks: Vec::new(),
            budget: None,
            tbw: None,
            raid: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_of_the_papers_array() {
        let raid = Raid {
            level: 6,
            members: 6,
            strip: 16 << 10,
        };
        assert_eq!(raid.stripe(), 64 << 10);
        assert!(raid.check().is_ok());
        assert!(Raid { level: 4, ..raid }.check().is_err());
        assert!(Raid { members: 3, ..raid }.check().is_err());
        assert!(
            Raid {
                strip: 1000,
                ..raid
            }
            .check()
            .is_err()
        );
    }
}
