//! An opened block: its series one after the other, and the samples of their chunks.
//!
//! Every part is read only if its checksum is right. A damaged series or chunk costs only its own samples.

use super::symbols::Symbols;
use super::window::Window;
use anyhow::{Context, Result, anyhow, ensure};
use seiner_codec::checksum;
use seiner_wire::remote_write::METRIC_NAME;
use seiner_wire::tsdb::chunk::{self, Encoding};
use seiner_wire::tsdb::index::{self, CONTENTS_BYTES, ChunkMeta, Contents, SERIES_ALIGNMENT};
use seiner_wire::tsdb::tombstones;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a read.
const PIECE: usize = 64 << 10;

/// Maximum bytes of a series. A chunk of a series takes about 8 bytes.
const SERIES_BYTES: u64 = 64 << 20;

/// Maximum bytes of the tombstones.
const TOMBSTONES_BYTES: u64 = 256 << 20;

/// Maximum number of characters of a name in a message.
const SHOWN_CHARS: usize = 300;

const CHECKSUM_BYTES: usize = 4;

/// Names and values of labels, in the order of the names.
pub type Labels = Vec<(Arc<str>, Arc<str>)>;

/// Damaged files, with the position and the reason.
pub type Damages = Vec<(PathBuf, anyhow::Error)>;

/// A series of a block.
#[derive(Clone, Debug, Default)]
pub struct BlockSeries {
    pub labels: Labels,
    pub chunks: Vec<ChunkMeta>,
    /// Deleted intervals, in ms since 1970, both ends included.
    pub deleted: Vec<(i64, i64)>,
}

/// A block that is being read.
pub struct Block {
    folder: PathBuf,
    index: Window,
    symbols: Option<Symbols>,
    deleted: HashMap<u64, Vec<(i64, i64)>>,
    /// Position of the next series.
    next: u64,
    /// End of the series.
    end: u64,
    /// File of the last chunk.
    chunks: Option<ChunkFile>,
}

/// File with chunks.
struct ChunkFile {
    number: u32,
    /// `None` if the file cannot be read. This was reported.
    window: Option<Window>,
}

/// Samples of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Samples were appended.
    Samples,
    /// The chunk has another encoding, and this many samples.
    Unsupported(Encoding, u16),
    /// The chunk is damaged. This was reported.
    Damaged,
}

impl Block {
    /// Opens a block, before its first series.
    ///
    /// # Errors
    /// If the index cannot be read, or the deletes are unknown.
    pub fn open(folder: &Path) -> Result<Block> {
        let path = folder.join("index");
        let mut index = Window::open(&path, PIECE)?;
        let contents = contents(&mut index).context("the file index is damaged")?;
        let symbols = match contents.series_end {
            0 => None,
            _ => Some(Symbols::open(&path, contents.symbols).context("the file index is damaged")?),
        };
        Ok(Block {
            folder: folder.to_path_buf(),
            index,
            symbols,
            deleted: deleted(&folder.join("tombstones"))?,
            next: contents.series.next_multiple_of(SERIES_ALIGNMENT),
            end: contents.series_end,
            chunks: None,
        })
    }

    /// Reads the next series that is not damaged. Returns `None` at the end.
    /// A file that cannot be read ends there.
    pub fn next(&mut self, damages: &mut Damages) -> Option<BlockSeries> {
        self.try_next(damages).unwrap_or_else(|error| {
            self.next = self.end;
            damages.push((self.folder.clone(), error));
            None
        })
    }

    fn try_next(&mut self, damages: &mut Damages) -> Result<Option<BlockSeries>> {
        let mut is_reported = false;
        while self.next < self.end {
            let at = self.next;
            self.next += SERIES_ALIGNMENT;
            let error = match self.series_at(at)? {
                Read::Padding => continue,
                Read::Series(series, end) => {
                    self.next = end.next_multiple_of(SERIES_ALIGNMENT);
                    match series {
                        Ok(series) => return Ok(Some(series)),
                        Err(error) => error,
                    }
                }
                // The length may be damaged. The next series begins at one of the next units.
                Read::Damaged(error) if is_reported => {
                    drop(error);
                    continue;
                }
                Read::Damaged(error) => {
                    is_reported = true;
                    error
                }
            };
            let error = error.context(format!("the series at byte {at} is damaged"));
            damages.push((self.index.path().to_path_buf(), error));
        }
        Ok(None)
    }

    /// Reads the series at a position.
    fn series_at(&mut self, at: u64) -> Result<Read> {
        let begin = self.index.read(at, index::MAX_LENGTH_BYTES)?;
        let (length, start) = match index::decode_length(begin) {
            Ok((0, _)) => return Ok(Read::Padding),
            Ok((length, bytes)) => (length, at + bytes as u64),
            Err(error) => return Ok(Read::Damaged(error.into())),
        };
        if length > SERIES_BYTES || start + length + CHECKSUM_BYTES as u64 > self.end {
            return Ok(Read::Damaged(anyhow!("its length {length} is impossible")));
        }
        let bytes = self.index.read(start, length as usize + CHECKSUM_BYTES)?;
        let end = start + bytes.len() as u64;
        let content = match checked(bytes) {
            Ok(content) => content,
            Err(error) => return Ok(Read::Damaged(error)),
        };
        let found = index::decode_series(content);
        let series = match (found, &mut self.symbols) {
            (Ok(found), Some(symbols)) => resolve(symbols, &found).map(|labels| BlockSeries {
                labels,
                chunks: found.chunks,
                deleted: self
                    .deleted
                    .get(&(at / SERIES_ALIGNMENT))
                    .cloned()
                    .unwrap_or_default(),
            }),
            (Err(error), _) => Err(error.into()),
            (Ok(_), None) => Err(anyhow!("the index has no symbols")),
        };
        Ok(Read::Series(series, end))
    }

