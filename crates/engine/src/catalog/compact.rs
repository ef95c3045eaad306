//! Compaction of the catalog: both files are written anew without the names of forgotten sources,
//! earlier layouts of sources, and records of dead data that no longer matter.
//!
//! The new files are complete and durable before the first of them replaces an old one. If the power
//! fails between the two replacements, the file with the higher generation is used.

use super::frame::{Name, get_name, get_reused, put_link};
use super::prune::Forgotten;
use super::{
    COPY, Catalog, FRAME_HEADER_BYTES, FoundFrame, Frame, Header, NAME, THIRD_VERSION, put_frame,
};
use crate::aside::remove_if_present;
use crate::bytes::{Cursor, Short};
use crate::error::{Error, io_error, sync_error};
use crate::retention::records::Compaction;
use roaring::RoaringBitmap;
use seiner_model::SourceKey;
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names under which the new files are written.
pub const NEW: [&str; 2] = ["catalog.new", "catalog.copy.new"];
/// Bytes of names after which a frame is written.
const FRAME: usize = 1 << 20;

/// Removes new files that were not completed before the store was closed.
pub(super) fn remove_remains(disk: &dyn Disk) -> Result<(), Error> {
    NEW.into_iter()
        .try_for_each(|name| remove_if_present(disk, name))
}

impl Catalog {
    /// Writes the catalog anew, without what later frames made obsolete. Durable on return.
    ///
    /// # Errors
    /// If a frame is damaged, or the disk fails. The catalog is then unchanged, or a file of it was
    /// replaced and the next start uses this file.
    pub fn compact(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        let header = Header {
            version: THIRD_VERSION,
            generation: self.header.generation + 1,
            ..self.header
        };
        let result = self.write_new(disk, header);
        if result.is_err() {
            let _ = remove_remains(disk);
        }
        let (files, len) = result?;
        for (new, name) in NEW.into_iter().zip([NAME, COPY]) {
            disk.rename(new, name)
                .map_err(io_error(|| format!("replacing {name}")))?;
        }
        disk.sync_names()
            .map_err(sync_error(|| format!("replacing {NAME}")))?;
        (self.files, self.len, self.header) = (files, len, header);
        Ok(())
    }

    fn write_new(
        &self,
        disk: &dyn Disk,
        header: Header,
    ) -> Result<([Arc<dyn File>; 2], u64), Error> {
        remove_remains(disk)?;
        let create = |name: &str| {
            disk.create(name)
                .map_err(io_error(|| format!("creating {name}")))
        };
        let files = [create(NEW[0])?, create(NEW[1])?];
        let mut output = Output {
            files: &files,
            len: 0,
        };
        output.write(&header.put())?;
        Rewriting::new(self.forgotten()?).run(self, &mut output)?;
        let len = output.len;
        for file in &files {
            file.sync()
                .map_err(sync_error(|| format!("writing {}", NEW[0])))?;
        }
        disk.sync_names()
            .map_err(sync_error(|| format!("creating {}", NEW[0])))?;
        Ok((files, len))
    }

    fn forgotten(&self) -> Result<Forgotten, Error> {
        let mut forgotten = Forgotten::default();
        self.each_frame(|_, frame| {
            forgotten.add(Some(&frame), frame.first_source + frame.sources);
            Ok(())
        })?;
        Ok(forgotten)
    }

