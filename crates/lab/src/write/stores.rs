//! The stores under test: the papers' general model (Z buffers of B bytes, F files, M writers) with
//! the numbers of each, and this project's engine.

use super::{Kind, Layout, SAMPLE_BYTES, Write};
use crate::error::Result;
use crate::interrupt::Interrupt;
use anyhow::Context;
use rustix::fs::FallocateFlags;
use seiner_engine::{Durability, Engine, Options};
use seiner_model::{SourceId, SourceKey};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// B of the stores that choose it themselves.
pub const FIXED_PORTION: u64 = 4096;
/// Files made between two looks at whether the user wants to stop.
const AT_ONCE: u64 = 256;

/// What sensors hand over at once.
pub struct Portion<'a> {
    /// The first sensor.
    pub first: u64,
    /// How many sensors, one behind the other.
    pub count: u64,
    /// How often they had their turn before.
    pub turn: u64,
    /// Bytes that nothing compresses.
    pub contents: &'a [u8],
    /// Where in them this portion begins.
    pub content: usize,
}

/// A store under test.
pub trait Store: Sync {
    /// Takes a portion; answers the bytes of samples taken.
    fn put(&self, portion: &Portion<'_>) -> Result<u64>;

    /// Sensors that it takes at once.
    fn stride(&self) -> u64 {
        1
    }

    /// Bytes of samples after which every sensor has filled a buffer once.
    fn lap_bytes(&self) -> u64;
}

/// Makes a store with everything that its sensors need.
pub fn make(
    kind: Kind,
    settings: &Write,
    sensors: u64,
    portion: u64,
    directories: &[PathBuf],
    interrupt: &Interrupt,
) -> Result<Box<dyn Store>> {
    Ok(match kind {
        Kind::Files => Box::new(Files::make(
            settings,
            sensors,
            portion,
            directories,
            interrupt,
        )?),
        Kind::InPlace => Box::new(InPlace::make(settings, sensors, directories, interrupt)?),
        Kind::Akumuli => Box::new(Volume::make(settings, sensors, directories)?),
        Kind::Yawndb => Box::new(Recovery::make(settings, sensors, directories)?),
        Kind::Log | Kind::LogOnly => {
            Box::new(Log::make(kind, settings, sensors, directories, interrupt)?)
        }
    })
}

/// Where the files of sensors lie: dealt out over directories, 100 entries each or flat.
struct Paths {
    directories: Vec<PathBuf>,
    layout: Layout,
}

impl Paths {
    fn of(&self, sensor: u64) -> PathBuf {
        let directory = &self.directories[(sensor % self.directories.len() as u64) as usize];
        let number = sensor / self.directories.len() as u64;
        match self.layout {
            Layout::Flat => directory.join(format!("{number:08}")),
            Layout::Tree => directory.join(format!(
                "{:02}/{:02}/{:02}/{:02}",
                number / 1_000_000,
                number / 10_000 % 100,
                number / 100 % 100,
                number % 100
            )),
        }
    }

