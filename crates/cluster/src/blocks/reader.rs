//! Reading of bundles.

use super::writer::VERSION;
use super::{BundleId, Cell, ClassTables, DirectoryCache, periods};
use crate::keys::{KeyBuilder, KeyReader};
use crate::rows::{Found, Level, Range, Rows, RowsError};
use crate::shelves::{Grid, Grids};
use seiner_bundle::{ChunkRows, Directory, SourceRows};
use seiner_codec::varint;
use seiner_model::Interval;
use std::collections::HashMap;
use std::sync::Arc;

/// Decoded chunks that a reader keeps: about 60 KiB each.
const CHUNKS_KEPT: usize = 1024;
/// Missing directories that are read one by one. If more are missing, those of the whole cell are read.
const SINGLE: usize = 4;
/// Parts of data that a reader keeps: 64 KiB or more each.
const PARTS_KEPT: usize = 128;

/// Rows of one source in a bundle.
pub(crate) struct Layer {
    /// Stamp of the rows.
    pub stamp: u64,
    /// Number of the bundle.
    pub bundle: BundleId,
    /// Rows.
    pub rows: SourceRows,
}

/// Unreadable part of the distributed store.
pub(crate) struct BlockDamage {
    /// Table and bundle.
    pub place: String,
    /// Expected and found contents.
    pub what: String,
}

/// Directory of a bundle with the places of its parts.
pub(crate) struct Opened {
    pub id: BundleId,
    stamp: u64,
    /// Ends of the parts in the data.
    ends: Vec<usize>,
    pub directory: Directory,
}

/// Directories of a cell, opened.
type Directories = Arc<Vec<Arc<Opened>>>;
/// Identity of a chunk or part: table, cell, bundle, number.
type PartKey = (usize, Cell, BundleId, usize);

/// Returns the periods of a shelf that have bundles.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn periods_of(
    rows: &dyn Rows,
    tables: &ClassTables,
    grid: u16,
    shelf: u32,
) -> Result<Vec<i64>, RowsError> {
    let partition = periods(grid, shelf);
    let range = Range::whole(&tables.directories, &partition);
    let found = rows.range(&range, Level::Quorum)?.into_iter();
    Ok(found.filter_map(|(key, _)| KeyReader(&key).i64()).collect())
}

/// Reader of the bundles of one query. It keeps what it has read, because neighbouring sources share chunks.
pub(crate) struct Blocks {
    rows: Arc<dyn Rows>,
    /// Grids that the port knows.
    known: Arc<Grids>,
    /// Grids to look at.
    grids: Arc<[Grid]>,
    /// Tables of all classes, late ones included.
    tables: Vec<ClassTables>,
    interval: Interval,
    /// Directories that earlier queries have read.
    cache: Arc<DirectoryCache>,
    /// Handovers of this port that the directories contain.
    handovers: u64,
    /// Number of reads of directories.
    reads: u64,
    periods: HashMap<(usize, u16, u32), Arc<[i64]>>,
    directories: HashMap<(usize, Cell), Directories>,
    chunks: HashMap<PartKey, Arc<ChunkRows>>,
    parts: HashMap<PartKey, Arc<Vec<u8>>>,
    /// Damage found since the last call of [`Blocks::take_damage`].
    damage: Vec<BlockDamage>,
}

impl Blocks {
    /// Creates a reader of an interval.
    pub fn new(
        rows: Arc<dyn Rows>,
        known: Arc<Grids>,
        tables: Vec<ClassTables>,
        interval: Interval,
        cache: Arc<DirectoryCache>,
    ) -> Blocks {
        Blocks {
            rows,
            grids: known.known(),
            known,
            tables,
            interval,
            cache,
            handovers: 0,
            reads: 0,
            periods: HashMap::new(),
            directories: HashMap::new(),
            chunks: HashMap::new(),
            parts: HashMap::new(),
            damage: Vec::new(),
        }
    }

    /// Forgets the directories if handovers have been stored since they were read.
    pub fn refresh(&mut self, handovers: u64) {
        if self.handovers != handovers {
            self.handovers = handovers;
            // The handovers may have used a new grid.
            self.grids = self.known.known();
            self.periods.clear();
            self.directories.clear();
        }
    }

