//! Retention classes of a cluster.
//!
//! The rules are stored in the distributed store. A class keeps samples for an age, or for ever. Rings and quotas need a
//! view of all samples of a class in the order of their acceptance, which no port has, so a cluster rejects them.

use crate::rows::{Level, Rows, RowsError, Swap};
use seiner_model::{Interval, Selector, SourceKey};
use seiner_store::{Class, Consistency, Copies};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Name of the table.
pub(crate) const TABLE: &str = "rules";
const PARTITION: &[u8] = b"rules";
const KEY: &[u8] = b"classes";

/// Class as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    name: String,
    sources: String,
    /// Age in ns.
    age_ns: Option<u64>,
    /// Number of copies, if the class has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replication: Option<u32>,
    /// Replicas that must answer; `quorum` is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consistency: Option<StoredConsistency>,
}

/// Replicas that must answer, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredConsistency {
    One,
    Quorum,
    All,
}

/// Class.
pub(crate) struct ClusterClass {
    /// Name, part of the names of tables.
    pub name: String,
    /// Selector of the sources; `None` for the class of all other sources.
    selector: Option<Selector>,
    /// Age up to which samples are kept.
    pub age: Option<Duration>,
    /// Number of copies, if it differs from that of the other tables. The class has a space of its own then.
    pub copies: Option<u32>,
    /// Replicas that must have a bundle.
    pub write: Level,
    /// Replicas that must answer a read.
    pub read: Level,
}

impl ClusterClass {
    /// Returns the selector of the sources as text; empty for the class of all other sources.
    pub fn selector_text(&self) -> String {
        let selector = self.selector.as_ref();
        selector.map_or_else(String::new, ToString::to_string)
    }

    /// Returns the copies as settings have them.
    pub fn copies(&self) -> Copies {
        let consistency = match self.write {
            Level::One => Consistency::One,
            Level::Quorum => Consistency::Quorum,
            Level::All => Consistency::All,
        };
        Copies {
            replication: self.copies,
            consistency,
        }
    }

    /// Returns whether a bundle of these times is late, and the remaining life of its rows. A bundle is late if its
    /// period ended long ago, so that its rows expire long before others that are written now.
    pub fn life(&self, times: Interval, now: i64) -> (bool, Option<Duration>) {
        let Some(age) = self.age else {
            return (false, None);
        };
        let behind = now.saturating_sub(times.end).max(0) as u64;
        let is_late = behind > age.as_nanos() as u64 / 25;
        let life = i128::from(times.end) + age.as_nanos() as i128 - i128::from(now);
        let seconds = (life / 1_000_000_000).clamp(0, i128::from(u32::MAX / 4));
        (is_late, Some(Duration::from_secs(seconds as u64)))
    }

    /// Returns the earliest time whose samples are kept, ns.
    pub fn kept_from(&self, now: i64) -> i64 {
        self.age.map_or(i64::MIN, |age| {
            now.saturating_sub(age.as_nanos().min(i64::MAX as u128) as i64)
        })
    }
}

/// Classes in the order of precedence. The last one has all sources without another class.
pub(crate) struct Classes(Vec<ClusterClass>);

impl Classes {
    /// Reads the stored classes. If there are none, the given classes are stored.
    ///
    /// # Errors
    /// If too few replicas answer. [`RowsError::Rejected`] if given classes are invalid or differ from the stored ones.
    pub fn open(rows: &dyn Rows, given: Option<&[Class]>) -> Result<Classes, RowsError> {
        let wanted = given.map(stored).transpose().map_err(RowsError::Rejected)?;
        let first = wanted.clone().unwrap_or_default();
        let value = serde_json::to_vec(&first).expect("classes consist of texts and numbers");
        let found = match rows.swap(TABLE, PARTITION, KEY, None, &value)? {
            Swap::Done => first,
            Swap::Found(None) => first,
            Swap::Found(Some(found)) => decode(&found)?,
        };
        if let Some(wanted) = wanted
            && wanted != found
        {
            let text = "the retention classes of this start differ from those that are stored in the keyspace; \
                        remove them from the settings, or use another keyspace";
            return Err(RowsError::Rejected(text.to_string()));
        }
        Classes::parse(found)
    }

