//! The catalog: the dictionary on disk.
//!
//! One file, to which a frame is added whenever a segment is sealed: the sources and layouts that
//! came since, and the layouts that sources have got since. What came later is in the journal.
//! `docs/format/catalog.md` has the bytes.

use crate::bytes::{Cursor, Short, put_text};
use crate::dictionary::layouts::{Layout, Layouts};
use crate::error::{Error, io_error};
use seiner_codec::{checksum, varint};
use seiner_model::{FieldType, SourceKey};
use seiner_platform::{Disk, File};
use std::sync::Arc;

/// The catalog's file.
pub const NAME: &str = "catalog";
const MAGIC: &[u8; 8] = b"SEINCATL";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 8 + 4;
const FRAME_HEADER_BYTES: usize = 4 + 4 * 7 + 4;
const FRAME_MAGIC: &[u8; 4] = b"FRAM";
const FRAME_LIMIT: usize = 1 << 30;
/// Frames are rare and read at every start: worth some time to be small.
const LEVEL: i32 = 6;

/// What a frame adds.
#[derive(Default)]
pub struct Frame {
    /// The number of the first new source.
    pub first_source: u32,
    /// New sources: keys written by [`put_key`].
    pub names: Vec<u8>,
    /// How many.
    pub sources: u32,
    /// The number of the first new layout.
    pub first_layout: u32,
    /// New layouts, written by [`put_layout`].
    pub layouts: Vec<u8>,
    /// How many.
    pub new_layouts: u32,
    /// Sources and the layouts that they have now: varints in pairs.
    pub links: Vec<u8>,
}

impl Frame {
    /// Whether it adds nothing.
    pub fn is_empty(&self) -> bool {
        self.sources == 0 && self.new_layouts == 0 && self.links.is_empty()
    }
}

/// Writes a key: measurement, count of tags, tags.
pub fn put_key(key: &SourceKey, out: &mut Vec<u8>) {
    put_text(key.measurement(), out);
    varint::put_u64(key.tags().len() as u64, out);
    for (tag, value) in key.tags() {
        put_text(tag, out);
        put_text(value, out);
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
    SourceKey::new(measurement, tags).map_err(|_| Short)
}

/// Writes a layout: its parent and its last field.
pub fn put_layout(layout: &Layout, out: &mut Vec<u8>) {
    let last = layout.columns() - 1;
    varint::put_u64(u64::from(layout.parent()), out);
    out.push(layout.types()[last].code());
    put_text(&layout.names()[last], out);
}

/// Reads a layout and adds it under the next number.
pub fn get_layout(cursor: &mut Cursor<'_>, layouts: &mut Layouts) -> Result<(), Short> {
    let parent = cursor.count(layouts.len() - 1)? as u32;
    let field_type = FieldType::from_code(cursor.u8()?).ok_or(Short)?;
    let name = cursor.text()?;
    layouts.extend(parent, name, field_type);
    Ok(())
}

/// The open catalog.
pub struct Catalog {
    file: Arc<dyn File>,
    len: u64,
    /// The store's identity, which its journal files and segments bear.
    pub store: u64,
}

/// A frame that was read: where it begins, and what it adds, or why that cannot be read.
pub struct ReadFrame {
    /// Where it begins.
    pub offset: u64,
    /// The number of its first source.
    pub first_source: u32,
    /// How many sources it adds.
    pub sources: u32,
    /// What it adds.
    pub frame: Result<Frame, String>,
}

impl Catalog {
    /// Creates a catalog; `store` should be different for every store.
    pub fn create(disk: &dyn Disk, store: u64) -> Result<Catalog, Error> {
        let context = || format!("creating {NAME}");
        let file = disk.create(NAME).map_err(io_error(context))?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&store.to_le_bytes());
        header.extend_from_slice(&checksum(&header).to_le_bytes());
        file.write_at(0, &header).map_err(io_error(context))?;
        file.sync().map_err(io_error(context))?;
        disk.sync_names().map_err(io_error(context))?;
        Ok(Catalog { file, len: header.len() as u64, store })
    }

    /// Opens a catalog and reads its frames; `None` where there is none yet. Bytes behind the last
    /// whole frame were being written when the power went, and are written over.
    pub fn open(disk: &dyn Disk) -> Result<Option<(Catalog, Vec<ReadFrame>)>, Error> {
        let context = || format!("reading {NAME}");
        let file = match disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(context)(error)),
        };
        let len = file.len().map_err(io_error(context))?;
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).map_err(io_error(context))?;
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let store = header(&bytes).ok_or_else(|| Error::Damage {
            file: NAME.to_string(),
            offset: 0,
            what: "the header is damaged or of another version; put back the catalog from a copy of the directory".to_string(),
        })?;
        let mut frames = Vec::new();
        let mut at = HEADER_BYTES;
        loop {
            if let Some((frame, end)) = read_frame(&bytes, at) {
                frames.push(frame);
                at = end;
            } else if let Some(next) = (at + 1..bytes.len()).find(|&next| read_frame(&bytes, next).is_some()) {
                // A frame follows, so what is in between was whole once.
                let what = Err("a frame's header is damaged".to_string());
                frames.push(ReadFrame { offset: at as u64, first_source: 0, sources: 0, frame: what });
                at = next;
            } else {
                break;
            }
        }
        Ok(Some((Catalog { file, len: at as u64, store }, frames)))
    }

    /// Adds a frame; durable on return.
    pub fn add(&mut self, frame: &Frame) -> Result<(), Error> {
        let context = || format!("writing {NAME}");
        let mut plain = Vec::new();
        for stream in [&frame.names, &frame.layouts, &frame.links] {
            varint::put_u64(stream.len() as u64, &mut plain);
            plain.extend_from_slice(stream);
        }
        let body = zstd::bulk::compress(&plain, LEVEL).expect("zstd compresses into a buffer of its own");
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
        self.file.write_at(self.len, &bytes).map_err(io_error(context))?;
        self.file.sync().map_err(io_error(context))?;
        self.len += bytes.len() as u64;
        Ok(())
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

/// The frame at `at` and where it ends. A frame whose header holds and whose body does not is
/// damaged; where not even the header holds, what was written ends.
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
    let mut frame = Frame { first_source: next()?, sources: next()?, first_layout: next()?, new_layouts: next()?, ..Frame::default() };
    let start = at + FRAME_HEADER_BYTES;
    let body = bytes.get(start..start + len)?;
    let offset = at as u64;
    let (first_source, sources) = (frame.first_source, frame.sources);
    let found = checksum(body);
    let read = if found != sum {
        Err(format!("a frame's checksum is {found:08x}, {sum:08x} was written"))
    } else {
        read_streams(body, plain, &mut frame).map(|()| frame).map_err(|Short| "a frame is malformed".to_string())
    };
    Some((ReadFrame { offset, first_source, sources, frame: read }, start + len))
}

fn read_streams(body: &[u8], plain: usize, frame: &mut Frame) -> Result<(), Short> {
    if plain > FRAME_LIMIT {
        return Err(Short);
    }
    let plain = zstd::bulk::decompress(body, plain).map_err(|_| Short)?;
    let mut cursor = Cursor(&plain);
    for stream in [&mut frame.names, &mut frame.layouts, &mut frame.links] {
        let len = cursor.count(cursor.0.len())?;
        *stream = cursor.take(len)?.to_vec();
    }
    Ok(())
}