    /// Returns the number of reads of directories so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Returns the distributed store.
    pub fn rows(&self) -> &dyn Rows {
        &*self.rows
    }

    /// Returns the damage found so far.
    pub fn take_damage(&mut self) -> Vec<BlockDamage> {
        std::mem::take(&mut self.damage)
    }

    /// Returns the rows of a source in all bundles that overlap the interval. Rows outside the interval may be among
    /// them.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn layers(&mut self, number: u32) -> Result<Vec<Layer>, RowsError> {
        let mut layers = Vec::new();
        for table in 0..self.tables.len() {
            for (grid, rules) in self.grids.clone().iter().enumerate() {
                let (grid, shelf) = (grid as u16, rules.shelf(number));
                for &period in &*self.periods(table, grid, shelf)? {
                    let cell = Cell {
                        grid,
                        shelf,
                        period,
                    };
                    self.read_cell(table, cell, number, &mut layers)?;
                }
            }
        }
        Ok(layers)
    }

    /// Returns the periods of a shelf that overlap the interval and have bundles.
    fn periods(&mut self, table: usize, grid: u16, shelf: u32) -> Result<Arc<[i64]>, RowsError> {
        if let Some(found) = self.periods.get(&(table, grid, shelf)) {
            return Ok(found.clone());
        }
        let rules = &self.grids[grid as usize];
        let first = rules.period(self.interval.start);
        let last = rules.period(self.interval.end);
        let key = |period: i64| KeyBuilder::new().i64(period).done();
        let range = Range {
            table: &self.tables[table].directories,
            partition: &periods(grid, shelf),
            from: &key(first),
            to: Some(&key(last.saturating_add(1))),
            limit: usize::MAX,
        };
        let level = self.tables[table].read;
        let found = self.rows.range(&range, level)?.into_iter();
        let found: Arc<[i64]> = found.filter_map(|(key, _)| KeyReader(&key).i64()).collect();
        self.periods.insert((table, grid, shelf), found.clone());
        Ok(found)
    }

    /// Adds the rows of a source in one cell.
    fn read_cell(
        &mut self,
        table: usize,
        cell: Cell,
        number: u32,
        layers: &mut Vec<Layer>,
    ) -> Result<(), RowsError> {
        for opened in &*self.directories(table, cell)? {
            for chunk in opened.directory.find(u64::from(number)) {
                if !chunk.interval.overlaps(&self.interval) {
                    continue;
                }
                let Some(rows) = self.chunk(table, cell, opened, chunk.index)? else {
                    continue;
                };
                if let Some(rows) = rows.find(u64::from(number)) {
                    layers.push(Layer {
                        stamp: opened.stamp,
                        bundle: opened.id.clone(),
                        rows,
                    });
                }
            }
        }
        Ok(())
    }

    fn directories(&mut self, table: usize, cell: Cell) -> Result<Directories, RowsError> {
        if let Some(found) = self.directories.get(&(table, cell)) {
            return Ok(found.clone());
        }
        let ClassTables {
            directories: name,
            read: level,
            ..
        } = self.tables[table].clone();
        let partition = cell.directories();
        let row = |key: &[u8]| [name.as_bytes(), &[0], &partition, key].concat();
        self.reads += 1;
        let (mut opened, mut missing) = (Vec::new(), Vec::new());
        for key in self.rows.keys(&Range::whole(&name, &partition), level)? {
            match self.cache.get(&row(&key)) {
                Some(directory) => opened.push(directory),
                None => missing.push(key),
            }
        }
        for (key, value) in self.read_directories(table, &partition, missing)? {
            match Opened::parse(&key, &value) {
                Ok(directory) => {
                    let directory = Arc::new(directory);
                    self.cache.insert(row(&key), directory.clone(), value.len());
                    opened.push(directory);
                }
                Err(what) => self.damage.push(BlockDamage {
                    place: format!("{name} {cell:?} {}", String::from_utf8_lossy(&key)),
                    what,
                }),
            }
        }
        let opened = Arc::new(opened);
        self.directories.insert((table, cell), opened.clone());
        Ok(opened)
    }

    /// Reads the rows of some directories of a cell.
    fn read_directories(
        &self,
        table: usize,
        partition: &[u8],
        mut keys: Vec<Vec<u8>>,
    ) -> Result<Vec<Found>, RowsError> {
        let ClassTables {
            directories: table,
            read: level,
            ..
        } = &self.tables[table];
        if keys.len() > SINGLE {
            keys.sort();
            let found = self.rows.range(&Range::whole(table, partition), *level)?;
            let is_wanted = |(key, _): &Found| keys.binary_search(key).is_ok();
            return Ok(found.into_iter().filter(is_wanted).collect());
        }
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            // A row may have expired since it was listed.
            let value = self.rows.read(table, partition, &key, *level)?;
            found.extend(value.map(|value| (key, value)));
        }
        Ok(found)
    }

    /// Decodes a chunk. Returns `None` if it is damaged.
    fn chunk(
        &mut self,
        table: usize,
        cell: Cell,
        opened: &Opened,
        index: usize,
    ) -> Result<Option<Arc<ChunkRows>>, RowsError> {
        let key = (table, cell, opened.id.clone(), index);
        if let Some(found) = self.chunks.get(&key) {
            return Ok(Some(found.clone()));
        }
        let chunk = opened
            .directory
            .chunks()
            .nth(index)
            .expect("an index of the directory");
        let part = opened.ends.partition_point(|&end| end < chunk.end);
        let start = part.checked_sub(1).map_or(0, |before| opened.ends[before]);
        let bytes = self.part(table, cell, opened, part)?;
        let decoded =
            match bytes.get(chunk.start.wrapping_sub(start)..chunk.end.wrapping_sub(start)) {
                Some(bytes) => opened
                    .directory
                    .decode_chunk(index, bytes)
                    .map_err(|error| error.to_string()),
                None => Err(format!(
                    "part {part} has {} bytes and does not contain chunk {index}",
                    bytes.len()
                )),
            };
        match decoded {
            Ok(rows) => {
                if self.chunks.len() >= CHUNKS_KEPT {
                    self.chunks.clear();
                }
                let rows = Arc::new(rows);
                self.chunks.insert(key, rows.clone());
                Ok(Some(rows))
            }
            Err(what) => {
                let place = format!("{} {cell:?} {:?}", self.tables[table].data, opened.id);
                self.damage.push(BlockDamage { place, what });
                Ok(None)
            }
        }
    }

    /// Reads a part of a bundle's data; empty if the row does not exist.
    fn part(
        &mut self,
        table: usize,
        cell: Cell,
        opened: &Opened,
        part: usize,
    ) -> Result<Arc<Vec<u8>>, RowsError> {
        let key = (table, cell, opened.id.clone(), part);
        if let Some(found) = self.parts.get(&key) {
            return Ok(found.clone());
        }
        let row = KeyBuilder::new().u32(part as u32).done();
        let ClassTables {
            data, read: level, ..
        } = &self.tables[table];
        let partition = cell.data(&opened.id);
        let found = self.rows.read(data, &partition, &row, *level)?;
        let bytes = Arc::new(found.unwrap_or_default());
        if self.parts.len() >= PARTS_KEPT {
            self.parts.clear();
        }
        self.parts.insert(key, bytes.clone());
        Ok(bytes)
    }
}

impl Opened {
    /// Parses the row of a directory.
    pub fn parse(key: &[u8], mut value: &[u8]) -> Result<Opened, String> {
        let id = BundleId::parse(key).ok_or("its key is not that of a bundle")?;
        let (&version, rest) = value.split_first().ok_or("its row is empty")?;
        if version != VERSION {
            return Err(format!(
                "its row has version {version}; this program reads {VERSION}"
            ));
        }
        value = rest;
        let mut number = || varint::get_u64(&mut value).map_err(|error| error.to_string());
        let stamp = number()?;
        let count = number()?;
        let ends: Result<Vec<usize>, String> = (0..count.min(1 << 20))
            .map(|_| number().map(|end| end as usize))
            .collect();
        let ends = ends?;
        if !ends.is_sorted() {
            return Err("the ends of its parts do not ascend".to_string());
        }
        let directory = Directory::parse(value).map_err(|error| error.to_string())?;
        if ends.last().copied().unwrap_or(0) as u64 != directory.data_bytes() {
            return Err("its parts and its chunks have different lengths".to_string());
        }
        Ok(Opened {
            id,
            stamp,
            ends,
            directory,
        })
    }
}
