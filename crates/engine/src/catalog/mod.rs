//! Catalog: the dictionary on disk.
//!
//! Each seal of a segment adds a frame with the sources and layouts that are new since the previous
//! frame, and with the new layouts of existing sources. Later registrations are in the journal. No
//! block can be read without the catalog, so it is stored in two identical files. A damaged part of
//! one file is read from the other. `docs/format/catalog.md` specifies the bytes.

mod ahead;
mod compact;
mod decoder;
mod frame;
mod prune;
#[cfg(test)]
mod tests;

pub use self::ahead::{AHEAD, NamesAhead, Waiting};
pub use self::compact::NEW;
pub use self::decoder::decode_ahead;
pub use self::frame::{
    Frame, LOST, Name, ReadFrame, ReadName, Registers, check_known, get_key, get_layout, get_name,
    lose_sources, lost_keys, malformed, not_free, pass_key, put_key, put_layout, put_link,
    put_reused, read_links, read_streams, register, register_reused,
};

use self::prune::Forgotten;
use crate::bytes::{Cursor, Short};
use crate::error::{Error, io_error, sync_error};
use crate::space::on_disk;
use seiner_codec::checksum;
use seiner_platform::{Disk, File};
use std::ops::Range;
use std::sync::Arc;

/// Name of the catalog's file.
pub const NAME: &str = "catalog";
/// Name of the copy.
pub const COPY: &str = "catalog.copy";
const MAGIC: &[u8; 8] = b"SEINCATL";
/// Version of a catalog in which no name was ever forgotten.
const FIRST_VERSION: u32 = 1;
/// Version of a catalog whose frames may forget names, without the sequence of a record of the journal.
const SECOND_VERSION: u32 = 2;
/// Version of a catalog that is written anew.
const THIRD_VERSION: u32 = 3;
/// Bytes of the file header of the first version: magic, version, store, checksum.
const HEADER_BYTES: usize = 8 + 4 + 8 + 4;
/// Bytes of the file header of later versions, which also has a generation.
const SECOND_HEADER_BYTES: usize = HEADER_BYTES + 4;
/// Bytes of a frame header: magic, seven words, checksum.
pub const FRAME_HEADER_BYTES: usize = 4 + 4 * 7 + 4;
const FRAME_MAGIC: &[u8; 4] = b"FRAM";
/// Compression level: frames are rare and read at every start, so a small size is worth the time.
const LEVEL: i32 = 3;

/// The open catalog.
pub struct Catalog {
    files: [Arc<dyn File>; 2],
    len: u64,
    header: Header,
    /// Identity of the store, which its journal files and segments also contain.
    pub store: u64,
}

/// Header of a catalog's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    version: u32,
    store: u64,
    /// Number of times that the catalog was written anew. A catalog of the first version has 0.
    generation: u32,
}

impl Header {
    fn len(self) -> usize {
        match self.generation {
            0 => HEADER_BYTES,
            _ => SECOND_HEADER_BYTES,
        }
    }

    fn put(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.store.to_le_bytes());
        if self.generation > 0 {
            bytes.extend_from_slice(&self.generation.to_le_bytes());
        }
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Header> {
        let mut cursor = Cursor(bytes);
        if cursor.take(8).ok()? != MAGIC {
            return None;
        }
        let version = cursor.u32().ok()?;
        let store = cursor.u64().ok()?;
        let generation = match version {
            FIRST_VERSION => 0,
            SECOND_VERSION | THIRD_VERSION => {
                cursor.u32().ok().filter(|&generation| generation > 0)?
            }
            _ => return None,
        };
        let header = Header {
            version,
            store,
            generation,
        };
        (bytes.get(..header.len()) == Some(&header.put()[..])).then_some(header)
    }
}

/// Catalog that was read.
pub struct ReadCatalog {
    /// Identity of the store.
    pub store: u64,
    header: Header,
    /// Offsets of the frames.
    offsets: Vec<usize>,
    /// Names of damaged files, each with the offset at which the damage begins.
    pub damaged: Vec<(&'static str, u64)>,
    /// Correct contents of both files.
    image: Vec<u8>,
    /// State of the catalog and of its copy: true if the file has the correct contents.
    pub whole: [bool; 2],
}

impl ReadCatalog {
    /// Reads the frames, one at a time: together, they would take several times the memory of the file.
    pub fn frames(&self) -> impl Iterator<Item = ReadFrame> {
        self.offsets.iter().map(|&offset| {
            let found = FoundFrame::at(&self.image, offset);
            found.map_or_else(|| without_header(offset), |found| found.read(offset))
        })
    }

