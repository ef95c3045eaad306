//! Rows of a stripe during work: known contents, blocks to read, blocks to write.

use crate::block::Block;
use crate::code;
use crate::geometry::{Geometry, Level};

/// Cost of an operation besides its bytes, in blocks: an NVMe disk reads about 16 blocks in the time of an
/// empty operation.
const OPERATION_BLOCKS: u32 = 16;

/// A block of a stripe.
#[derive(Clone, Debug)]
struct Cell<B> {
    /// Contents on the member.
    old: Option<B>,
    /// New contents.
    new: Option<B>,
    /// True if the member cannot provide the contents.
    lost: bool,
    /// True if the contents are requested.
    wanted: bool,
}

/// Rows `first..first + rows` of a stripe, with all columns.
#[derive(Clone, Debug)]
pub struct Grid<B> {
    geometry: Geometry,
    first: u32,
    rows: u32,
    /// Cells, row by row.
    cells: Vec<Cell<B>>,
}

/// A run of consecutive blocks on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRange {
    /// Column of the blocks.
    pub column: usize,
    /// First row.
    pub row: u32,
    /// Number of rows.
    pub rows: u32,
}

/// Methods to compute new syndromes for rows that are partly written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMethod {
    /// From the old syndromes and the change (read-modify-write).
    Modify,
    /// From all data of the row (reconstruct-write). Lost data are decoded.
    Reconstruct,
}

/// Next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GridPlan {
    /// Read these ranges, then plan again.
    Read(WriteMethod, Vec<CellRange>),
    /// All necessary blocks are known.
    Ready(WriteMethod),
    /// Too much is lost.
    Impossible,
}

impl<B: Block> Grid<B> {
    /// Creates rows with unknown contents. `lost` returns whether a column cannot be read.
    pub fn new(geometry: Geometry, first: u32, rows: u32, lost: impl Fn(usize) -> bool) -> Grid<B> {
        let row = (0..geometry.members()).map(|column| Cell {
            old: None,
            new: None,
            lost: lost(column),
            wanted: false,
        });
        let row: Vec<Cell<B>> = row.collect();
        let cells = (0..rows).flat_map(|_| row.iter().cloned()).collect();
        Grid {
            geometry,
            first,
            rows,
            cells,
        }
    }

    fn at(&self, column: usize, row: u32) -> usize {
        (row - self.first) as usize * self.geometry.members() + column
    }

    fn cell(&self, column: usize, row: u32) -> &Cell<B> {
        &self.cells[self.at(column, row)]
    }

    fn cell_mut(&mut self, column: usize, row: u32) -> &mut Cell<B> {
        let at = self.at(column, row);
        &mut self.cells[at]
    }

    fn row_numbers(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.rows
    }

    /// Sets the new contents of a block.
    pub fn write(&mut self, column: usize, row: u32, block: B) {
        self.cell_mut(column, row).new = Some(block);
    }

    /// Requests the contents of a block.
    pub fn want(&mut self, column: usize, row: u32) {
        self.cell_mut(column, row).wanted = true;
    }

    /// Stores the contents that were read.
    pub fn learn(&mut self, column: usize, row: u32, block: B) {
        self.cell_mut(column, row).old = Some(block);
    }

    /// Marks a block as unreadable.
    pub fn lose(&mut self, column: usize, row: u32) {
        let cell = self.cell_mut(column, row);
        cell.lost = true;
        cell.old = None;
    }

    /// Marks a column as unreadable, because its member is lost. Blocks already read stay known.
    pub fn lose_column(&mut self, column: usize) {
        let lost = self
            .row_numbers()
            .filter(|&row| self.cell(column, row).old.is_none())
            .collect::<Vec<_>>();
        lost.into_iter()
            .for_each(|row| self.cell_mut(column, row).lost = true);
    }

    /// Returns the new contents of a block, if it is being written.
    pub fn known(&self, column: usize, row: u32) -> Option<&B> {
        if !self.row_numbers().contains(&row) {
            return None;
        }
        self.cell(column, row).new.as_ref()
    }

    /// Returns the old contents of a block, if they were read or computed.
    pub fn found(&self, column: usize, row: u32) -> Option<&B> {
        self.cell(column, row).old.as_ref()
    }