    /// Reads the present keys of some sources, except those in damaged frames. Some may be read twice.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn each_key(
        &self,
        disk: &dyn Disk,
        sources: &RoaringBitmap,
        mut each: impl FnMut(u32, SourceKey),
    ) -> Result<(), Error> {
        match self.each_key_of_frames(sources, &mut each) {
            Err(Error::Damage { .. }) => {}
            result => return result,
        }
        let Some(read) = super::read(disk)? else {
            return Ok(());
        };
        for frame in read.living_frames().filter_map(|read| read.frame.ok()) {
            // Names behind a malformed one are lost.
            let _ = keys_of(&frame, sources, &mut each);
        }
        Ok(())
    }

    fn each_key_of_frames(
        &self,
        sources: &RoaringBitmap,
        each: &mut impl FnMut(u32, SourceKey),
    ) -> Result<(), Error> {
        let forgotten = self.forgotten()?;
        let mut frames = 0..;
        self.each_frame(|at, mut frame| {
            let index = frames.next().unwrap_or(u32::MAX);
            let read = forgotten.prune(index, &mut frame);
            let read = read.and_then(|()| keys_of(&frame, sources, each));
            read.map_err(|Short| malformed_frame(at))
        })
    }

    /// Reads the frames one by one, with their offsets.
    fn each_frame(
        &self,
        mut each: impl FnMut(u64, Frame) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut at = self.header.len() as u64;
        while at < self.len {
            let read = match self.frame_at(&*self.files[0], at) {
                Err(Error::Damage { .. }) => self.frame_at(&*self.files[1], at),
                read => read,
            };
            let (frame, end) = read?;
            each(at, frame)?;
            at += end;
        }
        Ok(())
    }

    /// Reads the frame at an offset. Returns its length, too.
    fn frame_at(&self, file: &dyn File, at: u64) -> Result<(Frame, u64), Error> {
        let damage = |what: String| Error::Damage {
            file: NAME.to_string(),
            offset: at,
            what,
        };
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        let context = || format!("reading {NAME}");
        file.read_at(at, &mut bytes).map_err(io_error(context))?;
        let body = Cursor(&bytes[4..]).u32();
        let body = body.expect("a header is longer") as u64;
        if at + FRAME_HEADER_BYTES as u64 + body > self.len {
            return Err(damage("a frame reaches past the end".to_string()));
        }
        bytes.resize(FRAME_HEADER_BYTES + body as usize, 0);
        file.read_at(at, &mut bytes).map_err(io_error(context))?;
        let found = FoundFrame::at(&bytes, 0);
        let found = found.ok_or_else(|| damage("no frame begins here".to_string()))?;
        let end = found.end as u64;
        Ok((found.read(0).frame.map_err(damage)?, end))
    }
}

/// Passes on the keys of some sources in a frame.
fn keys_of(
    frame: &Frame,
    sources: &RoaringBitmap,
    each: &mut impl FnMut(u32, SourceKey),
) -> Result<(), Short> {
    let (mut names, mut reused) = (Cursor(&frame.names), Cursor(&frame.reused));
    for number in frame.first_source..frame.first_source + frame.sources {
        match get_name(&mut names)? {
            Name::Key(key) if sources.contains(number) => each(number, key),
            _ => {}
        }
    }
    while !reused.is_empty() {
        let (number, _, key) = get_reused(&mut reused)?;
        if sources.contains(number) {
            each(number, key);
        }
    }
    Ok(())
}

fn malformed_frame(offset: u64) -> Error {
    Error::Damage {
        file: NAME.to_string(),
        offset,
        what: "a frame is malformed".to_string(),
    }
}