    /// Reads the frames as [`ReadCatalog::frames`] does, without the names that a later frame forgets.
    pub fn living_frames(&self) -> impl Iterator<Item = ReadFrame> {
        let forgotten = match self.header.generation {
            0 => Forgotten::default(),
            _ => Forgotten::of(self.frames()),
        };
        self.frames().zip(0..).map(move |(mut read, index)| {
            if let Ok(frame) = &mut read.frame {
                // The registration reports malformed names.
                let _ = forgotten.prune(index, frame);
            }
            read
        })
    }

    /// Returns the number of sources by the last readable header, and at most one per byte of the catalog, so that a
    /// wrong number costs little memory.
    pub fn sources(&self) -> u32 {
        let mut frames = self.offsets.iter().rev();
        let last = frames.find_map(|&offset| FoundFrame::at(&self.image, offset));
        let sources = last.map_or(0, |found| found.end_source());
        sources.min(u32::try_from(self.image.len()).unwrap_or(u32::MAX))
    }

    /// Returns the deletes, floors and rules of each readable frame.
    pub fn dead(&self) -> Vec<Vec<u8>> {
        let frames = self.frames().filter_map(|read| read.frame.ok());
        frames.map(|frame| frame.dead).collect()
    }

    /// Returns the offset of the last frame, or 0.
    pub fn last_frame(&self) -> u64 {
        self.offsets.last().map_or(0, |&offset| offset as u64)
    }

    /// Returns the end of the last valid frame.
    pub fn end(&self) -> u64 {
        self.image.len() as u64
    }
}

/// Reads a catalog without changes. Returns `None` if there is none. Bytes after the last valid
/// frame were being written when the power failed.
pub fn read(disk: &dyn Disk) -> Result<Option<ReadCatalog>, Error> {
    let mut copies = [read_whole(disk, NAME)?, read_whole(disk, COPY)?];
    if copies.iter().all(|bytes| is_blank(bytes)) {
        return Ok(None);
    }
    let headers = copies.each_ref().map(|bytes| Header::read(bytes));
    let newest = headers
        .iter()
        .flatten()
        .max_by_key(|header| header.generation);
    let header = *newest.ok_or_else(|| Error::Damage {
        file: NAME.to_string(),
        offset: 0,
        what: format!("the headers of it and of {COPY} are damaged or of another version; put one back from a copy of the directory"),
    })?;
    for (bytes, found) in copies.iter_mut().zip(headers) {
        // The power failed between the replacements of the two files.
        if found.is_some_and(|found| found.generation < header.generation) {
            bytes.clear();
        }
    }
    let (image, offsets) = find_frames(&copies, header);
    let mut damaged = Vec::new();
    let complete = offsets.last().copied().unwrap_or(0);
    for (name, bytes) in [NAME, COPY].into_iter().zip(&copies) {
        if let Some(at) = bytes
            .iter()
            .zip(&image)
            .position(|(found, whole)| found != whole)
            && !(at >= complete && is_torn(bytes, &image, complete))
        {
            damaged.push((name, at as u64));
        }
    }
    let whole = copies
        .each_ref()
        .map(|bytes| bytes.get(..image.len()) == Some(&image[..]));
    Ok(Some(ReadCatalog {
        store: header.store,
        header,
        offsets,
        damaged,
        image,
        whole,
    }))
}

impl Catalog {
    /// Creates a catalog. `store` should be unique for every store.
    pub fn create(disk: &dyn Disk, store: u64) -> Result<Catalog, Error> {
        let header = Header {
            version: FIRST_VERSION,
            store,
            generation: 0,
        };
        let bytes = header.put();
        let files = [
            write_whole(disk, NAME, &bytes)?,
            write_whole(disk, COPY, &bytes)?,
        ];
        disk.sync_names()
            .map_err(sync_error(|| format!("creating {NAME}")))?;
        Ok(Catalog {
            files,
            len: bytes.len() as u64,
            header,
            store,
        })
    }

    /// Opens a catalog that was read, so that frames can be added. Repairs a damaged file.
    pub fn open(disk: &dyn Disk, read: &ReadCatalog) -> Result<Catalog, Error> {
        let open = |name: &str, whole: bool| match whole {
            true => open_without_rest(disk, name, read.end()),
            false => write_whole(disk, name, &read.image),
        };
        let files = [open(NAME, read.whole[0])?, open(COPY, read.whole[1])?];
        // Readable is not durable: a killed process may have written without a sync.
        for file in &files {
            file.sync()
                .map_err(sync_error(|| format!("syncing {NAME}")))?;
        }
        disk.sync_names()
            .map_err(sync_error(|| format!("syncing {NAME}")))?;
        compact::remove_remains(disk)?;
        Ok(Catalog {
            files,
            len: read.end(),
            header: read.header,
            store: read.store,
        })
    }

