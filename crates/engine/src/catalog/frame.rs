//! Frames of the catalog: sources, layouts, links and records of dead data, and their registration.

use super::ahead::NamesAhead;
use crate::bytes::{Cursor, Short, put_bytes, put_sources, put_text};
use crate::dictionary::layouts::{Layout, Layouts};
use roaring::RoaringBitmap;
use seiner_codec::varint;
use seiner_model::{FieldType, SourceKey};

/// Maximum uncompressed bytes of a frame.
const FRAME_LIMIT: usize = 1 << 30;

/// Contents of a frame.
#[derive(Default)]
pub struct Frame {
    /// Number of the first new source.
    pub first_source: u32,
    /// Keys of new sources, written by [`put_key`].
    pub names: Vec<u8>,
    /// Number of new sources.
    pub sources: u32,
    /// Names of the first new sources, if they were read ahead.
    pub ahead: NamesAhead,
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
    /// Sources that were forgotten before the other contents were registered.
    pub forgotten: RoaringBitmap,
    /// Sources with the number of a forgotten one, written by [`put_reused`].
    pub reused: Vec<u8>,
    /// Sequence of a record of the journal: names in earlier records are in frames before this one, unless an earlier
    /// frame forgot them. 0 if the frame forgets no sources.
    pub known_before: u64,
}

impl Frame {
    /// Returns whether the frame is empty.
    pub fn is_empty(&self) -> bool {
        self.sources == 0
            && self.new_layouts == 0
            && self.links.is_empty()
            && self.dead.is_empty()
            && self.version() == 1
    }

    /// Returns the first version of the format that has all contents of the frame.
    pub fn version(&self) -> u32 {
        match self.known_before {
            0 if self.forgotten.is_empty() && self.reused.is_empty() => 1,
            0 => 2,
            _ => 3,
        }
    }
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

    /// Adds the next `count` names of a stream, each under the next number. `ahead` may contain the first of them.
    ///
    /// # Errors
    /// A description, if a name is malformed or already registered.
    fn add_names(
        &mut self,
        names: &mut Cursor<'_>,
        count: u32,
        ahead: &NamesAhead,
    ) -> Result<(), String> {
        let _ = ahead;
        for _ in 0..count {
            match get_name(names).map_err(|Short| malformed("names"))? {
                Name::Key(key) => self.add_source(&key)?,
                Name::Free(tags) => self.add_free(tags),
            }
        }
        Ok(())
    }

    /// Adds a free number, for a source with up to `tags` tags.
    fn add_free(&mut self, tags: usize);

    /// Forgets sources, whose numbers are free from then on.
    ///
    /// # Errors
    /// A description, if one of the numbers is unknown.
    fn forget(&mut self, sources: &RoaringBitmap) -> Result<(), String>;

    /// Receives the sequence of a record of the journal: names in earlier records are known by now, or were forgotten.
    fn know_before(&mut self, sequence: u64);

    /// Registers a source under a free number. Rows of the number in records of the journal before
    /// `first_record` are not its rows.
    ///
    /// # Errors
    /// A description, if the number is not free, or the key is already registered.
    fn reuse(&mut self, source: u32, first_record: u64, key: &SourceKey) -> Result<(), String>;

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
    frames: impl Iterator<Item = ReadFrame>,
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
            Ok(frame) => register_frame(&frame, to),
            Err(what) => Err(what),
        };
        if let Err(what) = added {
            lose_sources(to, end_source);
            to.layouts().lose(end_layout);
            damage(offset, what);
        }
    }
}

