//! Check of the bundles of a class.

use super::reader::Opened;
use super::{Cell, ClassTables, DIRECTORIES};
use crate::keys::KeyReader;
use crate::rows::{Level, Range, Rows, RowsError};

/// Bundle that could be read completely.
pub(crate) struct CheckedBundle {
    /// Samples.
    pub samples: u64,
    /// Bytes of directory and data.
    pub bytes: u64,
    /// Numbers of the sources.
    pub numbers: Vec<u32>,
}

/// Reads all bundles of a table of directories. Calls `found` with each bundle, or with a description of damage.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn check_table(
    rows: &dyn Rows,
    tables: &ClassTables,
    found: &mut dyn FnMut(Result<CheckedBundle, String>),
) -> Result<(), RowsError> {
    for partition in rows.partitions(&tables.directories)? {
        let Some(cell) = cell(&partition) else {
            continue;
        };
        let range = Range::whole(&tables.directories, &partition);
        for (key, value) in rows.range(&range, Level::Quorum)? {
            let bundle = match Opened::parse(&key, &value) {
                Ok(opened) => read(rows, tables, cell, &opened, value.len())?,
                Err(what) => Err(format!("a directory: {what}")),
            };
            found(bundle.map_err(|what| format!("{} {cell:?}: {what}", tables.directories)));
        }
    }
    Ok(())
}

/// Returns the cell of a partition with directories. The other partitions list periods.
fn cell(partition: &[u8]) -> Option<Cell> {
    let mut reader = KeyReader(partition);
    let kind = reader.u16()?;
    (kind == DIRECTORIES).then_some(Cell {
        grid: reader.u16()?,
        shelf: reader.u32()?,
        period: reader.i64()?,
    })
}

/// Reads and decodes all chunks of a bundle.
fn read(
    rows: &dyn Rows,
    tables: &ClassTables,
    cell: Cell,
    opened: &Opened,
    directory_bytes: usize,
) -> Result<Result<CheckedBundle, String>, RowsError> {
    let partition = cell.data(&opened.id);
    let range = Range::whole(&tables.data, &partition);
    let parts = rows.range(&range, Level::Quorum)?;
    let data: Vec<u8> = parts.into_iter().flat_map(|(_, value)| value).collect();
    let mut bundle = CheckedBundle {
        samples: opened.directory.samples(),
        bytes: (data.len() + directory_bytes) as u64,
        numbers: Vec::new(),
    };
    for chunk in opened.directory.chunks() {
        let bytes = data.get(chunk.start..chunk.end);
        let decoded = match bytes {
            Some(bytes) => opened
                .directory
                .decode_chunk(chunk.index, bytes)
                .map_err(|error| error.to_string()),
            None => Err(format!(
                "chunk {} is missing: the data has {} bytes",
                chunk.index,
                data.len()
            )),
        };
        match decoded {
            Ok(rows) => bundle
                .numbers
                .extend(rows.ids().iter().map(|&id| id as u32)),
            Err(what) => return Ok(Err(format!("{:?}: {what}", opened.id))),
        }
    }
    Ok(Ok(bundle))
}