    /// Makes all directories, and each file with `fill`.
    fn make(
        &self,
        sensors: u64,
        interrupt: &Interrupt,
        fill: impl Fn(&Path) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut last = PathBuf::new();
        for sensor in 0..sensors {
            if sensor.is_multiple_of(AT_ONCE) {
                interrupt.check()?;
            }
            let path = self.of(sensor);
            let parent = path.parent().expect("a file lies in a directory");
            if parent != last {
                fs::create_dir_all(parent)
                    .with_context(|| format!("{} was not made", parent.display()))?;
                last = parent.to_owned();
            }
            fill(&path).with_context(|| format!("{} was not made", path.display()))?;
        }
        Ok(())
    }
}

/// The paper's store: open, append, close; rotated by renaming.
struct Files {
    paths: Paths,
    portion: usize,
    rotate_at: u64,
    kept: u64,
    is_synced: bool,
    /// A buffer for every sensor, where that was asked for.
    buffers: Option<Vec<Mutex<Vec<u8>>>>,
    lap: u64,
}

impl Files {
    fn make(
        settings: &Write,
        sensors: u64,
        portion: u64,
        directories: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<Files> {
        let paths = Paths {
            directories: directories.to_vec(),
            layout: settings.layout,
        };
        paths.make(sensors, interrupt, |path| File::create(path).map(drop))?;
        let buffer = || Mutex::new(vec![1; portion as usize]);
        Ok(Files {
            paths,
            portion: portion as usize,
            rotate_at: settings.rotate_at(sensors),
            kept: settings.kept,
            is_synced: settings.is_synced,
            buffers: settings
                .is_buffered
                .then(|| (0..sensors).map(|_| buffer()).collect()),
            lap: sensors * portion,
        })
    }

    fn append(&self, sensor: u64, bytes: &[u8]) -> std::io::Result<()> {
        let path = self.paths.of(sensor);
        let open = || OpenOptions::new().append(true).create(true).open(&path);
        let mut file = open()?;
        if file.metadata()?.len() + bytes.len() as u64 > self.rotate_at {
            drop(file);
            self.rotate(&path)?;
            file = open()?;
        }
        file.write_all(bytes)?;
        if self.is_synced {
            file.sync_data()?;
        }
        Ok(())
    }

    /// The oldest of the kept files is removed by what is renamed over it.
    fn rotate(&self, path: &Path) -> std::io::Result<()> {
        let old = |number: u64| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.kept - 1).rev() {
            match fs::rename(old(number), old(number + 1)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        fs::rename(path, old(1))
    }
}

impl Store for Files {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let bytes = &portion.contents[portion.content..portion.content + self.portion];
        match &self.buffers {
            Some(buffers) => {
                let mut buffer = buffers[portion.first as usize]
                    .lock()
                    .expect("a sensor has one writer");
                buffer.copy_from_slice(bytes);
                self.append(portion.first, &buffer)?;
            }
            None => self.append(portion.first, bytes)?,
        }
        Ok(bytes.len() as u64)
    }

    fn lap_bytes(&self) -> u64 {
        self.lap
    }
}

/// As RRDtool: no buffers (Z = 0), F = S, every sample updates a ring in its file at once.
struct InPlace {
    paths: Paths,
    is_synced: bool,
    sensors: u64,
}

/// A file of it: a head, and a ring of samples.
const RING_FILE: u64 = 4096;
const RING_HEAD: u64 = 512;
/// What changes in the head at an update.
const LIVE_HEAD: usize = 128;

impl InPlace {
    fn make(
        settings: &Write,
        sensors: u64,
        directories: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<InPlace> {
        let paths = Paths {
            directories: directories.to_vec(),
            layout: settings.layout,
        };
        let zeros = [0; RING_FILE as usize];
        paths.make(sensors, interrupt, |path| fs::write(path, zeros))?;
        Ok(InPlace {
            paths,
            is_synced: settings.is_synced,
            sensors,
        })
    }
}

impl Store for InPlace {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let slots = (RING_FILE - RING_HEAD) / SAMPLE_BYTES;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.paths.of(portion.first))?;
        let mut head = [0; RING_HEAD as usize];
        file.read_exact_at(&mut head, 0)?;
        let sample = &portion.contents[portion.content..portion.content + SAMPLE_BYTES as usize];
        file.write_all_at(sample, RING_HEAD + portion.turn % slots * SAMPLE_BYTES)?;
        head[..8].copy_from_slice(&portion.turn.to_le_bytes());
        file.write_all_at(&head[..LIVE_HEAD], 0)?;
        if self.is_synced {
            file.sync_data()?;
        }
        Ok(SAMPLE_BYTES)
    }

    fn lap_bytes(&self) -> u64 {
        self.sensors * SAMPLE_BYTES
    }
}

/// As Akumuli: Z = S, B = 4096, F = 1; every 32 blocks an index block in the same log; a ring.
struct Volume {
    file: File,
    next: AtomicU64,
    blocks: u64,
    is_synced: bool,
    lap: u64,
}

/// Blocks below one index block.
const FAN_OUT: u64 = 32;

impl Volume {
    fn make(settings: &Write, sensors: u64, directories: &[PathBuf]) -> Result<Volume> {
        let file = File::create(directories[0].join("volume"))?;
        let blocks = (settings.room_bytes as f64 * super::FILL) as u64 / FIXED_PORTION;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, blocks * FIXED_PORTION) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => {
                return Err(anyhow::Error::from(error)
                    .context("the volume was not made")
                    .into());
            }
        }
        let lap = sensors * FIXED_PORTION;
        Ok(Volume {
            file,
            next: AtomicU64::new(0),
            blocks,
            is_synced: settings.is_synced,
            lap,
        })
    }
}

