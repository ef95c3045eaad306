//! What a user demands, and what there is to do it with.

use crate::words::bytes;
use serde::{Deserialize, Serialize};

/// Of the room that there is, the store is given this share if nobody says how much.
const BUDGET_SHARE: f64 = 0.95;

/// What values are like: it decides how well they compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Gauges with one decimal that change a little: temperatures, loads.
    Decimals,
    /// Counters: whole numbers that rise.
    Counters,
    /// Floats with all their digits, such as computed ones.
    Floats,
}

/// How regular times are: it decides what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clockwork {
    /// Exactly the interval.
    Regular,
    /// Some milliseconds early or late.
    Jittered,
}

/// A disk for the store, in figures; what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// What the user calls it.
    pub name: String,
    /// Free bytes.
    pub free_bytes: f64,
    /// What a long sequential write keeps up, bytes/s.
    pub sustained: Option<f64>,
    /// What a small synced write takes, s.
    pub sync_s: Option<f64>,
    /// When that was measured.
    pub measured: Option<String>,
    /// What is wrong with it: alignment and the like.
    pub warnings: Vec<String>,
}

/// An array: `level:members:strip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raid {
    /// 0, 1, 5 or 6.
    pub level: u8,
    /// Disks.
    pub members: u64,
    /// Bytes of a strip, what one member takes of a stripe.
    pub strip: u64,
}

impl Raid {
    /// Members that hold data, of each stripe.
    pub fn data_members(self) -> u64 {
        match self.level {
            1 => 1,
            5 => self.members - 1,
            6 => self.members - 2,
            _ => self.members,
        }
    }

    /// Members that hold syndromes (copies, in level 1), of each stripe.
    pub fn syndromes(self) -> u64 {
        self.members - self.data_members()
    }

    /// Data of a stripe, bytes.
    pub fn stripe(self) -> u64 {
        self.data_members() * self.strip
    }

    /// Whether there can be such an array; if not, why.
    ///
    /// # Errors
    /// The reason, for people.
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
                "level {} needs {least} members at the least",
                self.level
            ));
        }
        if self.strip < 4096 || !self.strip.is_multiple_of(4096) {
            return Err("a strip must be a multiple of 4 KiB".to_string());
        }
        Ok(())
    }
}

/// Sensors that are kept alike: a retention class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The name of the class.
    pub name: String,
    /// Which sources are in it, as in `[[class]]`; empty: all that no other class has.
    pub sources: String,
    /// Its share of the sensors, 0 to 1.
    pub share: f64,
    /// Y: how long samples are kept, s.
    pub keep_s: f64,
}

impl Lifetime {
    /// One lifetime for all.
    pub fn of_all(keep_s: f64) -> Vec<Lifetime> {
        vec![Lifetime {
            name: "default".to_string(),
            sources: String::new(),
            share: 1.0,
            keep_s,
        }]
    }
}

/// What is to be kept, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// S.
    pub sensors: f64,
    /// Seconds between two samples of a sensor.
    pub every_s: f64,
    /// Values of a sensor at a time.
    pub fields: u64,
    /// How long samples are kept, by class; one at least.
    pub lifetimes: Vec<Lifetime>,
    /// What values are like.
    pub values: Values,
    /// How regular times are.
    pub clockwork: Clockwork,
    /// Memory of the machine, bytes.
    pub ram: f64,
    /// Processors of the machine.
    pub processors: f64,
    /// Whether a power cut may lose nothing that was acknowledged.
    pub is_synced: bool,
    /// The disks.
    pub disks: Vec<Disk>,
    /// C: what the store may take of them, bytes; none: nearly all that is free.
    pub budget: Option<f64>,
    /// Bytes that may be written to a disk in its life.
    pub tbw: Option<f64>,
    /// The array that the disks are, or that one stands for.
    pub raid: Option<Raid>,
}

impl Demand {
    /// Rows a second of all sensors.
    pub fn rows_per_s(&self) -> f64 {
        self.sensors / self.every_s
    }

    /// Samples a second.
    pub fn samples_per_s(&self) -> f64 {
        self.rows_per_s() * self.fields as f64
    }

    /// The mean lifetime over all sensors, s: rows a second times this is what is kept.
    pub fn mean_keep_s(&self) -> f64 {
        let parts = self.lifetimes.iter().map(|life| life.share * life.keep_s);
        parts.sum()
    }

    /// The same with all lifetimes longer or shorter.
    pub fn with_keep(&self, factor: f64) -> Demand {
        let mut other = self.clone();
        for life in &mut other.lifetimes {
            life.keep_s *= factor;
        }
        other
    }

    /// C: what the store may take, bytes.
    pub fn budget(&self) -> f64 {
        self.budget.unwrap_or(self.room() * BUDGET_SHARE)
    }

    /// Room for data on all disks, less what parity takes, bytes.
    pub fn room(&self) -> f64 {
        let free: f64 = self.disks.iter().map(|disk| disk.free_bytes).sum();
        match self.raid {
            // A single disk that is an array already shows what is left.
            Some(raid) if self.disks.len() as u64 == raid.members => {
                free * raid.data_members() as f64 / raid.members as f64
            }
            _ => free,
        }
    }

    /// What all disks together sustain, bytes/s of data; none if one was not measured.
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

    /// Whether such a demand makes sense; if not, why.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("--sensors", self.sensors),
            ("--every", self.every_s),
            ("--fields", self.fields as f64),
            ("--ram", self.ram),
            ("--processors", self.processors),
        ];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(format!("{name} must be more than 0"));
            }
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
        if self.budget.is_some_and(|budget| budget > self.room()) {
            return Err(format!(
                "--budget is more than the disks have room for, {}",
                bytes(self.room())
            ));
        }
        if self.fields > 1024 {
            return Err("--fields: a source has 1024 fields at the most".to_string());
        }
        if self.sensors > 4e9 {
            return Err(
                "--sensors: a store numbers 4 thousand million sources; plan several stores"
                    .to_string(),
            );
        }
        self.raid.map_or(Ok(()), Raid::check)
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
