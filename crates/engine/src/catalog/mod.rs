//! Catalog: the dictionary on disk.
//!
//! Each seal of a segment adds a frame with the sources and layouts that are new since the previous
//! frame, and with the new layouts of existing sources. Later registrations are in the journal. No
//! block can be read without the catalog, so it is stored in two identical files. A damaged part of
//! one file is read from the other. `docs/format/catalog.md` specifies the bytes.

mod frame;

pub use self::frame::{
    Frame, LOST, ReadFrame, Registers, get_key, get_layout, lose_sources, put_key, put_layout,
    read_links, read_streams, register,
};

use crate::bytes::{Cursor, Short};
use crate::error::{Error, io_error, sync_error};
use crate::space::on_disk;
use seiner_codec::{checksum, varint};
use seiner_platform::{Disk, File};
use std::ops::Range;
use std::sync::Arc;

/// Name of the catalog's file.
pub const NAME: &str = "catalog";
/// Name of the copy.
pub const COPY: &str = "catalog.copy";
const MAGIC: &[u8; 8] = b"SEINCATL";
const VERSION: u32 = 1;
/// Bytes of the file header: magic, version, store, checksum.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 4;
/// Bytes of a frame header: magic, seven words, checksum.
pub const FRAME_HEADER_BYTES: usize = 4 + 4 * 7 + 4;
const FRAME_MAGIC: &[u8; 4] = b"FRAM";
/// Compression level: frames are rare and read at every start, so a small size is worth the time.
const LEVEL: i32 = 3;

/// The open catalog.
pub struct Catalog {
    files: [Arc<dyn File>; 2],
    len: u64,
    /// Identity of the store, which its journal files and segments also contain.
    pub store: u64,
}

/// Catalog that was read.
pub struct ReadCatalog {
    /// Identity of the store.
    pub store: u64,
    /// Frames of the catalog.
    pub frames: Vec<ReadFrame>,
    /// Names of damaged files, each with the offset at which the damage begins.
    pub damaged: Vec<(&'static str, u64)>,
    /// Correct contents of both files.
    image: Vec<u8>,
    /// State of the catalog and of its copy: true if the file has the correct contents.
    pub whole: [bool; 2],
}

impl ReadCatalog {
    /// Returns the end of the last valid frame.
    pub fn end(&self) -> u64 {
        self.image.len() as u64
    }
}

/// Reads a catalog without changes. Returns `None` if there is none. Bytes after the last valid
/// frame were being written when the power failed.
pub fn read(disk: &dyn Disk) -> Result<Option<ReadCatalog>, Error> {
    let copies = [read_whole(disk, NAME)?, read_whole(disk, COPY)?];
    if copies.iter().all(|bytes| is_blank(bytes)) {
        return Ok(None);
    }
    let store = copies.iter().find_map(|bytes| header(bytes)).ok_or_else(|| Error::Damage {
        file: NAME.to_string(),
        offset: 0,
        what: format!("the headers of it and of {COPY} are damaged or of another version; put one back from a copy of the directory"),
    })?;
    let (image, frames) = read_frames(&copies);
    let mut damaged = Vec::new();
    let complete = frames.last().map_or(0, |frame| frame.offset as usize);
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
        store,
        frames,
        damaged,
        image,
        whole,
    }))
}

