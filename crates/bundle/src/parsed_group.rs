//! Group of a parsed directory: its model, and its tables in the form in which they decode.

use std::sync::{Arc, OnceLock};

use seiner_codec::DecodeError;
use seiner_codec::reader::Reader;

use crate::ans::DecodeTable;
use crate::entries::{self, ChunkEntry};
use crate::layout::Layout;
use crate::model::{ColumnTables, GroupModel};
use crate::table::Table;

/// Sources of one layout.
pub(crate) struct Group {
    pub(crate) layout: Arc<Layout>,
    pub(crate) model: GroupModel,
    pub(crate) columns: Vec<ColumnTables>,
    tables: Vec<Table>,
    decoded: Vec<OnceLock<DecodeTable>>,
    /// Index of the first chunk, and behind the last.
    pub(crate) chunks: (usize, usize),
}

impl std::fmt::Debug for Group {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Group")
            .field("layout", &self.layout)
            .field("model", &self.model)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

impl Group {
    /// Returns a table in its decoding form.
    #[inline]
    pub(crate) fn table(&self, index: usize) -> &DecodeTable {
        self.decoded[index].get_or_init(|| DecodeTable::new(&self.tables[index]))
    }

    /// Reads a group and the entries of its chunks.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<(Group, Vec<ChunkEntry>), DecodeError> {
        let layout = Layout::take(reader)?;
        let model = GroupModel::take(reader, &layout)?;
        // Each class and each table takes at least a byte. Numbering the classes takes memory.
        let too_many = |count: usize| count > reader.rest().len();
        if too_many(model.classes()) {
            return Err(reader.invalid("more classes than bytes"));
        }
        let (columns, count) = model.tables();
        if too_many(count) {
            return Err(reader.invalid("more tables than bytes"));
        }
        let mut tables = Vec::with_capacity(count);
        for _ in 0..count {
            tables.push(Table::take(reader)?);
        }
        let entries = entries::take(reader, layout.cells())?;
        let mut decoded = Vec::new();
        decoded.resize_with(count, OnceLock::new);
        let group = Group {
            layout: Arc::new(layout),
            model,
            columns,
            tables,
            decoded,
            chunks: (0, 0),
        };
        Ok((group, entries))
    }

    /// Returns the approximate memory in bytes. It grows when a table is first used.
    pub(crate) fn memory(&self) -> usize {
        let used = |table: &&OnceLock<DecodeTable>| table.get().is_some_and(DecodeTable::is_large);
        let tables = self.tables.capacity() * (size_of::<Table>() + size_of::<DecodeTable>());
        tables + self.decoded.iter().filter(used).count() * DecodeTable::LARGE_BYTES
    }
}