fn register_frame(frame: &Frame, to: &mut impl Registers) -> Result<(), String> {
    to.forget(&frame.forgotten)?;
    to.know_before(frame.known_before);
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
    to.add_names(&mut names, frame.sources, &frame.ahead)?;
    register_reused(&frame.reused, to)?;
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

/// Describes damage that checksums did not find.
pub fn malformed(what: &str) -> String {
    format!("its {what} are malformed")
}

/// Registers sources under the numbers of forgotten ones, as [`Frame::reused`] lists them.
///
/// # Errors
/// A description, if the list is malformed, a number is not free, or a key is already registered.
pub fn register_reused(reused: &[u8], to: &mut impl Registers) -> Result<(), String> {
    let mut cursor = Cursor(reused);
    while !cursor.is_empty() {
        let (source, first_record, key) =
            get_reused(&mut cursor).map_err(|Short| malformed("names"))?;
        to.reuse(source, first_record, &key)?;
    }
    Ok(())
}

/// Checks that sources to forget are known.
///
/// # Errors
/// A description.
pub fn check_known(forgotten: &RoaringBitmap, sources: u32) -> Result<(), String> {
    match forgotten.max().is_none_or(|last| last < sources) {
        true => Ok(()),
        false => Err("it forgets unknown sources".to_string()),
    }
}

/// Describes a source that cannot be registered under a number.
pub fn not_free(source: u32, key: &SourceKey) -> String {
    format!("{key} cannot be source {source}: another source has the number or the name")
}

/// Registers placeholder names for lost sources up to a number.
pub fn lose_sources(to: &mut impl Registers, up_to: u32) {
    for number in to.sources()..up_to {
        for key in lost_keys(number) {
            if to.add_source(&key).is_ok() {
                break;
            }
        }
    }
}

/// Returns a name for a lost source, and another one, because a client may have sent the first.
pub fn lost_keys(number: u32) -> [SourceKey; 2] {
    let number = || ("number", number.to_string());
    let key = |tags: Vec<(&str, String)>| SourceKey::new(LOST, tags).expect("a good name");
    [
        key(vec![number()]),
        key(vec![number(), ("of", "this".to_string())]),
    ]
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

/// Writes a source and its layout.
pub fn put_link(source: u32, layout: u32, out: &mut Vec<u8>) {
    varint::put_u64(u64::from(source), out);
    varint::put_u64(u64::from(layout), out);
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

/// Writes the number of a source that had another source before, the first record of the journal that
/// may contain its rows, and its key.
pub fn put_reused<'t>(
    source: u32,
    first_record: u64,
    texts: (&[u8], impl ExactSizeIterator<Item = (&'t [u8], &'t [u8])>),
    out: &mut Vec<u8>,
) {
    varint::put_u64(u64::from(source), out);
    varint::put_u64(first_record, out);
    put_key(texts, out);
}

/// Reads what [`put_reused`] wrote.
pub fn get_reused(cursor: &mut Cursor<'_>) -> Result<(u32, u64, SourceKey), Short> {
    let source = cursor.count(u32::MAX as usize - 1)? as u32;
    Ok((source, cursor.varint()?, get_key(cursor)?))
}

/// Name of the next number: of a source, or of none, with the most tags that a source of this number
/// may have.
pub enum Name {
    Key(SourceKey),
    Free(usize),
}

/// Reader of a name: [`get_name`], or a stricter one.
pub type ReadName = fn(&mut Cursor<'_>) -> Result<Name, Short>;

/// Writes a number that no source has.
pub fn put_free(tags: usize, out: &mut Vec<u8>) {
    put_bytes(&[], out);
    varint::put_u64(tags as u64, out);
}

/// Reads a name. A free number has an empty measurement, and the number of tags alone.
pub fn get_name(cursor: &mut Cursor<'_>) -> Result<Name, Short> {
    if cursor.0.first() != Some(&0) {
        return get_key(cursor).map(Name::Key);
    }
    cursor.text()?;
    // A tag takes two bytes at least.
    Ok(Name::Free(cursor.count(SourceKey::MAX_BYTES / 2)?))
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

/// Passes a name without reading it. Returns the number of its tags, or of those for which a free number has places.
pub fn pass_name(cursor: &mut Cursor<'_>) -> Result<usize, Short> {
    if cursor.0.first() == Some(&0) {
        cursor.text()?;
        return cursor.count(SourceKey::MAX_BYTES / 2);
    }
    pass_key(cursor)
}

/// Passes a key without reading it. Returns the number of its tags.
pub fn pass_key(cursor: &mut Cursor<'_>) -> Result<usize, Short> {
    cursor.bytes()?;
    let tags = cursor.count(SourceKey::MAX_BYTES)?;
    for _ in 0..2 * tags {
        cursor.bytes()?;
    }
    Ok(tags)
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

/// Decodes the body of a frame, which had a valid checksum and is `plain` bytes long uncompressed.
/// Frames of the first version have four streams, those of the second may have six.
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
        *stream = cursor.bytes()?.to_vec();
    }
    if !cursor.is_empty() {
        frame.forgotten = cursor.sources()?;
        frame.reused = cursor.bytes()?.to_vec();
    }
    if !cursor.is_empty() {
        frame.known_before = cursor.varint()?;
    }
    cursor.is_empty().then_some(()).ok_or(Short)
}

/// Returns the plain body of a frame, in the form of the first version that has its contents.
pub fn put_streams(frame: &Frame) -> Vec<u8> {
    let mut plain = Vec::new();
    for stream in [&frame.names, &frame.layouts, &frame.links, &frame.dead] {
        put_bytes(stream, &mut plain);
    }
    if frame.version() >= 2 {
        put_sources(&frame.forgotten, &mut plain);
        put_bytes(&frame.reused, &mut plain);
    }
    if frame.version() >= 3 {
        varint::put_u64(frame.known_before, &mut plain);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
