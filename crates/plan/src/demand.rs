//! What a user demands, and what there is to do it with.

use serde::{Deserialize, Serialize};

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

/// What is to be kept, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// S.
    pub sensors: f64,
    /// Seconds between two samples of a sensor.
    pub every_s: f64,
    /// Values of a sensor at a time.
    pub fields: u64,
    /// Y: how long samples are kept, s.
    pub keep_s: f64,
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

    /// C: room for data on all disks, less what parity takes, bytes.
    pub fn capacity(&self) -> f64 {
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
            ("--keep", self.keep_s),
            ("--ram", self.ram),
            ("--processors", self.processors),
        ];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(format!("{name} must be more than 0"));
            }
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
