//! Catalog: the dictionary on disk.
//!
//! Each seal of a segment adds a frame with the sources and layouts that are new since the previous
//! frame, and with the new layouts of existing sources. Later registrations are in the journal. No
//! block can be read without the catalog, so it is stored in two identical files. A damaged part of
//! one file is read from the other. `docs/format/catalog.md` specifies the bytes.

use crate::bytes::{Cursor, Short, put_bytes, put_text};
use crate::dictionary::layouts::{Layout, Layouts};
use crate::error::{Error, io_error, sync_error};
use crate::space::on_disk;
use seiner_codec::{checksum, varint};
use seiner_model::{FieldType, SourceKey};
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
const FRAME_LIMIT: usize = 1 << 30;
/// Compression level: frames are rare and read at every start, so a small size is worth the time.
const LEVEL: i32 = 3;

/// Contents of a frame.
#[derive(Default)]
pub struct Frame {
    /// Number of the first new source.
    pub first_source: u32,
    /// Keys of new sources, written by [`put_key`].
    pub names: Vec<u8>,
    /// Number of new sources.
    pub sources: u32,
    /// Number of the first new layout.
    pub first_layout: u32,
    /// New layouts, written by [`put_layout`].
    pub layouts: Vec<u8>,
    /// Number of new layouts.
    pub new_layouts: u32,
    /// Sources and their present layouts: varints in pairs.
    pub links: Vec<u8>,
    /// Deletes and floors: records of [`crate::retention`].
    pub dead: Vec<u8>,
}

impl Frame {
    /// Returns whether the frame is empty.
    pub fn is_empty(&self) -> bool {
        self.sources == 0 && self.new_layouts == 0 && self.links.is_empty() && self.dead.is_empty()
    }
}

/// Receiver of the registrations in a catalog: a store that is opened, or a check.
pub trait Registers {
    /// Returns the number of sources so far.
    fn sources(&self) -> u32;

    /// Returns the layouts so far.
    fn layouts(&mut self) -> &mut Layouts;

    /// Adds a source under the next number.
    ///
    /// # Errors
    /// A description, if the key is already registered: a second number would shift all later
    /// numbers.
    fn add_source(&mut self, key: &SourceKey) -> Result<(), String>;

    /// Assigns a layout to a source. Both numbers are known.
    fn link(&mut self, source: u32, layout: u32);

    /// Reads the stream of deletes, floors and rules.
    ///
    /// # Errors
    /// [`Short`] if the stream is malformed.
    fn record_dead(&mut self, dead: &[u8]) -> Result<(), Short>;
}

/// Registers the contents of all frames of a catalog. Numbers of damaged frames are filled with
/// lost sources and layouts. `damage` receives the offset of each damaged frame and a description.
pub fn register(
    frames: &[ReadFrame],
    to: &mut impl Registers,
    damage: &mut dyn FnMut(u64, String),
) {
    for ReadFrame {
        offset,
        end_source,
        end_layout,
        frame,
    } in frames
    {
        let added = match frame {
            Ok(frame) => register_frame(frame, to),
            Err(what) => Err(what.clone()),
        };
        if let Err(what) = added {
            lose_sources(to, *end_source);
            to.layouts().lose(*end_layout);
            damage(*offset, what);
        }
    }
}

fn register_frame(frame: &Frame, to: &mut impl Registers) -> Result<(), String> {
    let malformed = |what: &str| format!("its {what} are malformed");
    lose_sources(to, frame.first_source);
    to.layouts().lose(frame.first_layout);
    let (sources, layouts) = (to.sources(), to.layouts().len());
    if frame.first_source != sources {
        return Err(format!(
            "its first source is {}, {sources} was expected",
            frame.first_source
        ));
    }
    if frame.first_layout as usize != layouts {
        return Err(format!(
            "its first layout is {}, {layouts} was expected",
            frame.first_layout
        ));
    }
    let mut names = Cursor(&frame.names);
    for _ in 0..frame.sources {
        let key = get_key(&mut names).map_err(|Short| malformed("names"))?;
        to.add_source(&key)?;
    }
    let mut layouts = Cursor(&frame.layouts);
    for _ in 0..frame.new_layouts {
        let before = to.layouts().len();
        get_layout(&mut layouts, to.layouts()).map_err(|Short| malformed("layouts"))?;
        if to.layouts().len() == before {
            return Err("it repeats a layout".to_string());
        }
    }
    if !names.is_empty() || !layouts.is_empty() {
        return Err(malformed("streams"));
    }
    for (source, layout) in read_links(frame).map_err(|Short| malformed("links"))? {
        if source >= to.sources() || layout as usize >= to.layouts().len() {
            return Err(malformed("links"));
        }
        to.link(source, layout);
    }
    to.record_dead(&frame.dead)
        .map_err(|Short| malformed("deletes and rules"))
}

