//! A batch: rows accepted or refused one by one, made durable together.

use crate::{KeyError, SourceKey, Value};

/// How a protocol writes the name of a source.
///
/// A store recognises a source by the bytes of its name, which differ from protocol to
/// protocol; it asks the notation only for names that it has not seen before.
pub trait Notation: Send + Sync {
    /// A number of its own for every notation, so that equal bytes in two notations
    /// are not taken for the same name.
    ///
    /// [`SourceKey::NOTATION`] is for a notation which reads canonical names without backslashes
    /// ([`SourceKey::put_name`]) as the keys that they are the names of, and such names
    /// alike in whatever order the tags stand between the commas: of these names, most
    /// of which are new when they are asked for, the store does not ask for the key.
    /// 0 is the store's own.
    fn id(&self) -> u32;

    /// The key that this name stands for.
    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError>;
}

/// One field of a row.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The field's name, as UTF-8 bytes without escapes.
    pub field: &'a [u8],
    /// Its value.
    pub value: Value<'a>,
}

/// The values that one source had at one time.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The source's name in the batch's notation.
    pub name: &'a [u8],
    /// Nanoseconds since 1970-01-01T00:00:00Z; negative ones are before it.
    pub time: i64,
    /// Where the row's cells begin in [`Batch::cells`].
    pub first_cell: u32,
    /// How many cells it has; at least one.
    pub cells: u32,
}

/// Rows in the order of their arrival, cells in one shared list.
#[derive(Default, Debug)]
pub struct Batch<'a> {
    /// The rows.
    pub rows: Vec<Row<'a>>,
    /// The cells of all rows, row after row.
    pub cells: Vec<Cell<'a>>,
}

impl<'a> Batch<'a> {
    /// An empty batch.
    pub fn new() -> Batch<'a> {
        Batch::default()
    }

    /// Forgets the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
    }

    /// Adds a row with its cells.
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

    /// The cells of a row of this batch.
    pub fn cells_of(&self, row: &Row<'a>) -> &[Cell<'a>] {
        &self.cells[row.first_cell as usize..(row.first_cell + row.cells) as usize]
    }
}