    /// Returns the space of both files on a disk with units of `unit` bytes.
    pub fn disk_bytes(&self, unit: u64) -> u64 {
        2 * on_disk(self.len, unit)
    }

    /// Returns whether frames may forget names: a catalog that is written anew has this version.
    pub fn is_third_version(&self) -> bool {
        self.header.version == THIRD_VERSION
    }

    /// Returns the generation and the bytes of each file. Both together grow with each change.
    pub fn moment(&self) -> (u32, u64) {
        (self.header.generation, self.len)
    }

    /// Returns the bytes of each file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Adds a frame. Durable on return.
    ///
    /// # Panics
    /// If the frame needs a later version of the format than the catalog has.
    pub fn add(&mut self, frame: &Frame) -> Result<(), Error> {
        assert!(frame.version() <= self.header.version);
        let context = || format!("writing {NAME}");
        let bytes = put_frame(frame);
        // One file after the other, so that a crash leaves at least one file intact.
        for file in &self.files {
            file.write_at(self.len, &bytes).map_err(io_error(context))?;
            file.sync().map_err(sync_error(context))?;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Returns the length of the header that a file begins with.
#[cfg(fuzzing)]
pub fn header_bytes(bytes: &[u8]) -> usize {
    match Cursor(bytes.get(8..).unwrap_or_default()).u32() {
        Ok(SECOND_VERSION | THIRD_VERSION) => SECOND_HEADER_BYTES,
        _ => HEADER_BYTES,
    }
}

/// Returns the bytes of a frame.
fn put_frame(frame: &Frame) -> Vec<u8> {
    let plain = frame::put_streams(frame);
    let body =
        zstd::bulk::compress(&plain, LEVEL).expect("zstd allocates a large enough output buffer");
    let mut bytes = FRAME_MAGIC.to_vec();
    for word in [
        body.len() as u32,
        plain.len() as u32,
        checksum(&body),
        frame.first_source,
        frame.sources,
        frame.first_layout,
        frame.new_layouts,
    ] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// Smallest unit of a write that reaches a disk completely or not at all.
const SECTOR: usize = 512;

/// Returns the ranges of the sectors that a write from `from` to `to` covers.
pub(crate) fn sectors(from: usize, to: usize) -> impl Iterator<Item = Range<usize>> {
    let end = move |at: usize| (at + 1).next_multiple_of(SECTOR).min(to);
    let first = (from < to).then(|| from..end(from));
    std::iter::successors(first, move |part| {
        (part.end < to).then(|| part.end..end(part.end))
    })
}

pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Returns whether the last write, from an offset on, reached the disk only in part: all sectors
/// that differ from the written bytes are missing or still blank.
fn is_torn(found: &[u8], written: &[u8], from: usize) -> bool {
    sectors(from, written.len()).all(|part| {
        let there = &found[part.start.min(found.len())..part.end.min(found.len())];
        there == &written[part] || is_blank(there)
    })
}

/// Returns whether the last frame of one copy lacks a sector and the other copy contains nothing of
/// that frame. The copies are written one after the other.
fn is_only_begun(ends: [Option<usize>; 2], copies: &[Vec<u8>; 2], at: usize) -> bool {
    let begun = ends.into_iter().zip(copies);
    let mut begun = begun.filter_map(|(end, bytes)| Some((end?, bytes)));
    match (begun.next(), begun.next()) {
        (Some((end, bytes)), None) => {
            end == bytes.len() && sectors(at, end).any(|part| is_blank(&bytes[part]))
        }
        _ => false,
    }
}

fn read_whole(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, Error> {
    let context = || format!("reading {name}");
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(context)(error)),
    };
    let mut bytes = vec![0; file.len().map_err(io_error(context))? as usize];
    file.read_at(0, &mut bytes).map_err(io_error(context))?;
    Ok(bytes)
}

/// Opens a file that is whole up to `end`, and removes the part of a frame that follows. It would look like damage to
/// the next frame, if a power cut interrupted the write of that one, too.
fn open_without_rest(disk: &dyn Disk, name: &str, end: u64) -> Result<Arc<dyn File>, Error> {
    let context = || format!("opening {name}");
    let file = disk.open(name).map_err(io_error(context))?;
    if file.len().map_err(io_error(context))? > end {
        file.set_len(end).map_err(io_error(context))?;
    }
    Ok(file)
}

fn write_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<Arc<dyn File>, Error> {
    let context = || format!("writing {name}");
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            disk.create(name).map_err(io_error(context))?
        }
        Err(error) => return Err(io_error(context)(error)),
    };
    file.write_at(0, bytes).map_err(io_error(context))?;
    file.set_len(bytes.len() as u64)
        .map_err(io_error(context))?;
    file.sync().map_err(sync_error(context))?;
    Ok(file)
}

/// Returns the contents of an undamaged file, and the offsets of its frames, each from an undamaged
/// copy. A frame that is damaged in both copies stays as it is.
fn find_frames(copies: &[Vec<u8>; 2], header: Header) -> (Vec<u8>, Vec<usize>) {
    let mut image = header.put();
    // A catalog may take much of the memory of a store. Growing by doubling would take twice as much.
    let longest = copies.iter().map(Vec::len).max().unwrap_or(0);
    image.reserve_exact(longest.saturating_sub(image.len()));
    let mut offsets = Vec::new();
    loop {
        let at = image.len();
        let found = copies.each_ref().map(|bytes| FoundFrame::at(bytes, at));
        let is_whole =
            |found: &Option<FoundFrame<'_>>| found.as_ref().is_some_and(FoundFrame::is_whole);
        let whole = found.iter().position(is_whole);
        let ends = found.each_ref().map(|found| Some(found.as_ref()?.end));
        if whole.is_none() && is_only_begun(ends, copies, at) {
            return (image, offsets);
        }
        let known = whole.or_else(|| ends.iter().position(Option::is_some));
        if let Some(index) = known
            && let Some(end) = ends[index]
        {
            image.extend_from_slice(&copies[index][at..end]);
            offsets.push(at);
            continue;
        }
        // A later frame proves that the bytes in between were once complete.
        let next = copies.iter().find_map(|bytes| {
            let next = (at + 1..bytes.len()).find(|&next| FoundFrame::at(bytes, next).is_some())?;
            Some(&bytes[at..next])
        });
        let Some(between) = next else {
            return (image, offsets);
        };
        image.extend_from_slice(between);
        offsets.push(at);
    }
}

/// Frame with a valid header.
struct FoundFrame<'a> {
    /// Numbers in the header.
    frame: Frame,
    /// Bytes of the body without compression.
    plain: usize,
    body: &'a [u8],
    sum: u32,
    /// End of the frame.
    end: usize,
}

impl<'a> FoundFrame<'a> {
    /// Returns the frame at `at`. At an invalid header, the written part of the file ends.
    fn at(bytes: &'a [u8], at: usize) -> Option<FoundFrame<'a>> {
        let head = bytes.get(at..at + FRAME_HEADER_BYTES)?;
        let (words, sum) = head.split_at(FRAME_HEADER_BYTES - 4);
        if Cursor(sum).u32().ok()? != checksum(words) {
            return None;
        }
        let mut cursor = Cursor(words);
        if cursor.take(4).ok()? != FRAME_MAGIC {
            return None;
        }
        let mut next = || cursor.u32().ok();
        let (len, plain, sum) = (next()? as usize, next()? as usize, next()?);
        let frame = Frame {
            first_source: next()?,
            sources: next()?,
            first_layout: next()?,
            new_layouts: next()?,
            ..Frame::default()
        };
        let start = at + FRAME_HEADER_BYTES;
        Some(FoundFrame {
            frame,
            plain,
            body: bytes.get(start..start + len)?,
            sum,
            end: start + len,
        })
    }

    /// Returns whether the body has its checksum.
    fn is_whole(&self) -> bool {
        checksum(self.body) == self.sum
    }

    /// Returns the number after the last source of the frame.
    fn end_source(&self) -> u32 {
        self.frame.first_source.saturating_add(self.frame.sources)
    }

    /// Decodes the frame, which begins at an offset.
    fn read(mut self, offset: usize) -> ReadFrame {
        let (end_source, end_layout) = (
            self.end_source(),
            self.frame
                .first_layout
                .saturating_add(self.frame.new_layouts),
        );
        let (found, sum) = (checksum(self.body), self.sum);
        let frame = match found == sum {
            true => read_streams(self.body, self.plain, &mut self.frame)
                .map(|()| self.frame)
                .map_err(|Short| "a frame is malformed".to_string()),
            false => Err(format!(
                "a frame's checksum is {found:08x}, {sum:08x} was written"
            )),
        };
        ReadFrame {
            offset: offset as u64,
            end_source,
            end_layout,
            frame,
        }
    }
}

/// Returns the damaged place at an offset between two frames.
fn without_header(offset: usize) -> ReadFrame {
    ReadFrame {
        offset: offset as u64,
        end_source: 0,
        end_layout: 0,
        frame: Err("a frame's header is damaged in both files".to_string()),
    }
}