/// Registers placeholder names for lost sources up to a number.
pub fn lose_sources(to: &mut impl Registers, up_to: u32) {
    for number in to.sources()..up_to {
        let lost = |tags: &[(&str, String)]| {
            SourceKey::new(LOST, tags.iter().cloned()).expect("a good name")
        };
        let number = ("number", number.to_string());
        // A client may have sent the same name. Another unused name is then chosen.
        if to.add_source(&lost(std::slice::from_ref(&number))).is_err() {
            let _ = to.add_source(&lost(&[number, ("of", "this".to_string())]));
        }
    }
}

/// Returns the sources and their layouts in a frame.
///
/// # Errors
/// [`Short`] if the stream is malformed.
pub fn read_links(frame: &Frame) -> Result<Vec<(u32, u32)>, Short> {
    let mut cursor = Cursor(&frame.links);
    let mut links = Vec::new();
    while !cursor.is_empty() {
        links.push((
            cursor.count(u32::MAX as usize)? as u32,
            cursor.count(u32::MAX as usize)? as u32,
        ));
    }
    Ok(links)
}

/// Writes a key as text: measurement, count of tags, tags.
pub fn put_key<'t>(
    (measurement, tags): (&[u8], impl ExactSizeIterator<Item = (&'t [u8], &'t [u8])>),
    out: &mut Vec<u8>,
) {
    put_bytes(measurement, out);
    varint::put_u64(tags.len() as u64, out);
    for (tag, value) in tags {
        put_bytes(tag, out);
        put_bytes(value, out);
    }
}

/// Reads a key.
pub fn get_key(cursor: &mut Cursor<'_>) -> Result<SourceKey, Short> {
    let measurement = cursor.text()?;
    let count = cursor.count(SourceKey::MAX_BYTES)?;
    let mut tags = Vec::new();
    for _ in 0..count {
        tags.push((cursor.text()?, cursor.text()?));
    }
    SourceKey::stored(measurement, tags).map_err(|_| Short)
}

/// Measurement of sources whose names are lost.
pub const LOST: &str = "seiner_lost_source";
/// Replaces a type if the layout was lost in earlier damage.
const LOST_LAYOUT: u8 = u8::MAX;

/// Writes a layout as its parent and its last field.
pub fn put_layout(layout: &Layout, out: &mut Vec<u8>) {
    if layout.is_lost() {
        return out.extend_from_slice(&[0, LOST_LAYOUT, 0]);
    }
    let last = layout.columns() - 1;
    varint::put_u64(u64::from(layout.parent()), out);
    out.push(layout.types()[last].code());
    put_text(&layout.names()[last], out);
}

/// Reads a layout and adds it under the next number.
pub fn get_layout(cursor: &mut Cursor<'_>, layouts: &mut Layouts) -> Result<(), Short> {
    let parent = cursor.count(layouts.len() - 1)? as u32;
    let code = cursor.u8()?;
    let name = cursor.text()?;
    if code == LOST_LAYOUT {
        layouts.lose(layouts.len() as u32 + 1);
        return Ok(());
    }
    let field_type = FieldType::from_code(code).ok_or(Short)?;
    if layouts.get(parent).ok_or(Short)?.columns() >= crate::MAX_FIELDS {
        return Err(Short);
    }
    layouts.extend(parent, name, field_type);
    Ok(())
}

/// The open catalog.
pub struct Catalog {
    files: [Arc<dyn File>; 2],
    len: u64,
    /// Identity of the store, which its journal files and segments also contain.
    pub store: u64,
}

/// Frame that was read: its offset, and its contents or an error.
pub struct ReadFrame {
    /// Offset of the frame in the file, in bytes.
    pub offset: u64,
    /// Number after the last source of the frame, as far as the header is readable.
    pub end_source: u32,
    /// Number after the last layout of the frame, as far as the header is readable.
    pub end_layout: u32,
    /// Contents of the frame, or a description of the damage.
    pub frame: Result<Frame, String>,
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
        let body =
            zstd::bulk::compress(&plain, LEVEL).expect("zstd compresses into a buffer of its own");
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

/// Decodes the body of a frame, which had a valid checksum and is `plain` bytes long uncompressed.
pub fn read_streams(body: &[u8], plain: usize, frame: &mut Frame) -> Result<(), Short> {
    if plain > FRAME_LIMIT {
        return Err(Short);
    }
    let plain = zstd::bulk::decompress(body, plain).map_err(|_| Short)?;
    let mut cursor = Cursor(&plain);
    for stream in [
        &mut frame.names,
        &mut frame.layouts,
        &mut frame.links,
        &mut frame.dead,
    ] {
        let len = cursor.count(cursor.0.len())?;
        *stream = cursor.take(len)?.to_vec();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::Directory;

    #[test]
    fn a_layout_with_too_many_fields_is_rejected() {
        let mut layouts = Layouts::new();
        for parent in 0..=crate::MAX_FIELDS as u64 {
            let mut bytes = Vec::new();
            varint::put_u64(parent, &mut bytes);
            bytes.push(FieldType::F64.code());
            put_text("f", &mut bytes);
            let fits = parent < crate::MAX_FIELDS as u64;
            assert_eq!(get_layout(&mut Cursor(&bytes), &mut layouts).is_ok(), fits);
        }
    }

    #[test]
    fn a_frame_of_which_only_the_beginning_was_written_is_no_damage() {
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