    /// Reads the stored classes, if there are any.
    ///
    /// # Errors
    /// If too few replicas answer, or the stored classes cannot be read.
    pub fn read(rows: &dyn Rows) -> Result<Option<Classes>, RowsError> {
        let found = rows.read(TABLE, PARTITION, KEY, Level::Quorum)?;
        found
            .map(|found| Classes::parse(decode(&found)?))
            .transpose()
    }

    fn parse(found: Vec<Stored>) -> Result<Classes, RowsError> {
        let mut classes = Vec::new();
        for class in found {
            let selector = match class.sources.trim() {
                "" => None,
                text => Some(Selector::parse(text).map_err(|error| {
                    RowsError::Rejected(format!("class {}: {error}", class.name))
                })?),
            };
            let (write, read) = levels(class.consistency);
            classes.push(ClusterClass {
                name: class.name,
                selector,
                age: class.age_ns.map(Duration::from_nanos),
                copies: class.replication,
                write,
                read,
            });
        }
        if classes.last().is_none_or(|last| last.selector.is_some()) {
            classes.push(ClusterClass {
                name: seiner_store::DEFAULT.to_string(),
                selector: None,
                age: None,
                copies: None,
                write: Level::Quorum,
                read: Level::Quorum,
            });
        }
        Ok(Classes(classes))
    }

    /// Returns the number of the class of a source.
    pub fn class_of(&self, key: &SourceKey) -> usize {
        let holds = |class: &ClusterClass| {
            let selector = class.selector.as_ref();
            selector.is_none_or(|selector| selector.holds(key))
        };
        let found = self.0.iter().position(holds);
        found.expect("the last class has all sources")
    }

    /// Returns a class.
    pub fn at(&self, class: usize) -> &ClusterClass {
        &self.0[class]
    }

    /// Returns the earliest time whose samples are kept in some class, ns; [`i64::MIN`] if a class keeps samples for
    /// ever.
    pub fn kept_from(&self, now: i64) -> i64 {
        let earliest = self.0.iter().map(|class| class.kept_from(now)).min();
        earliest.expect("the last class has all sources")
    }

    /// Returns all classes.
    pub fn all(&self) -> &[ClusterClass] {
        &self.0
    }
}

/// Returns the levels of writes and reads of a class. After a write to all replicas, each of them has the bundle.
fn levels(of: Option<StoredConsistency>) -> (Level, Level) {
    match of {
        Some(StoredConsistency::One) => (Level::One, Level::One),
        None | Some(StoredConsistency::Quorum) => (Level::Quorum, Level::Quorum),
        Some(StoredConsistency::All) => (Level::All, Level::One),
    }
}

fn decode(found: &[u8]) -> Result<Vec<Stored>, RowsError> {
    serde_json::from_slice(found)
        .map_err(|error| RowsError::Rejected(format!("the stored classes: {error}")))
}

/// Returns whether the distributed store has classes.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn are_stored(rows: &dyn Rows) -> Result<bool, RowsError> {
    let found = rows.read(TABLE, PARTITION, KEY, Level::Quorum)?;
    Ok(found.is_some())
}

/// Returns the shortest age of the retention classes; `None` if there is none, or samples are kept for ever.
///
/// # Errors
/// If too few replicas answer, or the stored classes cannot be read.
pub fn shortest_age(rows: &dyn Rows) -> Result<Option<Duration>, RowsError> {
    let classes = Classes::read(rows)?;
    let ages = classes.iter().flat_map(Classes::all);
    Ok(ages.filter_map(|class| class.age).min())
}

/// Checks that a cluster can keep classes.
///
/// # Errors
/// A sentence with the remedy.
pub(crate) fn check(classes: &[Class]) -> Result<(), String> {
    stored(classes).map(drop)
}