impl Catalog {
    /// Creates a catalog. `store` should be unique for every store.
    pub fn create(disk: &dyn Disk, store: u64) -> Result<Catalog, Error> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&store.to_le_bytes());
        header.extend_from_slice(&checksum(&header).to_le_bytes());
        let files = [
            write_whole(disk, NAME, &header)?,
            write_whole(disk, COPY, &header)?,
        ];
        disk.sync_names()
            .map_err(sync_error(|| format!("creating {NAME}")))?;
        Ok(Catalog {
            files,
            len: header.len() as u64,
            store,
        })
    }

    /// Opens a catalog that was read, so that frames can be added. Repairs a damaged file.
    pub fn open(disk: &dyn Disk, read: &ReadCatalog) -> Result<Catalog, Error> {
        let open = |name: &str, whole: bool| match whole {
            true => disk
                .open(name)
                .map_err(io_error(|| format!("opening {name}"))),
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
        Ok(Catalog {
            files,
            len: read.end(),
            store: read.store,
        })
    }

    /// Returns the space of both files on a disk with units of `unit` bytes.
    pub fn disk_bytes(&self, unit: u64) -> u64 {
        2 * on_disk(self.len, unit)
    }

    /// Adds a frame. Durable on return.
    pub fn add(&mut self, frame: &Frame) -> Result<(), Error> {
        let context = || format!("writing {NAME}");
        let mut plain = Vec::new();
        for stream in [&frame.names, &frame.layouts, &frame.links, &frame.dead] {
            varint::put_u64(stream.len() as u64, &mut plain);
            plain.extend_from_slice(stream);
        }
        let body = zstd::bulk::compress(&plain, LEVEL)
            .expect("zstd allocates a large enough output buffer");
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
        // One file after the other, so that a crash leaves at least one file intact.
        for file in &self.files {
            file.write_at(self.len, &bytes).map_err(io_error(context))?;
            file.sync().map_err(sync_error(context))?;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
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
fn is_only_begun(read: &[Option<(ReadFrame, usize)>], copies: &[Vec<u8>; 2], at: usize) -> bool {
    let mut begun = read
        .iter()
        .zip(copies)
        .filter_map(|(read, bytes)| read.as_ref().map(|(_, end)| (*end, bytes)));
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

/// Returns the frames, each from an undamaged copy, and the contents of an undamaged file. A frame
/// that is damaged in both copies stays as it is.
fn read_frames(copies: &[Vec<u8>; 2]) -> (Vec<u8>, Vec<ReadFrame>) {
    let good = |bytes: &&Vec<u8>| header(bytes).is_some();
    let mut image = copies
        .iter()
        .find(good)
        .map_or(Vec::new(), |bytes| bytes[..HEADER_BYTES].to_vec());
    let mut frames = Vec::new();
    loop {
        let at = image.len();
        let read: Vec<_> = copies.iter().map(|bytes| read_frame(bytes, at)).collect();
        let is_whole = |read: &Option<(ReadFrame, usize)>| {
            read.as_ref().is_some_and(|(frame, _)| frame.frame.is_ok())
        };
        let whole = read.iter().position(is_whole);
        if whole.is_none() && is_only_begun(&read, copies, at) {
            return (image, frames);
        }
        let known = whole.or_else(|| read.iter().position(Option::is_some));
        if let Some(index) = known
            && let Some((frame, end)) = read.into_iter().nth(index).flatten()
        {
            image.extend_from_slice(&copies[index][at..end]);
            frames.push(frame);
            continue;
        }
        // A later frame proves that the bytes in between were once complete.
        let next = copies.iter().find_map(|bytes| {
            let next = (at + 1..bytes.len()).find(|&next| read_frame(bytes, next).is_some())?;
            Some(&bytes[at..next])
        });
        let Some(between) = next else {
            return (image, frames);
        };
        image.extend_from_slice(between);
        let frame = Err("a frame's header is damaged in both files".to_string());
        frames.push(ReadFrame {
            offset: at as u64,
            end_source: 0,
            end_layout: 0,
            frame,
        });
    }
}

fn header(bytes: &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_at_checked(HEADER_BYTES - 4)?;
    let mut cursor = Cursor(head);
    if cursor.take(8).ok()? != MAGIC || cursor.u32().ok()? != VERSION {
        return None;
    }
    let store = cursor.u64().ok()?;
    (Cursor(rest).u32().ok()? == checksum(head)).then_some(store)
}

/// Returns the frame at `at` and its end. A frame with a valid header and an invalid body is
/// damaged. At an invalid header, the written part of the file ends.
fn read_frame(bytes: &[u8], at: usize) -> Option<(ReadFrame, usize)> {
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
    let mut frame = Frame {
        first_source: next()?,
        sources: next()?,
        first_layout: next()?,
        new_layouts: next()?,
        ..Frame::default()
    };
    let start = at + FRAME_HEADER_BYTES;
    let body = bytes.get(start..start + len)?;
    let offset = at as u64;
    let (end_source, end_layout) = (
        frame.first_source.saturating_add(frame.sources),
        frame.first_layout.saturating_add(frame.new_layouts),
    );
    let found = checksum(body);
    let read = if found != sum {
        Err(format!(
            "a frame's checksum is {found:08x}, {sum:08x} was written"
        ))
    } else {
        read_streams(body, plain, &mut frame)
            .map(|()| frame)
            .map_err(|Short| "a frame is malformed".to_string())
    };
    Some((
        ReadFrame {
            offset,
            end_source,
            end_layout,
            frame: read,
        },
        start + len,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::Directory;

    #[test]
    fn a_partly_written_frame_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Directory::open(folder.path()).unwrap();
        let mut catalog = Catalog::create(&disk, 7).unwrap();
        // A frame with its header in one sector and its body in the next.
        let frame = |size: usize| Frame {
            dead: (0..size).map(|byte| ((byte * 131) >> 3) as u8).collect(),
            ..Frame::default()
        };
        while catalog.len % SECTOR as u64 + FRAME_HEADER_BYTES as u64 + 20 < SECTOR as u64 {
            catalog.add(&frame(10)).unwrap();
        }
        let before = catalog.len;
        catalog.add(&frame(400)).unwrap();
        let end = catalog.len;
        catalog.files[1].set_len(before).unwrap();
        let sector = before.next_multiple_of(SECTOR as u64);
        let blank = vec![0; (end - sector) as usize];
        catalog.files[0].write_at(sector, &blank).unwrap();
        let read = read(&disk).unwrap().unwrap();
        assert!(read.damaged.is_empty());
        assert!(read.frames.iter().all(|frame| frame.frame.is_ok()));
        assert_eq!(read.end(), before);
    }
}
