//! Statements that create keyspaces and tables.
//!
//! A *marker*, the table `seiner_schema`, shows that a keyspace belongs to Seiner, and has the version of its tables.
//!
//! Two nodes of Cassandra that create the same table at the same moment disagree about the table forever. All clients
//! therefore send changes of the schema to the same node, the connected one with the lowest identifier: one node does
//! them one after the other, and `IF NOT EXISTS` holds.

use crate::contact::{Compaction, place_of};
use seiner_cluster::{RowsError, TableSpec};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Table that marks the keyspaces of Seiner.
pub(crate) const MARKER: &str = "seiner_schema";
/// Version of the tables. Version 1 has no classes with their own copies, and its programs look for no new grids.
pub(crate) const VERSION: &str = "2";
/// Version that is readable, and becomes the present one when a port creates its tables.
pub(crate) const EARLIER: &str = "1";
/// Name of the row of a marker that contains the keyspace to which a keyspace of a class belongs.
pub(crate) const OWNER: &str = "belongs_to";

/// Longest grace of deletions in tables whose rows die by age, in seconds: the time for which Cassandra keeps hints for
/// a node that is down, 3 h. Hints that are older than the grace are dropped. A longer grace would keep dead rows for
/// longer: the rows of such a table are never removed one by one, so no removed row can return after it. A table whose
/// rows live for less has a grace of one life: no hint is needed for a row that has expired.
const GRACE_OF_WINDOWS: u64 = 3 * 3600;
/// Interval at which time windows look for files that died whole, in seconds: the default of Cassandra. Shorter windows
/// have an interval of one window.
const EXPIRY_CHECK: u64 = 600;
/// Class of the compaction strategy of this project. `java/` has its source and its jar.
const FISHERMAN: &str = "io.seiner.FishermanCompaction";
/// Longest life of a row in Cassandra, in seconds: 20 years.
pub(crate) const LONGEST_LIFE: u64 = 20 * 365 * 86_400;

/// Returns a statement that creates a keyspace.
///
/// `datacenters` contains the number of nodes of each data centre.
pub(crate) fn create_keyspace(
    name: &str,
    factor: usize,
    datacenters: &BTreeMap<String, usize>,
) -> String {
    let mut copies = String::new();
    for (datacenter, nodes) in datacenters {
        let datacenter = datacenter.replace('\'', "''");
        // Writing to a text cannot fail.
        let _ = write!(copies, ", '{datacenter}': {}", factor.min(*nodes).max(1));
    }
    format!(
        "CREATE KEYSPACE IF NOT EXISTS \"{name}\" \
         WITH replication = {{'class': 'NetworkTopologyStrategy'{copies}}} AND durable_writes = true"
    )
}

/// Returns a statement that creates the marker of a keyspace.
pub(crate) fn create_marker(keyspace: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS \"{keyspace}\".{MARKER} (name text PRIMARY KEY, value text)"
    )
}

/// Option of a table that turns compression off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncompressed {
    Cassandra,
    /// The older form of the option, which ScyllaDB has.
    Scylla,
}

/// Forms of the options of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) uncompressed: Uncompressed,
    pub(crate) compaction: Compaction,
}

/// Returns a statement that creates a table of rows.
///
/// A table whose rows are compressed already has no compression.
pub(crate) fn create_table(
    keyspace: &str,
    table: &TableSpec,
    form: Form,
) -> Result<String, RowsError> {
    let (keyspace, name) = place_of(keyspace, &table.name).map_err(RowsError::Rejected)?;
    if name == MARKER {
        let text = format!("{name:?} is no name of a table of rows");
        return Err(RowsError::Rejected(text));
    }
    let compression = match form.uncompressed {
        _ if table.is_compressed => "'class': 'LZ4Compressor'",
        Uncompressed::Cassandra => "'enabled': 'false'",
        Uncompressed::Scylla => "'sstable_compression': ''",
    };
    let mut text = format!(
        "CREATE TABLE IF NOT EXISTS \"{keyspace}\".\"{name}\" \
         (partition blob, key blob, value blob, PRIMARY KEY (partition, key)) \
         WITH CLUSTERING ORDER BY (key ASC) AND compression = {{{compression}}}"
    );
    if let Some(window) = table.window {
        let compaction = compaction_of(window, form)?;
        let life = table.life.map(life_seconds).transpose()?;
        let grace = life.map_or(GRACE_OF_WINDOWS, |life| {
            GRACE_OF_WINDOWS.min(u64::from(life.unsigned_abs()))
        });
        let _ = write!(
            text,
            " AND compaction = {{{compaction}}} AND gc_grace_seconds = {grace}"
        );
    }
    if let Some(life) = table.life {
        let _ = write!(text, " AND default_time_to_live = {}", life_seconds(life)?);
    }
    Ok(text)
}