/// Checks given classes, and returns them in the stored form.
fn stored(classes: &[Class]) -> Result<Vec<Stored>, String> {
    let mut found = Vec::new();
    for class in classes {
        let name = &class.name;
        let is_valid = !name.is_empty()
            && name.len() <= 24
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !is_valid {
            return Err(format!(
                "class {name:?}: in a cluster a class has at most 24 lower-case letters, digits and underscores"
            ));
        }
        if class
            .copies
            .replication
            .is_some_and(|factor| !(1..=100).contains(&factor))
        {
            return Err(format!(
                "class {name:?}: a class has 1 to 100 replicas; change replication"
            ));
        }
        if class.keep.rows.is_some() || class.keep.bytes.is_some() || !class.rollup.is_empty() {
            return Err(format!(
                "class {name:?}: a cluster keeps samples by age only; remove rows, bytes and roll-up levels"
            ));
        }
        found.push(Stored {
            name: name.clone(),
            sources: class.sources.clone(),
            age_ns: class.keep.age.map(|age| age.as_nanos() as u64),
            replication: class.copies.replication,
            consistency: match class.copies.consistency {
                Consistency::One => Some(StoredConsistency::One),
                Consistency::Quorum => None,
                Consistency::All => Some(StoredConsistency::All),
            },
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryRows;
    use crate::rows::TableSpec;
    use seiner_store::Keep;

    fn rows() -> MemoryRows {
        let rows = MemoryRows::new();
        let table = TableSpec::lasting(TABLE);
        rows.create(&[table]).unwrap();
        rows
    }

    fn class(name: &str, sources: &str, age: Option<u64>) -> Class {
        Class {
            name: name.to_string(),
            sources: sources.to_string(),
            keep: Keep {
                age: age.map(Duration::from_secs),
                ..Keep::default()
            },
            ..Class::forever()
        }
    }

    #[test]
    fn the_first_start_stores_the_classes_and_later_ones_must_agree() {
        let rows = rows();
        let given = [class("raw", "cpu", Some(100))];
        let first = Classes::open(&rows, Some(&given)).unwrap();
        let key = |name: &str| SourceKey::new(name, [("a", "b")]).unwrap();
        assert_eq!(
            (first.class_of(&key("cpu")), first.class_of(&key("mem"))),
            (0, 1)
        );
        let again = Classes::open(&rows, None).unwrap();
        assert_eq!(again.at(0).age, Some(Duration::from_secs(100)));
        assert_eq!(again.at(1).name, "default");
        let other = [class("raw", "cpu", Some(200))];
        assert!(Classes::open(&rows, Some(&other)).is_err());
    }

    #[test]
    fn rules_that_a_cluster_cannot_keep_are_rejected() {
        let mut ring = class("ring", "", None);
        ring.keep.rows = Some(10);
        let error = Classes::open(&rows(), Some(&[ring])).err().unwrap();
        assert!(error.to_string().contains("by age only"), "{error}");
        let name = class("Raw data", "", None);
        assert!(Classes::open(&rows(), Some(&[name])).is_err());
    }

    #[test]
    fn classes_without_copies_are_stored_as_before() {
        let rows = rows();
        let plain = br#"[{"name":"raw","sources":"cpu","age_ns":9}]"#;
        rows.swap(TABLE, PARTITION, KEY, None, plain).unwrap();
        let found = Classes::read(&rows).unwrap().unwrap();
        assert_eq!(found.at(0).copies(), Copies::default());
        let given = Class {
            keep: Keep {
                age: Some(Duration::from_nanos(9)),
                ..Keep::default()
            },
            ..class("raw", "cpu", None)
        };
        let text = serde_json::to_vec(&stored(&[given]).unwrap()).unwrap();
        assert_eq!(text, plain);
        assert_eq!(shortest_age(&rows), Ok(Some(Duration::from_nanos(9))));
    }

    #[test]
    fn late_bundles_live_for_the_rest_of_their_age() {
        let second = 1_000_000_000;
        let class = ClusterClass {
            name: "raw".to_string(),
            selector: None,
            age: Some(Duration::from_secs(1000)),
            copies: None,
            write: Level::Quorum,
            read: Level::Quorum,
        };
        let times = Interval::new(0, 100 * second);
        let life = |now: i64| class.life(times, now * second);
        assert_eq!(life(50), (false, Some(Duration::from_secs(1050))));
        assert_eq!(life(200), (true, Some(Duration::from_secs(900))));
        assert_eq!(life(2000), (true, Some(Duration::ZERO)));
    }
}