    /// Appends the samples of a chunk: times in ms since 1970, and values.
    pub fn read_chunk(
        &mut self,
        meta: ChunkMeta,
        labels: &Labels,
        samples: &mut Vec<(i64, f64)>,
        damages: &mut Damages,
    ) -> Content {
        if self
            .chunks
            .as_ref()
            .is_none_or(|file| file.number != meta.file)
        {
            let path = self
                .folder
                .join("chunks")
                .join(format!("{:06}", u64::from(meta.file) + 1));
            let window = open_chunks(&path).map_err(|error| damages.push((path, error)));
            self.chunks = Some(ChunkFile {
                number: meta.file,
                window: window.ok(),
            });
        }
        let window = self.chunks.as_mut().and_then(|file| file.window.as_mut());
        let Some(window) = window else {
            return Content::Damaged;
        };
        let before = samples.len();
        read_chunk(window, u64::from(meta.offset), samples).unwrap_or_else(|error| {
            samples.truncate(before);
            let (at, series) = (meta.offset, shown(labels));
            let error = error.context(format!("the chunk at byte {at} of {series} is damaged"));
            damages.push((window.path().to_path_buf(), error));
            Content::Damaged
        })
    }
}

/// Returns labels for people, as PromQL writes them: `up{job="a"}`. Long texts are cut.
pub fn shown(labels: &Labels) -> String {
    let (mut metric, mut tags) = ("", Vec::new());
    for (name, value) in labels {
        match &**name {
            METRIC_NAME => metric = value,
            name => tags.push(format!("{name}={value:?}")),
        }
    }
    let text = match tags.is_empty() && !metric.is_empty() {
        true => metric.to_string(),
        false => format!("{metric}{{{}}}", tags.join(",")),
    };
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Bytes at the position of a series.
enum Read {
    /// A series whose checksum is right, and its end.
    Series(Result<BlockSeries>, u64),
    /// Zeros between series.
    Padding,
    Damaged(anyhow::Error),
}

/// Reads the table of contents at the end of an index.
fn contents(index: &mut Window) -> Result<Contents> {
    index::check_header(index.read(0, index::HEADER_BYTES)?)?;
    let end = index
        .bytes()
        .checked_sub((CONTENTS_BYTES + CHECKSUM_BYTES) as u64);
    let end = end.context("the file is too short")?;
    let bytes = checked(index.read(end, CONTENTS_BYTES + CHECKSUM_BYTES)?)
        .context("the table of contents")?;
    Ok(index::decode_contents(bytes, end)?)
}

/// Removes the checksum at the end of bytes, and compares it.
fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let parts = bytes.split_last_chunk::<CHECKSUM_BYTES>();
    let (content, stated) = parts.context("the file is too short")?;
    compare(content, u32::from_be_bytes(*stated))?;
    Ok(content)
}

fn compare(content: &[u8], stated: u32) -> Result<()> {
    let found = checksum(content);
    ensure!(
        found == stated,
        "the checksum is {found:08x} instead of {stated:08x}"
    );
    Ok(())
}

fn resolve(symbols: &mut Symbols, series: &index::Series) -> Result<Labels> {
    let labels = series.labels.iter();
    labels
        .map(|&(name, value)| Ok((symbols.get(name)?, symbols.get(value)?)))
        .collect()
}

/// Reads the deletes of a block, by the reference to the series.
///
/// # Errors
/// If they are damaged. Deleted samples must not return.
fn deleted(path: &Path) -> Result<HashMap<u64, Vec<(i64, i64)>>> {
    let mut deleted: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
    let read = fs::metadata(path).and_then(|metadata| match metadata.len() {
        bytes if bytes > TOMBSTONES_BYTES => Err(std::io::Error::other("the file is too large")),
        _ => fs::read(path),
    });
    let file = match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(deleted),
        read => read.context("the file tombstones cannot be read")?,
    };
    let context = "the file tombstones is damaged, and deleted samples would return; to import all samples, remove it";
    let found = tombstones::parse(&file).map_err(anyhow::Error::from);
    let found = found.and_then(|(covered, stated)| {
        compare(covered, stated)?;
        Ok(tombstones::decode(covered)?)
    });
    for one in found.context(context)? {
        let intervals = deleted.entry(one.series).or_default();
        intervals.push((one.first_ms, one.last_ms));
    }
    Ok(deleted)
}

fn open_chunks(path: &Path) -> Result<Window> {
    let mut window = Window::open(path, PIECE)?;
    chunk::check_header(window.read(0, chunk::HEADER_BYTES)?)
        .context("no chunk of this file can be read")?;
    Ok(window)
}

fn read_chunk(window: &mut Window, at: u64, samples: &mut Vec<(i64, f64)>) -> Result<Content> {
    let bytes = chunk::chunk_bytes(window.read(at, chunk::MAX_LENGTH_BYTES)?)?;
    let chunk = chunk::parse(window.read(at, bytes)?)?;
    compare(chunk.covered, chunk.checksum)?;
    Ok(match chunk.encoding {
        Encoding::Xor => {
            chunk::decode_xor(chunk.data, samples)?;
            Content::Samples
        }
        other => Content::Unsupported(other, chunk::sample_count(chunk.data)),
    })
}