impl Store for Volume {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let block = &portion.contents[portion.content..portion.content + FIXED_PORTION as usize];
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let place = |place: u64| place % self.blocks * FIXED_PORTION;
        let before = number + number / FAN_OUT;
        self.file.write_all_at(block, place(before))?;
        if (number + 1).is_multiple_of(FAN_OUT) {
            self.file.write_all_at(block, place(before + 1))?;
        }
        if self.is_synced {
            self.file.sync_data()?;
        }
        Ok(FIXED_PORTION)
    }

    fn lap_bytes(&self) -> u64 {
        self.lap
    }
}

/// As YAWNDB: rings in memory (Z = S), and a record for each sample in a Bitcask (F = 1, M = 1).
struct Recovery {
    directory: PathBuf,
    current: Mutex<Current>,
    rings: Vec<AtomicU64>,
    room: u64,
    is_synced: bool,
}

/// The file that is being appended to.
struct Current {
    file: File,
    number: u64,
    bytes: u64,
}

/// Checksum, time, sizes of key and value; and the key.
const RECORD_HEAD: usize = 14 + 8;
/// R of Bitcask.
const ROTATE_AT: u64 = 1 << 30;
/// Samples of a ring.
const RING: u64 = 8;

impl Recovery {
    fn make(settings: &Write, sensors: u64, directories: &[PathBuf]) -> Result<Recovery> {
        let directory = directories[0].clone();
        let file = File::create(directory.join("0"))?;
        Ok(Recovery {
            directory,
            current: Mutex::new(Current {
                file,
                number: 0,
                bytes: 0,
            }),
            rings: (0..sensors * RING).map(|_| AtomicU64::new(0)).collect(),
            room: (settings.room_bytes as f64 * super::FILL) as u64,
            is_synced: settings.is_synced,
        })
    }
}

impl Store for Recovery {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let sample = &portion.contents[portion.content..portion.content + SAMPLE_BYTES as usize];
        let value = u64::from_le_bytes(sample[8..16].try_into().expect("eight bytes"));
        self.rings[(portion.first * RING + portion.turn % RING) as usize]
            .store(value, Ordering::Relaxed);
        let mut record = [0; RECORD_HEAD + SAMPLE_BYTES as usize];
        record[14..22].copy_from_slice(&portion.first.to_le_bytes());
        record[22..].copy_from_slice(sample);
        let mut current = self.current.lock().expect("nobody panics with the file");
        if current.bytes >= ROTATE_AT.min(self.room / 3) {
            let number = current.number + 1;
            *current = Current {
                file: File::create(self.directory.join(number.to_string()))?,
                number,
                bytes: 0,
            };
            // Everything in the file before the last is overwritten in memory by now.
            if number >= 2 {
                fs::remove_file(self.directory.join((number - 2).to_string()))?;
            }
        }
        current.file.write_all(&record)?;
        current.bytes += record.len() as u64;
        if self.is_synced {
            current.file.sync_data()?;
        }
        Ok(SAMPLE_BYTES)
    }

    fn lap_bytes(&self) -> u64 {
        self.rings.len() as u64 / RING * SAMPLE_BYTES
    }
}

/// This project's engine: every sensor a source with one field.
struct Log {
    engine: Arc<Engine>,
    sources: Vec<SourceId>,
    /// Samples of each series so far: one counter for all, since times only have to rise.
    rounds: AtomicU64,
    is_synced: bool,
    lap: u64,
}

/// The first time of all series, ns; and the step between samples of one.
const FIRST_TIME: i64 = 1_700_000_000_000_000_000;
const STEP: i64 = 10_000_000_000;
/// Samples handed over at once.
const ROWS: u64 = 1024;

