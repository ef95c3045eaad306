//! Reading of bundles.

use super::writer::VERSION;
use super::{BundleId, Cell, ClassTables, DirectoryCache, periods};
use crate::keys::{KeyBuilder, KeyReader};
use crate::rows::{Found, Level, Range, Reading, Rows, RowsError, Selection};
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

/// Periods of an interval that are taken without being looked up: fewer requests that follow each other.
const FEW_PERIODS: i64 = 2;
/// Parts that are read at the same time.
const PARTS_AT_ONCE: usize = 32;

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

/// Chunk that may have rows of a source.
struct Wanted {
    /// Number of the table.
    table: usize,
    cell: Cell,
    opened: Arc<Opened>,
    /// Number of the chunk in the bundle.
    index: usize,
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
        let cells = self.cells(number)?;
        self.read_directories(&cells)?;
        let wanted = self.wanted_chunks(&cells, number);
        self.read_parts(&wanted)?;
        let mut layers = Vec::new();
        for Wanted {
            table,
            cell,
            opened,
            index,
        } in wanted
        {
            let Some(rows) = self.chunk(table, cell, &opened, index)? else {
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
        Ok(layers)
    }

    /// Returns the cells that may have bundles with rows of a source in the interval, with the numbers of their tables.
    fn cells(&mut self, number: u32) -> Result<Vec<(usize, Cell)>, RowsError> {
        let mut shelves = Vec::new();
        for table in 0..self.tables.len() {
            for (grid, rules) in self.grids.iter().enumerate() {
                shelves.push((table, grid as u16, rules.shelf(number)));
            }
        }
        self.read_periods(&shelves)?;
        let cells = shelves.into_iter().flat_map(|key| {
            let (table, grid, shelf) = key;
            let cell = move |&period: &i64| Cell {
                grid,
                shelf,
                period,
            };
            let periods = self.periods[&key].iter();
            periods.map(move |period| (table, cell(period)))
        });
        Ok(cells.collect())
    }

    /// Finds the periods of shelves that overlap the interval and have bundles. A few periods are taken without being
    /// looked up: a period without bundles has no directories.
    fn read_periods(&mut self, shelves: &[(usize, u16, u32)]) -> Result<(), RowsError> {
        let (mut missing, mut readings) = (Vec::new(), Vec::new());
        for &(table, grid, shelf) in shelves {
            if self.periods.contains_key(&(table, grid, shelf)) {
                continue;
            }
            let rules = &self.grids[grid as usize];
            let first = rules.period(self.interval.start);
            let last = rules.period(self.interval.end);
            if last.saturating_sub(first) < FEW_PERIODS {
                let few: Arc<[i64]> = (first..=last).collect();
                self.periods.insert((table, grid, shelf), few);
                continue;
            }
            let key = |period: i64| KeyBuilder::new().i64(period).done();
            missing.push((table, grid, shelf));
            readings.push(Reading {
                table: self.tables[table].directories.as_str().into(),
                partition: periods(grid, shelf),
                rows: Selection::Between(key(first), key(last.saturating_add(1))),
                level: self.tables[table].read,
            });
        }
        let answers = self.answers(readings)?;
        for (key, found) in missing.into_iter().zip(answers) {
            let found = found.into_iter();
            let found = found.filter_map(|(key, _)| KeyReader(&key).i64()).collect();
            self.periods.insert(key, found);
        }
        Ok(())
    }

    /// Opens the directories of cells, unless they are open.
    fn read_directories(&mut self, cells: &[(usize, Cell)]) -> Result<(), RowsError> {
        let missing = cells
            .iter()
            .filter(|cell| !self.directories.contains_key(cell));
        let missing: Vec<(usize, Cell)> = missing.copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.reads += 1;
        let reading = |&(table, cell): &(usize, Cell), rows: Selection| Reading {
            table: self.tables[table].directories.as_str().into(),
            partition: cell.directories(),
            rows,
            level: self.tables[table].read,
        };
        let listings = missing.iter().map(|cell| reading(cell, Selection::Keys));
        let listed = self.answers(listings.collect())?;
        let mut opened: Vec<Vec<Arc<Opened>>> = Vec::new();
        // Directories that the cache lacks: the position of the cell, and the request.
        let mut lacking = Vec::new();
        for (at, (cell, keys)) in missing.iter().zip(listed).enumerate() {
            let (known, keys) = self.cached(*cell, keys);
            opened.push(known);
            match keys.len() > SINGLE {
                true => lacking.push((at, reading(cell, Selection::All))),
                false => lacking.extend(
                    keys.into_iter()
                        .map(|key| (at, reading(cell, Selection::One(key)))),
                ),
            }
        }
        let (places, readings): (Vec<usize>, Vec<Reading>) = lacking.into_iter().unzip();
        for (at, found) in places.into_iter().zip(self.answers(readings)?) {
            self.open(missing[at], found, &mut opened[at]);
        }
        for (cell, opened) in missing.into_iter().zip(opened) {
            self.directories.insert(cell, Arc::new(opened));
        }
        Ok(())
    }

    /// Divides the directories of a cell into those of the cache, and the keys of the others.
    fn cached(
        &self,
        (table, cell): (usize, Cell),
        keys: Vec<Found>,
    ) -> (Vec<Arc<Opened>>, Vec<Vec<u8>>) {
        let (mut known, mut others) = (Vec::new(), Vec::new());
        for (key, _) in keys {
            match self.cache.get(&self.cache_key(table, cell, &key)) {
                Some(directory) => known.push(directory),
                None => others.push(key),
            }
        }
        (known, others)
    }

    /// Opens the found directories of a cell that are not open. A row may have expired since it was listed.
    fn open(
        &mut self,
        (table, cell): (usize, Cell),
        found: Vec<Found>,
        opened: &mut Vec<Arc<Opened>>,
    ) {
        for (key, value) in found {
            match Opened::parse(&key, &value) {
                Ok(directory) if opened.iter().any(|known| known.id == directory.id) => {}
                Ok(directory) => {
                    let directory = Arc::new(directory);
                    let row = self.cache_key(table, cell, &key);
                    self.cache.insert(row, directory.clone(), value.len());
                    opened.push(directory);
                }
                Err(what) => self.damage.push(BlockDamage {
                    place: format!(
                        "{} {cell:?} {}",
                        self.tables[table].directories,
                        String::from_utf8_lossy(&key)
                    ),
                    what,
                }),
            }
        }
    }

    fn cache_key(&self, table: usize, cell: Cell, key: &[u8]) -> Vec<u8> {
        let name = self.tables[table].directories.as_bytes();
        [name, &[0], &cell.directories(), key].concat()
    }

    /// Returns the chunks of cells that may have rows of a source in the interval.
    fn wanted_chunks(&self, cells: &[(usize, Cell)], number: u32) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for &(table, cell) in cells {
            for opened in &*self.directories[&(table, cell)] {
                let chunks = opened.directory.find(u64::from(number));
                let chunks = chunks.filter(|chunk| chunk.interval.overlaps(&self.interval));
                wanted.extend(chunks.map(|chunk| Wanted {
                    table,
                    cell,
                    opened: opened.clone(),
                    index: chunk.index,
                }));
            }
        }
        wanted
    }