/// Returns the compaction of a table with a window.
fn compaction_of(window: Duration, form: Form) -> Result<String, RowsError> {
    if form.compaction == Compaction::Fisherman {
        if form.uncompressed == Uncompressed::Scylla {
            let text = "ScyllaDB runs no compaction strategies in Java; remove compaction=fisherman from the URL";
            return Err(RowsError::Rejected(text.to_string()));
        }
        return Ok(format!("'class': '{FISHERMAN}'"));
    }
    let (size, unit) = window_of(window);
    let mut text = format!(
        "'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': '{unit}', \
         'compaction_window_size': '{size}'"
    );
    let check = window.as_secs().max(60);
    if check < EXPIRY_CHECK {
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            ", 'expired_sstable_check_frequency_seconds': '{check}'"
        );
    }
    Ok(text)
}

/// Explains the error of a statement that creates a table. The nodes may lack the class of our compaction strategy.
pub(crate) fn explain(error: RowsError) -> RowsError {
    match error {
        RowsError::Rejected(text)
            if text.contains(FISHERMAN) && text.contains("Unable to find") =>
        {
            RowsError::Rejected(format!(
                "the nodes of Cassandra do not have the class {FISHERMAN}; copy the jar seiner-compaction to the \
                 folder lib of every node and restart the nodes, or remove compaction=fisherman from the URL ({text})"
            ))
        }
        error => error,
    }
}

/// Returns size and unit of a window: the largest unit that divides the window, rounded up to whole minutes.
fn window_of(window: Duration) -> (u64, &'static str) {
    let minutes = window.as_secs().div_ceil(60).max(1);
    match minutes {
        minutes if minutes.is_multiple_of(1440) => (minutes / 1440, "DAYS"),
        minutes if minutes.is_multiple_of(60) => (minutes / 60, "HOURS"),
        minutes => (minutes, "MINUTES"),
    }
}

/// Returns a life in whole seconds, at least one: for Cassandra, 0 means forever.
pub(crate) fn life_seconds(life: Duration) -> Result<i32, RowsError> {
    let part = u64::from(life.subsec_nanos() > 0);
    let seconds = life.as_secs().saturating_add(part);
    match i32::try_from(seconds.max(1)) {
        Ok(seconds) if seconds as u64 <= LONGEST_LIFE => Ok(seconds),
        _ => {
            let text = format!("a life of {seconds} s is longer than {LONGEST_LIFE} s (20 years)");
            Err(RowsError::Rejected(text))
        }
    }
}

/// Column of a table, as the system tables describe it: name, kind, position, type.
pub(crate) type Column = (String, String, i32, String);