impl Log {
    fn make(
        kind: Kind,
        settings: &Write,
        sensors: u64,
        directories: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<Log> {
        let durability = match kind {
            Kind::LogOnly => Durability::Memory,
            _ if settings.is_synced => Durability::Sync,
            _ => Durability::Interval(Duration::from_millis(100)),
        };
        let mut options = Options {
            durability,
            ..Options::default()
        };
        if settings.memory_bytes > 0 {
            // The other half is for the page cache and this program.
            options.memory = settings.memory_bytes / 2;
        }
        let memory = options.memory;
        let block_bytes = u64::from(options.block_bytes);
        let engine = Engine::open_directory(&directories[0].join("store"), options)?;
        let mut sources = Vec::new();
        for sensor in 0..sensors {
            if sensor.is_multiple_of(AT_ONCE) {
                interrupt.check()?;
            }
            let key = SourceKey::new("sensor", [("number", sensor.to_string())])
                .context("a name was refused")?;
            let source = engine
                .register(&key)?
                .map_err(|reason| anyhow::anyhow!("a source was refused: {reason}"))?;
            sources.push(source);
        }
        // A buffer holds B encoded bytes, or its share of the memory where that is less; a random
        // value takes nearly nine bytes.
        let buffer = block_bytes.min(memory / sensors.max(1) * 3 / 4);
        let lap = sensors * buffer * SAMPLE_BYTES / 9;
        Ok(Log {
            engine,
            sources,
            rounds: AtomicU64::new(0),
            is_synced: settings.is_synced,
            lap,
        })
    }
}

impl Store for Log {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let turn = &self.sources[portion.first as usize..(portion.first + portion.count) as usize];
        // Few sensors hand over several samples each, so that calls are not what is measured.
        let turns = (ROWS / self.sources.len() as u64).max(1);
        let first = self.rounds.fetch_add(turns, Ordering::Relaxed);
        let rows = turns as usize * turn.len();
        let mut sources = Vec::with_capacity(rows);
        let mut times = Vec::with_capacity(rows);
        for round in first..first + turns {
            sources.extend_from_slice(turn);
            times.resize(sources.len(), FIRST_TIME + round as i64 * STEP);
        }
        let words = portion.contents.chunks_exact(8).cycle();
        let values: Vec<f64> = words
            .skip(portion.content / 8)
            .map(value)
            .take(rows)
            .collect();
        let receipt = self
            .engine
            .append_samples("value", &sources, &times, &values)?;
        if self.is_synced {
            self.engine.wait_durable(receipt.position)?;
        }
        Ok(rows as u64 * SAMPLE_BYTES)
    }

    fn stride(&self) -> u64 {
        ROWS
    }

    fn lap_bytes(&self) -> u64 {
        self.lap
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The directory goes next: what is not written need not be.
        let _ = self.engine.close();
    }
}

/// A value with 52 random bits: the worst that a sensor can send.
fn value(word: &[u8]) -> f64 {
    let bits = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    f64::from_bits(bits >> 12 | 0x3ff0_0000_0000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Profile;

    fn settings(directory: &Path) -> Write {
        Write {
            room_bytes: 1 << 20,
            ..Write::new(directory.to_owned(), Profile::Toy)
        }
    }

    #[test]
    fn no_directory_has_more_than_a_hundred_entries() {
        let paths = Paths {
            directories: vec!["/a".into(), "/b".into()],
            layout: Layout::Tree,
        };
        assert_eq!(paths.of(0), Path::new("/a/00/00/00/00"));
        assert_eq!(paths.of(2_469_135), Path::new("/b/01/23/45/67"));
        let flat = Paths {
            directories: vec!["/a".into()],
            layout: Layout::Flat,
        };
        assert_eq!(flat.of(12), Path::new("/a/00000012"));
    }

    #[test]
    fn files_are_rotated_and_the_oldest_go() {
        let home = tempfile::tempdir().unwrap();
        let set = Write {
            room_bytes: 20_000,
            kept: 3,
            ..settings(home.path())
        };
        let files = Files::make(
            &set,
            2,
            1000,
            &[home.path().to_owned()],
            &Interrupt::default(),
        )
        .unwrap();
        assert_eq!(files.rotate_at, 3000);
        for turn in 0..30 {
            for first in 0..2 {
                let portion = Portion {
                    first,
                    count: 1,
                    turn,
                    contents: &[7; 1000],
                    content: 0,
                };
                assert_eq!(files.put(&portion).unwrap(), 1000);
            }
        }
        let directory = home.path().join("00/00/00");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 6);
        for entry in fs::read_dir(&directory).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().len() <= 3000);
        }
    }

    #[test]
    fn every_store_takes_what_it_is_given() {
        for kind in Kind::ALL {
            let home = tempfile::tempdir().unwrap();
            let directories = [home.path().to_owned()];
            let store = make(
                kind,
                &settings(home.path()),
                3,
                4096,
                &directories,
                &Interrupt::default(),
            )
            .unwrap();
            assert!(store.lap_bytes() > 0, "{kind:?}");
            let contents = vec![9; 8192];
            for turn in 0..400 {
                let portion = Portion {
                    first: 1,
                    count: store.stride().min(2),
                    turn,
                    contents: &contents,
                    content: 4096,
                };
                assert!(store.put(&portion).unwrap() > 0, "{kind:?}");
            }
        }
    }
}