    /// Reads the first parts that chunks need and that are missing here, as many as are kept.
    fn read_parts(&mut self, wanted: &[Wanted]) -> Result<(), RowsError> {
        let mut missing: Vec<PartKey> = Vec::new();
        let mut readings = Vec::new();
        for chunk in wanted {
            let Wanted {
                table,
                cell,
                opened,
                index,
            } = chunk;
            if self
                .chunks
                .contains_key(&(*table, *cell, opened.id.clone(), *index))
            {
                continue;
            }
            let key = (*table, *cell, opened.id.clone(), opened.part_of(*index));
            if self.parts.contains_key(&key) || missing.contains(&key) {
                continue;
            }
            readings.push(self.part_reading(&key));
            missing.push(key);
            if missing.len() == PARTS_AT_ONCE {
                break;
            }
        }
        for (key, found) in missing.into_iter().zip(self.answers(readings)?) {
            self.keep_part(key, found);
        }
        Ok(())
    }

    fn answers(&self, readings: Vec<Reading>) -> Result<Vec<Vec<Found>>, RowsError> {
        match readings.is_empty() {
            true => Ok(Vec::new()),
            false => self.rows.read_all(readings),
        }
    }

    fn part_reading(&self, (table, cell, id, part): &PartKey) -> Reading {
        Reading {
            table: self.tables[*table].data.as_str().into(),
            partition: cell.data(id),
            rows: Selection::One(KeyBuilder::new().u32(*part as u32).done()),
            level: self.tables[*table].read,
        }
    }

    /// Keeps the answer to a [`Blocks::part_reading`]; empty if the row does not exist.
    fn keep_part(&mut self, key: PartKey, found: Vec<Found>) -> Arc<Vec<u8>> {
        let bytes = found.into_iter().next().map(|(_, value)| value);
        let bytes = Arc::new(bytes.unwrap_or_default());
        if self.parts.len() >= PARTS_KEPT {
            self.parts.clear();
        }
        self.parts.insert(key, bytes.clone());
        bytes
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
        let part = opened.part_of(index);
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

    /// Returns a part of a bundle's data; empty if the row does not exist.
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
        let reading = self.part_reading(&key);
        let found = self.answers(vec![reading])?.pop();
        Ok(self.keep_part(key, found.unwrap_or_default()))
    }
}

impl Opened {
    /// Returns the number of the part that contains a chunk.
    fn part_of(&self, chunk: usize) -> usize {
        let chunk = self.directory.chunks().nth(chunk);
        let end = chunk.expect("an index of the directory").end;
        self.ends.partition_point(|&part| part < end)
    }

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