/// Both new files.
struct Output<'a> {
    files: &'a [Arc<dyn File>; 2],
    len: u64,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for file in self.files {
            file.write_at(self.len, bytes)
                .map_err(io_error(|| format!("writing {}", NEW[0])))?;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Checks that the names of a frame can be read: in a larger frame, a malformed name would affect more names.
fn check_names(frame: &Frame) -> Result<(), Short> {
    let (mut names, mut reused) = (Cursor(&frame.names), Cursor(&frame.reused));
    for _ in 0..frame.sources {
        get_name(&mut names)?;
    }
    while !reused.is_empty() {
        get_reused(&mut reused)?;
    }
    names.is_empty().then_some(()).ok_or(Short)
}

/// Contents of the new catalog that are not yet written.
struct Rewriting {
    forgotten: Forgotten,
    /// Number of frames so far.
    frames: u32,
    frame: Frame,
    /// Layout of each source with a link.
    links: BTreeMap<u32, u32>,
    dead: Compaction,
    known_before: u64,
}

impl Rewriting {
    fn new(forgotten: Forgotten) -> Rewriting {
        Rewriting {
            forgotten,
            frames: 0,
            frame: Frame {
                first_layout: 1,
                ..Frame::default()
            },
            links: BTreeMap::new(),
            dead: Compaction::default(),
            known_before: 0,
        }
    }

    fn run(mut self, catalog: &Catalog, output: &mut Output<'_>) -> Result<(), Error> {
        catalog.each_frame(|at, frame| {
            self.add(frame).map_err(|Short| malformed_frame(at))?;
            match self.frame.names.len() + self.frame.reused.len() >= FRAME {
                true => self.write(output),
                false => Ok(()),
            }
        })?;
        for (&source, &layout) in &self.links {
            put_link(source, layout, &mut self.frame.links);
        }
        self.frame.dead = self.dead.put();
        self.frame.known_before = self.known_before;
        self.write(output)
    }

    fn write(&mut self, output: &mut Output<'_>) -> Result<(), Error> {
        output.write(&put_frame(&self.frame))?;
        self.frame = Frame {
            first_source: self.frame.first_source + self.frame.sources,
            first_layout: self.frame.first_layout + self.frame.new_layouts,
            ..Frame::default()
        };
        Ok(())
    }

    /// Adds the contents of a frame that are still valid at the end.
    fn add(&mut self, mut frame: Frame) -> Result<(), Short> {
        let index = self.frames;
        self.frames += 1;
        check_names(&frame)?;
        self.dead.forget(&frame.forgotten);
        self.known_before = self.known_before.max(frame.known_before);
        for source in &frame.forgotten {
            self.links.remove(&source);
        }
        self.forgotten.prune(index, &mut frame)?;
        self.frame.names.append(&mut frame.names);
        self.frame.sources += frame.sources;
        self.frame.reused.append(&mut frame.reused);
        self.frame.layouts.extend_from_slice(&frame.layouts);
        self.frame.new_layouts += frame.new_layouts;
        for (source, layout) in super::read_links(&frame)? {
            if !self.forgotten.is_later(index, source) {
                self.links.insert(source, layout);
            }
        }
        self.dead.add(&frame.dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Registers, put_key, put_reused, read, register};
    use crate::inspect::registry::Registry;
    use seiner_model::SourceKey;
    use seiner_platform::sim::SimDisk;

    fn put(name: &str, out: &mut Vec<u8>) {
        let tag: (&[u8], &[u8]) = (b"a", b"b");
        put_key((name.as_bytes(), [tag].into_iter()), out);
    }

    fn reuse(source: u32, name: &str, out: &mut Vec<u8>) {
        let tag: (&[u8], &[u8]) = (b"a", b"b");
        put_reused(source, 0, (name.as_bytes(), [tag].into_iter()), out);
    }

    /// Returns the names of all sources as the catalog has them.
    fn names(disk: &SimDisk) -> Vec<Option<String>> {
        let read = read(disk).unwrap().unwrap();
        assert_eq!(read.damaged, []);
        let mut registry = Registry::new();
        register(read.frames(), &mut registry, &mut |offset, what| {
            panic!("{offset}: {what}")
        });
        let key = |source| registry.dictionary.key(source);
        let name = |key: SourceKey| key.measurement().to_string();
        (0..Registers::sources(&registry))
            .map(|source| key(source).map(name))
            .collect()
    }

    /// Four sources, of which three are forgotten in two frames. Two of the numbers are used again.
    fn written(disk: &SimDisk) -> Catalog {
        let mut catalog = Catalog::create(disk, 7).unwrap();
        let mut first = Frame {
            first_layout: 1,
            sources: 4,
            ..Frame::default()
        };
        for name in ["a", "b", "c", "d"] {
            put(name, &mut first.names);
        }
        catalog.add(&first).unwrap();
        catalog.compact(disk).unwrap();
        let next = |forgotten: &[u32], reused: &[(u32, &str)]| {
            let mut frame = Frame {
                first_source: 4,
                first_layout: 1,
                forgotten: forgotten.iter().copied().collect(),
                ..Frame::default()
            };
            for (source, name) in reused {
                reuse(*source, name, &mut frame.reused);
            }
            frame
        };
        catalog.add(&next(&[0, 2], &[])).unwrap();
        catalog.add(&next(&[], &[(0, "e"), (2, "f")])).unwrap();
        catalog.add(&next(&[1, 2], &[])).unwrap();
        catalog
    }

    #[test]
    fn forgotten_names_are_left_out_and_the_others_keep_their_numbers() {
        let disk = SimDisk::new(1);
        let mut catalog = written(&disk);
        let expected = [Some("e".to_string()), None, None, Some("d".to_string())];
        assert_eq!(names(&disk), expected);
        let before = catalog.len();
        catalog.compact(&disk).unwrap();
        assert!(catalog.len() < before, "{} of {before}", catalog.len());
        assert_eq!(names(&disk), expected);
        // A compacted catalog takes more frames.
        let mut frame = Frame {
            first_source: 4,
            first_layout: 1,
            ..Frame::default()
        };
        reuse(1, "a", &mut frame.reused);
        catalog.add(&frame).unwrap();
        assert_eq!(names(&disk)[1].as_deref(), Some("a"));
    }

    #[test]
    fn the_catalog_is_complete_after_a_crash_at_any_operation() {
        for operation in 1.. {
            let disk = SimDisk::new(operation);
            let mut catalog = written(&disk);
            disk.crash_after(Some(operation));
            let done = catalog.compact(&disk).is_ok();
            let disk = disk.crash();
            let expected = [Some("e".to_string()), None, None, Some("d".to_string())];
            assert_eq!(names(&disk), expected, "operation {operation}");
            let read = read(&disk).unwrap().unwrap();
            Catalog::open(&disk, &read).unwrap();
            assert_eq!(disk.list().unwrap().len(), 2, "operation {operation}");
            assert_eq!(names(&disk), expected, "operation {operation}");
            if done {
                return;
            }
        }
    }
}
