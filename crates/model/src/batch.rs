//! A batch: rows that a store accepts or rejects one by one and makes durable together.

use crate::{KeyError, SourceKey, Value};

/// Syntax in which a protocol writes the names of sources.
///
/// A store identifies a source by the bytes of its name, and these bytes differ from protocol to protocol. The
/// store calls the notation only for names that it has not seen before.
pub trait Notation: Send + Sync {
    /// Returns the number of this notation, unique among notations: equal bytes in two notations are two names.
    ///
    /// 0 is reserved for the store. A notation may return [`SourceKey::NOTATION`] only if both conditions hold:
    ///
    /// - It reads a canonical name without backslashes ([`SourceKey::put_name`]) as the key with that canonical
    ///   name.
    /// - The order of the tags in such a name does not matter.
    ///
    /// The store may then parse such names itself, without a call of [`Notation::source_key`].
    fn id(&self) -> u32;

    /// Returns the key of the source with this name.
    ///
    /// # Errors
    /// If the name is not valid in this notation, or names no valid source.
    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError>;
}

/// One field of a row, with its value.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// Name of the field, as UTF-8 bytes without escapes.
    pub field: &'a [u8],
    /// Value of the field.
    pub value: Value<'a>,
}

/// Values of one source at one time.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Name of the source in the batch's notation.
    pub name: &'a [u8],
    /// Time in nanoseconds since 1970-01-01T00:00:00Z; negative before that date.
    pub time: i64,
    /// Index of the row's first cell in [`Batch::cells`].
    pub first_cell: u32,
    /// Number of cells of the row, at least 1.
    pub cells: u32,
}

/// Rows in the order of arrival, with their cells in one shared list.
#[derive(Default, Debug)]
pub struct Batch<'a> {
    /// Rows of the batch.
    pub rows: Vec<Row<'a>>,
    /// Cells of all rows, row after row.
    pub cells: Vec<Cell<'a>>,
}

impl<'a> Batch<'a> {
    /// Returns an empty batch.
    pub fn new() -> Batch<'a> {
        Batch::default()
    }

    /// Removes all rows and cells. Keeps the allocated memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
    }

    /// Appends a row with its cells.
    pub fn push(&mut self, name: &'a [u8], time: i64, cells: impl IntoIterator<Item = Cell<'a>>) {
        let first_cell = self.cells.len();
        self.cells.extend(cells);
        self.rows.push(Row {
            name,
            time,
            first_cell: first_cell as u32,
            cells: (self.cells.len() - first_cell) as u32,
        });
    }

    /// Returns the cells of a row of this batch.
    pub fn cells_of(&self, row: &Row<'a>) -> &[Cell<'a>] {
        &self.cells[row.first_cell as usize..(row.first_cell + row.cells) as usize]
    }
}