/// Compares the columns of an existing table with those of a table of rows.
pub(crate) fn check_columns(table: &str, mut found: Vec<Column>) -> Result<(), RowsError> {
    let column = |name: &str, kind: &str, position| {
        (
            name.to_string(),
            kind.to_string(),
            position,
            "blob".to_string(),
        )
    };
    found.sort();
    let expected = [
        column("key", "clustering", 0),
        column("partition", "partition_key", 0),
        column("value", "regular", -1),
    ];
    if found == expected {
        return Ok(());
    }
    let found: Vec<String> = found
        .into_iter()
        .map(|(name, kind, _, of)| format!("{name} {of} ({kind})"))
        .collect();
    Err(RowsError::Rejected(format!(
        "the table {table} exists with other columns: {}; use another keyspace, or drop the table if its data are \
         not needed",
        found.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(life: Option<u64>, window: Option<u64>) -> TableSpec {
        TableSpec {
            name: "blocks".to_string(),
            copies: None,
            life: life.map(Duration::from_secs),
            window: window.map(Duration::from_secs),
            is_compressed: false,
        }
    }

    #[test]
    fn a_keyspace_has_at_most_one_copy_a_node() {
        let datacenters = BTreeMap::from([("east".to_string(), 2), ("o'west".to_string(), 5)]);
        let text = create_keyspace("sensors", 3, &datacenters);
        assert!(
            text.contains("'NetworkTopologyStrategy', 'east': 2, 'o''west': 3}"),
            "{text}"
        );
    }

    #[test]
    fn windows_have_the_largest_unit() {
        let cases = [
            (1, (1, "MINUTES")),
            (90 * 60, (90, "MINUTES")),
            (7200, (2, "HOURS")),
            (2 * 86_400, (2, "DAYS")),
            (25 * 3600, (25, "HOURS")),
        ];
        for (seconds, expected) in cases {
            assert_eq!(window_of(Duration::from_secs(seconds)), expected);
        }
    }

    const PLAIN: Form = Form {
        uncompressed: Uncompressed::Cassandra,
        compaction: Compaction::Windows,
    };

    #[test]
    fn the_options_of_a_table_follow_its_spec() {
        let create = |spec: &TableSpec| create_table("k", spec, PLAIN);
        let text = create(&table(Some(86_400), Some(3600))).unwrap();
        assert!(
            text.contains("compression = {'enabled': 'false'}"),
            "{text}"
        );
        assert!(text.contains("'TimeWindowCompactionStrategy'"), "{text}");
        assert!(text.contains("default_time_to_live = 86400"), "{text}");
        assert!(text.contains("gc_grace_seconds = 10800"), "{text}");
        let text = create(&table(None, None).compressed()).unwrap();
        assert!(text.contains("'class': 'LZ4Compressor'"), "{text}");
        let text = create(&table(None, None)).unwrap();
        assert!(
            !text.contains("compaction") && !text.contains("live"),
            "{text}"
        );
        for name in ["", "Blocks", "9a", "a\"", MARKER, &"a".repeat(49)] {
            let mut spec = table(None, None);
            spec.name = name.to_string();
            assert!(create(&spec).is_err(), "{name}");
        }
    }

    #[test]
    fn a_table_in_a_space_is_created_in_its_keyspace() {
        let mut spec = table(None, Some(3600));
        spec.name = "raw.blocks_raw".to_string();
        let text = create_table("k", &spec, PLAIN).unwrap();
        assert!(text.contains(r#""k_raw"."blocks_raw""#), "{text}");
    }

    #[test]
    fn only_tables_with_a_window_have_our_compaction() {
        let form = Form {
            compaction: Compaction::Fisherman,
            ..PLAIN
        };
        let text = create_table("k", &table(Some(86_400), Some(3600)), form).unwrap();
        let expected =
            "compaction = {'class': 'io.seiner.FishermanCompaction'} AND gc_grace_seconds = 10800";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("Window"), "{text}");
        let text = create_table("k", &table(None, None), form).unwrap();
        assert!(!text.contains("compaction"), "{text}");
        let form = Form {
            uncompressed: Uncompressed::Scylla,
            ..form
        };
        let error = create_table("k", &table(None, Some(3600)), form).unwrap_err();
        assert!(error.to_string().contains("ScyllaDB"), "{error}");
        assert!(create_table("k", &table(None, None), form).is_ok());
    }

    #[test]
    fn short_lives_have_short_graces_and_checks() {
        let text = create_table("k", &table(Some(90), Some(60)), PLAIN).unwrap();
        assert!(text.contains("gc_grace_seconds = 90 "), "{text}");
        let check = "'expired_sstable_check_frequency_seconds': '60'";
        assert!(text.contains(check), "{text}");
        let text = create_table("k", &table(None, Some(600)), PLAIN).unwrap();
        assert!(!text.contains("expired"), "{text}");
    }

    #[test]
    fn a_missing_class_is_explained() {
        let text = format!("Unable to find compaction strategy class '{FISHERMAN}'");
        let error = explain(RowsError::Rejected(text)).to_string();
        assert!(error.contains("seiner-compaction"), "{error}");
        let other = RowsError::Rejected("Unable to find the table".to_string());
        assert_eq!(explain(other.clone()), other);
    }

    #[test]
    fn lives_are_whole_seconds() {
        assert_eq!(life_seconds(Duration::ZERO), Ok(1));
        assert_eq!(life_seconds(Duration::from_millis(1001)), Ok(2));
        assert_eq!(
            life_seconds(Duration::from_secs(LONGEST_LIFE)),
            Ok(630_720_000)
        );
        assert!(life_seconds(Duration::from_secs(LONGEST_LIFE + 1)).is_err());
        assert!(life_seconds(Duration::MAX).is_err());
    }

    #[test]
    fn other_columns_are_rejected() {
        let column = |name: &str, kind: &str, position, of: &str| {
            (name.to_string(), kind.to_string(), position, of.to_string())
        };
        let mut found = vec![
            column("value", "regular", -1, "blob"),
            column("partition", "partition_key", 0, "blob"),
            column("key", "clustering", 0, "blob"),
        ];
        assert_eq!(check_columns("blocks", found.clone()), Ok(()));
        found[0].3 = "text".to_string();
        assert!(check_columns("blocks", found).is_err());
    }
}
