//! Check of a cluster's data.

use crate::blocks::{ClassTables, check_table};
use crate::classes::Classes;
use crate::lease;
use crate::names::Names;
use crate::rows::{Rows, RowsError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Findings of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCheck {
    /// Bundles.
    pub bundles: u64,
    /// Samples in bundles, with those that others replace.
    pub samples: u64,
    /// Sources in bundles.
    pub sources: u64,
    /// Bytes of directories and data, once for all replicas.
    pub bytes: u64,
    /// Journals that are not finished.
    pub journals: u64,
    /// Damaged or missing parts.
    pub damages: u64,
}

/// Reads every bundle, and reports each damage as a line of text. Changes nothing.
///
/// # Errors
/// If too few replicas answer, or the keyspace has no classes.
pub fn check(
    rows: &Arc<dyn Rows>,
    report: &mut dyn FnMut(&str),
) -> Result<ClusterCheck, RowsError> {
    let mut found = ClusterCheck {
        journals: lease::records(&**rows)?.len() as u64,
        ..ClusterCheck::default()
    };
    let names = Names::new(rows.clone(), "check");
    names.refresh()?;
    let known = names.numbers();
    let mut numbers = BTreeSet::new();
    for table in tables(&**rows)? {
        check_table(&**rows, &table, &mut |bundle| match bundle {
            Ok(bundle) => {
                found.bundles += 1;
                found.samples += bundle.samples;
                found.bytes += bundle.bytes;
                numbers.extend(bundle.numbers);
            }
            Err(line) => {
                found.damages += 1;
                report(&line);
            }
        })?;
    }
    for number in numbers.difference(&known) {
        found.damages += 1;
        report(&format!("source {number} has samples and no name"));
    }
    found.sources = numbers.len() as u64;
    Ok(found)
}

/// Returns the tables of all classes, late ones included.
fn tables(rows: &dyn Rows) -> Result<Vec<ClassTables>, RowsError> {
    let Some(classes) = Classes::read(rows)? else {
        let text = "the keyspace has no retention classes, because no port was started on it; name another keyspace";
        return Err(RowsError::Rejected(text.to_string()));
    };
    Ok(classes.all().iter().flat_map(ClassTables::both).collect())
}