    fn data(&self) -> std::ops::Range<usize> {
        0..self.geometry.data_columns()
    }

    fn syndromes(&self) -> std::ops::Range<usize> {
        self.geometry.data_columns()..self.geometry.members()
    }

    fn dirty(&self, column: usize, row: u32) -> bool {
        self.cell(column, row).new.is_some()
    }

    /// Chooses the cheaper method and returns the next step. `live` returns whether a column can be written.
    pub fn plan(&self, live: impl Fn(usize) -> bool) -> GridPlan {
        let mut best: Option<(u32, WriteMethod, Vec<CellRange>)> = None;
        for method in [WriteMethod::Modify, WriteMethod::Reconstruct] {
            let Some(needed) = self.needed(method, &live) else {
                continue;
            };
            let ranges = self.ranges(|column, row| needed[self.at(column, row)]);
            let blocks: u32 = ranges.iter().map(|range| range.rows).sum();
            let cost = ranges.len() as u32 * OPERATION_BLOCKS + blocks;
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, method, ranges));
            }
        }
        match best {
            None => GridPlan::Impossible,
            Some((_, method, ranges)) if ranges.is_empty() => GridPlan::Ready(method),
            Some((_, method, ranges)) => GridPlan::Read(method, ranges),
        }
    }

    /// Returns the cells that a method must still read; `None` if the method is not possible.
    fn needed(&self, method: WriteMethod, live: &impl Fn(usize) -> bool) -> Option<Vec<bool>> {
        let mut needed = vec![false; self.cells.len()];
        for row in self.row_numbers() {
            let mut want =
                |column: usize| needed[self.at(column, row)] = self.cell(column, row).old.is_none();
            let written = self
                .data()
                .filter(|&column| self.dirty(column, row))
                .count();
            let partly = 0 < written && written < self.geometry.data_columns();
            let syndromes: Vec<usize> = self.syndromes().filter(|&column| live(column)).collect();
            if partly && !syndromes.is_empty() {
                match method {
                    WriteMethod::Modify => {
                        let touched: Vec<usize> = self
                            .data()
                            .filter(|&column| self.dirty(column, row))
                            .chain(syndromes)
                            .collect();
                        if touched.iter().any(|&column| self.cell(column, row).lost) {
                            return None;
                        }
                        touched.into_iter().for_each(&mut want);
                    }
                    WriteMethod::Reconstruct => {
                        let rest = self.data().filter(|&column| !self.dirty(column, row));
                        self.gather(row, rest.collect(), &mut want)?;
                    }
                }
            }
            let wanted: Vec<usize> = (0..self.geometry.members())
                .filter(|&column| self.cell(column, row).wanted)
                .collect();
            if !wanted.is_empty() {
                self.gather(row, wanted, &mut want)?;
            }
        }
        Some(needed)
    }

    /// Requests the cells that provide some columns of a row: the columns themselves or, if one is lost, enough
    /// others to compute it.
    fn gather(&self, row: u32, columns: Vec<usize>, want: &mut impl FnMut(usize)) -> Option<()> {
        let lost =
            |column: usize| self.cell(column, row).lost && self.cell(column, row).old.is_none();
        if !columns.iter().any(|&column| lost(column)) {
            columns.into_iter().for_each(want);
            return Some(());
        }
        let (missing, there): (Vec<usize>, Vec<usize>) =
            self.data().partition(|&column| lost(column));
        let syndromes: Vec<usize> = self
            .syndromes()
            .filter(|&column| !lost(column))
            .take(missing.len())
            .collect();
        if syndromes.len() < missing.len() {
            return None;
        }
        columns
            .into_iter()
            .filter(|&column| !lost(column))
            .chain(there)
            .chain(syndromes)
            .for_each(want);
        Some(())
    }

    /// Returns the cells that meet a condition, as runs on members.
    fn ranges(&self, holds: impl Fn(usize, u32) -> bool) -> Vec<CellRange> {
        let mut ranges: Vec<CellRange> = Vec::new();
        for column in 0..self.geometry.members() {
            for row in self.row_numbers().filter(|&row| holds(column, row)) {
                match ranges.last_mut() {
                    Some(last) if last.column == column && last.row + last.rows == row => {
                        last.rows += 1
                    }
                    _ => ranges.push(CellRange {
                        column,
                        row,
                        rows: 1,
                    }),
                }
            }
        }
        ranges
    }

    /// Computes the requested contents, and the syndromes of the rows that are written.
    pub fn compute(&mut self, method: WriteMethod, live: impl Fn(usize) -> bool) {
        for row in self.row_numbers() {
            let wanted: Vec<usize> = (0..self.geometry.members())
                .filter(|&column| self.cell(column, row).wanted)
                .collect();
            self.restore(row, &wanted);
            let written = self
                .data()
                .filter(|&column| self.dirty(column, row))
                .count();
            let syndromes: Vec<usize> = self.syndromes().filter(|&column| live(column)).collect();
            if written == 0 || syndromes.is_empty() {
                continue;
            }
            if method == WriteMethod::Modify && written < self.geometry.data_columns() {
                self.modify(row, &syndromes);
            } else {
                self.reconstruct(row);
            }
        }
    }

    /// Computes those of the given columns of a row that are lost.
    fn restore(&mut self, row: u32, columns: &[usize]) {
        if columns
            .iter()
            .all(|&column| self.cell(column, row).old.is_some())
        {
            return;
        }
        let mut blocks: Vec<Option<B>> = (0..self.geometry.members())
            .map(|column| self.cell(column, row).old.clone())
            .collect();
        assert!(
            code::decode(&self.geometry, &mut blocks),
            "the plan reads enough blocks"
        );
        let first = self.geometry.data_columns();
        let data: Vec<&B> = blocks[..first].iter().flatten().collect();
        for (at, syndrome) in code::encode(&self.geometry, &data).into_iter().enumerate() {
            blocks[first + at].get_or_insert(syndrome);
        }
        for (column, block) in blocks.into_iter().enumerate() {
            let cell = self.cell_mut(column, row);
            if cell.lost && cell.old.is_none() {
                cell.old = block;
            }
        }
    }

    fn modify(&mut self, row: u32, syndromes: &[usize]) {
        let mut values: Vec<B> = syndromes
            .iter()
            .map(|&column| self.old(column, row))
            .collect();
        for column in self.data().filter(|&column| self.dirty(column, row)) {
            let mut change = self.old(column, row);
            change.add(
                self.cell(column, row)
                    .new
                    .as_ref()
                    .expect("a dirty cell has new contents"),
            );
            for (value, &syndrome) in values.iter_mut().zip(syndromes) {
                code::update(
                    syndrome - self.geometry.data_columns(),
                    column,
                    value,
                    &change,
                );
            }
        }
        for (value, &syndrome) in values.into_iter().zip(syndromes) {
            self.write(syndrome, row, value);
        }
    }

    fn reconstruct(&mut self, row: u32) {
        let rest: Vec<usize> = self
            .data()
            .filter(|&column| !self.dirty(column, row))
            .collect();
        self.restore(row, &rest);
        let data = self.data().map(|column| {
            let cell = self.cell(column, row);
            cell.new
                .as_ref()
                .or(cell.old.as_ref())
                .expect("the plan reads cells that are not written")
        });
        let syndromes = code::encode(&self.geometry, &data.collect::<Vec<_>>());
        let first = self.geometry.data_columns();
        for (at, block) in syndromes.into_iter().enumerate() {
            self.write(first + at, row, block);
        }
    }

    fn old(&self, column: usize, row: u32) -> B {
        self.cell(column, row)
            .old
            .clone()
            .expect("the plan reads the old contents")
    }

    /// Schedules the write of computed blocks that were lost, in columns for which `which` returns true.
    /// Returns the column of each.
    pub fn write_back(&mut self, which: impl Fn(usize) -> bool) -> Vec<usize> {
        let columns = self.geometry.members();
        let lost = self
            .cells
            .iter_mut()
            .enumerate()
            .filter(|(at, cell)| which(at % columns) && cell.lost && cell.new.is_none());
        let written = lost.filter_map(|(at, cell)| {
            cell.new = cell.old.clone();
            cell.new.is_some().then_some(at % columns)
        });
        written.collect()
    }

    /// Returns the readable cells that were not read, as runs on members.
    pub fn unread(&self) -> Vec<CellRange> {
        self.ranges(|column, row| {
            let cell = self.cell(column, row);
            !cell.lost && cell.old.is_none()
        })
    }

    /// Returns whether a block of data cannot be read.
    pub fn data_is_lost(&self) -> bool {
        let columns = self.geometry.members();
        let data = self.geometry.data_columns();
        self.cells
            .iter()
            .enumerate()
            .any(|(at, cell)| at % columns < data && cell.lost && cell.old.is_none())
    }

    /// Returns whether the blocks of every row match, although data are lost and all other blocks were read.
    /// One syndrome gives the lost block of a row, and the other one verifies it. This requires RAID 6 and at
    /// most one lost block per row.
    ///
    /// A crash in the middle of a write leaves a row that does not match. The exception: at least two of its
    /// blocks were being written, and their changes are multiples of each other in every changed byte.
    pub fn fits_without_lost(&self) -> bool {
        let (first, columns) = (self.geometry.data_columns(), self.geometry.members());
        let fits = |row: u32| {
            let cells = (0..columns).map(|column| self.cell(column, row).old.clone());
            let mut blocks: Vec<Option<B>> = cells.collect();
            let lost = blocks.iter().filter(|block| block.is_none()).count();
            let syndromes_there = blocks[first..].iter().all(Option::is_some);
            lost <= 1 && syndromes_there && code::decode(&self.geometry, &mut blocks) && {
                let blocks: Vec<B> = blocks.into_iter().flatten().collect();
                code::verify(&self.geometry, &blocks).is_none()
            }
        };
        self.geometry.level() == Level::Raid6 && self.row_numbers().all(fits)
    }

    /// Withdraws the requests for rows that cannot be restored.
    pub fn forgo_lost_rows(&mut self) {
        for row in self.row_numbers() {
            let wanted = (0..self.geometry.members()).filter(|&at| self.cell(at, row).wanted);
            if self.gather(row, wanted.collect(), &mut |_| {}).is_none() {
                (0..self.geometry.members())
                    .for_each(|column| self.cell_mut(column, row).wanted = false);
            }
        }
    }

    /// Recomputes the syndromes of all rows whose data are known.
    pub fn encode_anew(&mut self) {
        let first = self.geometry.data_columns();
        for row in self.row_numbers() {
            let data: Vec<&B> = self
                .data()
                .filter_map(|column| self.cell(column, row).old.as_ref())
                .collect();
            if data.len() < first {
                continue;
            }
            for (at, block) in code::encode(&self.geometry, &data).into_iter().enumerate() {
                self.write(first + at, row, block);
            }
        }
    }

    /// Searches for blocks that do not match the rest of their row, in rows that could be read completely.
    /// Computes the correct contents of a single wrong block from the others. Returns false if a row is wrong
    /// and the wrong block cannot be identified.
    pub fn verify(&mut self) -> bool {
        let mut sound = true;
        for row in self.row_numbers() {
            let cells = (0..self.geometry.members()).map(|column| self.cell(column, row));
            let read = cells
                .filter(|cell| !cell.lost)
                .filter_map(|cell| cell.old.clone());
            let blocks: Vec<B> = read.collect();
            if blocks.len() < self.geometry.members() {
                continue;
            }
            match code::verify(&self.geometry, &blocks) {
                None => {}
                Some(code::Fault::Unknown) => sound = false,
                Some(code::Fault::Column(column)) => {
                    self.lose(column, row);
                    self.restore(row, &[column]);
                }
            }
        }
        sound
    }

    /// Returns the blocks to write, as runs on members.
    pub fn writes(&self, live: impl Fn(usize) -> bool) -> Vec<(CellRange, Vec<B>)> {
        let ranges = self.ranges(|column, row| live(column) && self.dirty(column, row));
        let data = |range: &CellRange| {
            (range.row..range.row + range.rows)
                .filter_map(|row| self.cell(range.column, row).new.clone())
                .collect()
        };
        ranges
            .into_iter()
            .map(|range| (range, data(&range)))
            .collect()
    }
}
