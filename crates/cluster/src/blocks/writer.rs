//! Writing of bundles.

use super::{BundleId, Cell, ClassTables};
use crate::keys::KeyBuilder;
use crate::rows::{Level, Range, Row, Rows, RowsError};
use seiner_bundle::{Bundle, Directory};
use seiner_codec::varint;
use std::time::Duration;

/// Bytes of a part, at least. Values of 64 KiB to 1 MiB cost least per byte.
const PART: usize = 64 << 10;
/// Version of a directory's row.
pub(super) const VERSION: u8 = 1;

/// Place of a bundle.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// Tables of the class.
    pub tables: &'a ClassTables,
    /// Partition of the samples.
    pub cell: Cell,
    /// Unique number.
    pub id: BundleId,
    /// Time after which the rows expire.
    pub life: Option<Duration>,
}

/// Bundle with the stamp of its samples: of two samples of a series with the same time, the one with the higher stamp
/// counts.
pub(crate) struct Stamped {
    /// Stamp.
    pub stamp: u64,
    /// Directory and data.
    pub bundle: Bundle,
}

/// Directories of bundles whose data is written. Without its directory, a bundle is not visible.
#[derive(Debug, Default)]
pub(crate) struct Directories(Vec<(Level, Vec<Row>)>);

impl Directories {
    /// Returns whether no directory is left to write.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds others.
    pub fn extend(&mut self, others: Directories) {
        self.0.extend(others.0);
    }

    /// Writes the directories. Those that are written are removed from here.
    ///
    /// # Errors
    /// If too few replicas answer. Some bundles may be visible then; writing them again is safe.
    pub fn write(&mut self, rows: &dyn Rows) -> Result<(), RowsError> {
        while let Some((level, directory)) = self.0.last() {
            rows.write(directory.clone(), *level)?;
            self.0.pop();
        }
        Ok(())
    }
}

/// Writes the data of a bundle, and adds its directory to `directories`.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn put(
    rows: &dyn Rows,
    place: &Place<'_>,
    bundle: &Stamped,
    level: Level,
    directories: &mut Directories,
) -> Result<(), RowsError> {
    let ends = part_ends(&bundle.bundle);
    let row = |table: &str, partition: Vec<u8>, key: Vec<u8>, value: Vec<u8>| Row {
        table: table.into(),
        partition,
        key,
        value,
        life: place.life,
    };
    let tables = place.tables;
    let mut start = 0;
    let parts = ends.iter().enumerate().map(|(nth, &end)| {
        let key = KeyBuilder::new().u32(nth as u32).done();
        let value = bundle.bundle.data[start..end].to_vec();
        start = end;
        row(&tables.data, place.cell.data(&place.id), key, value)
    });
    rows.write(parts.collect(), level)?;
    let mut value = vec![VERSION];
    varint::put_u64(bundle.stamp, &mut value);
    varint::put_u64(ends.len() as u64, &mut value);
    for end in &ends {
        varint::put_u64(*end as u64, &mut value);
    }
    value.extend_from_slice(&bundle.bundle.directory);
    let period = KeyBuilder::new().i64(place.cell.period).done();
    let partition = place.cell.directories();
    let visible = vec![
        row(&tables.directories, partition, place.id.key(), value),
        row(
            &tables.directories,
            place.cell.periods(),
            period,
            Vec::new(),
        ),
    ];
    directories.0.push((level, visible));
    Ok(())
}

/// Removes the bundles of a port in a cell whose numbers are lower than that of `first`. Their samples are stored in
/// other bundles.
///
/// # Errors
/// If too few replicas answer. Some bundles may be removed.
pub(crate) fn remove_earlier(
    rows: &dyn Rows,
    tables: &ClassTables,
    cell: Cell,
    first: &BundleId,
    level: Level,
) -> Result<(), RowsError> {
    let partition = cell.directories();
    let range = Range {
        table: &tables.directories,
        partition: &partition,
        from: &KeyBuilder::new().text(&first.port).done(),
        to: Some(&first.key()),
        limit: usize::MAX,
    };
    for (key, _) in rows.range(&range, level)? {
        // Without its directory, no reader looks for the data.
        rows.remove(&tables.directories, &partition, Some(&key), level)?;
        if let Some(id) = BundleId::parse(&key) {
            rows.remove(&tables.data, &cell.data(&id), None, level)?;
        }
    }
    Ok(())
}

/// Returns the ends of the parts of a bundle's data. A part contains whole chunks.
fn part_ends(bundle: &Bundle) -> Vec<usize> {
    let directory = Directory::parse(&bundle.directory).expect("the writer's directory is valid");
    let mut ends = Vec::new();
    let mut start = 0;
    for chunk in directory.chunks() {
        if chunk.end - start >= PART {
            ends.push(chunk.end);
            start = chunk.end;
        }
    }
    // A short rest joins the last part.
    match ends.last_mut() {
        Some(last) if bundle.data.len() - *last < PART => *last = bundle.data.len(),
        _ if start < bundle.data.len() => ends.push(bundle.data.len()),
        _ => {}
    }
    ends
}
