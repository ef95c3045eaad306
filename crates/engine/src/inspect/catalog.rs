//! Catalog view: frames, layouts and sources.

use super::registry::{Registry, open_catalog};
use crate::catalog::{NAME, ReadFrame, read_links};
use crate::error::Error;
use crate::error::io_error;
use crate::journal::files;
use crate::journal::reader::FileReader;
use crate::journal::rows::JournalRows;
use seiner_model::{FieldType, Selector, SourceId, SourceKey};
use seiner_platform::Disk;

/// Contents of the catalog.
#[derive(Clone, Debug)]
pub struct CatalogView {
    /// Identity of the store.
    pub store: u64,
    /// Length in bytes up to the end of the last valid frame. The catalog is stored twice; this is
    /// the length of one copy.
    pub bytes: u64,
    /// Frames of the catalog.
    pub frames: Vec<FrameView>,
    /// Layouts, by number.
    pub layouts: Vec<LayoutView>,
    /// Number of sources in the catalog.
    pub sources: u64,
    /// Damaged places: file, offset, description.
    pub damage: Vec<(String, u64, String)>,
}

/// Frame of the catalog.
#[derive(Clone, Debug)]
pub struct FrameView {
    /// Offset of the frame in the file, in bytes.
    pub offset: u64,
    /// Length of the frame in bytes.
    pub bytes: u64,
    /// Number of the first source in the frame.
    pub first_source: u32,
    /// Number of sources that the frame adds.
    pub sources: u32,
    /// Number of layouts that the frame adds.
    pub layouts: u32,
    /// Number of sources to which the frame assigns a layout.
    pub links: u64,
}

/// Layout: the columns of the sources that share it.
#[derive(Clone, Debug)]
pub struct LayoutView {
    /// Number of the layout.
    pub number: u32,
    /// Number of the layout that this layout extends by its last field.
    pub parent: u32,
    /// Fields and types, in the order of columns.
    pub fields: Vec<(String, FieldType)>,
    /// Number of sources with this layout.
    pub sources: u64,
}

/// Source with its fields.
#[derive(Clone, Debug)]
pub struct SourceView {
    /// Number of the source.
    pub id: SourceId,
    /// Measurement and tags of the source.
    pub key: SourceKey,
    /// Fields of the source, without fields that occur only in rows of the journal.
    pub fields: Vec<(String, FieldType)>,
    /// True if the catalog contains the source; false if only the journal does.
    pub catalogued: bool,
}

/// Reads the catalog.
///
/// # Errors
/// If there is no catalog, its header is damaged, or the disk fails.
pub fn catalog(disk: &dyn Disk) -> Result<CatalogView, Error> {
    let catalog = open_catalog(disk)?;
    let mut frames: Vec<FrameView> = catalog.frames().map(|read| frame_view(&read)).collect();
    let mut end = catalog.end();
    for frame in frames.iter_mut().rev() {
        frame.bytes = end - frame.offset;
        end = frame.offset;
    }
    let differs = |&(file, offset): &(&str, u64)| {
        (
            file.to_string(),
            offset,
            "it differs from its copy".to_string(),
        )
    };
    let mut damage: Vec<_> = catalog.damaged.iter().map(differs).collect();
    let registry = Registry::read(catalog.frames(), &mut |offset, what| {
        damage.push((NAME.to_string(), offset, what))
    });
    let layouts = layouts(&registry);
    Ok(CatalogView {
        store: catalog.store,
        bytes: catalog.end(),
        frames,
        layouts,
        sources: registry.dictionary.present(),
        damage,
    })
}

/// Returns a frame without its length.
fn frame_view(read: &ReadFrame) -> FrameView {
    let frame = read.frame.as_ref().ok();
    let links = frame.and_then(|frame| read_links(frame).ok());
    FrameView {
        offset: read.offset,
        bytes: 0,
        first_source: frame.map_or(0, |frame| frame.first_source),
        sources: frame.map_or(0, |frame| frame.sources),
        layouts: frame.map_or(0, |frame| frame.new_layouts),
        links: links.map_or(0, |links| links.len() as u64),
    }
}

fn layouts(registry: &Registry) -> Vec<LayoutView> {
    let mut users = vec![0; registry.layouts.len()];
    for source in 0..registry.sources() {
        if let Some(layout) = registry.layout_of(source) {
            users[layout.number() as usize] += 1;
        }
    }
    let layouts = (0..registry.layouts.len() as u32).filter_map(|number| registry.layout(number));
    layouts
        .map(|layout| LayoutView {
            number: layout.number(),
            parent: layout.parent(),
            fields: fields(layout),
            sources: users[layout.number() as usize],
        })
        .collect()
}

fn fields(layout: &crate::dictionary::layouts::Layout) -> Vec<(String, FieldType)> {
    layout
        .names()
        .iter()
        .map(|name| name.to_string())
        .zip(layout.types().iter().copied())
        .collect()
}

/// Returns the sources that match a selector, including sources that only the journal contains.
///
/// # Errors
/// If there is no catalog, its header is damaged, or the disk fails.
pub fn sources(disk: &dyn Disk, selector: &Selector) -> Result<Vec<SourceView>, Error> {
    let catalog = open_catalog(disk)?;
    let mut registry = Registry::read(catalog.frames(), &mut |_, _| {});
    let catalogued = registry.sources();
    add_journal(disk, catalog.store, &mut registry)?;
    let view = |number| SourceView {
        id: SourceId(number),
        key: registry
            .dictionary
            .key(number)
            .expect("selected sources are known"),
        fields: registry
            .layout_of(number)
            .map_or_else(Vec::new, |layout| fields(layout)),
        catalogued: number < catalogued,
    };
    Ok(registry
        .dictionary
        .select(selector)
        .iter()
        .map(view)
        .collect())
}

/// Adds the registrations in the journal, as far as the journal can be read.
fn add_journal(disk: &dyn Disk, store: u64, registry: &mut Registry) -> Result<(), Error> {
    for number in super::numbers(disk)? {
        let name = files::name(number);
        let context = || format!("reading {name}");
        let file = disk.open(&name).map_err(io_error(context))?;
        let Some(mut reader) =
            FileReader::open(&*file, number, store).map_err(io_error(context))?
        else {
            continue;
        };
        while let Some(read) = reader.next_record() {
            let Ok(record) = read.record else {
                continue;
            };
            // Contradictions between journal and catalog are reported by a check.
            let _ = registry.add_record(read.sequence, &record);
            for row in JournalRows::new(&record).flatten() {
                if let Some(start) = row.start {
                    let _ = registry.link(row.source, start.layout);
                }
            }
        }
    }
    Ok(())
}
