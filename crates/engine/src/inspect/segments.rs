//! Segments, the pages of their footers, and their blocks.

use super::FileKind;
use super::registry::{Registry, open_catalog};
use crate::block::Block;
use crate::error::Error;
use crate::segment::Entry;
use crate::segment::sealed::{LastPage, Segment};
use crate::volume;
use seiner_model::{FieldType, Interval, Selector, SourceId};
use seiner_platform::Disk;

/// A slot of the volume.
#[derive(Clone, Debug)]
pub struct SegmentView {
    /// The segment's number.
    pub number: u64,
    /// Its file.
    pub file: String,
    /// Sealed, being written, or set aside.
    pub kind: FileKind,
    /// The file's length, bytes.
    pub bytes: u64,
    /// What it says about itself; for one that is not sealed, nothing.
    pub trailer: Option<TrailerView>,
    /// Why a sealed segment cannot be opened.
    pub damage: Option<String>,
}

/// What a sealed segment says about itself.
#[derive(Clone, Debug)]
pub struct TrailerView {
    /// Blocks.
    pub blocks: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of them.
    pub block_bytes: u64,
    /// Bytes of footer pages and fence.
    pub footer_bytes: u64,
    /// Footer pages.
    pub pages: u64,
    /// The times in it.
    pub span: Interval,
    /// The highest block number in it.
    pub last_block: u64,
    /// The journal's sequence when it was closed.
    pub sequence: u64,
    /// Sources that the store had.
    pub sources: u32,
    /// Layouts that the store had, the empty one included.
    pub layouts: u32,
}

/// A page of a footer.
#[derive(Clone, Debug)]
pub struct PageView {
    /// Where it begins.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// The source of its first entry.
    pub first_source: SourceId,
    /// Its entries.
    pub entries: u64,
    /// Why it cannot be read.
    pub damage: Option<String>,
}

/// A block.
#[derive(Clone, Debug)]
pub struct BlockView {
    /// The segment it lies in.
    pub segment: u64,
    /// Its number.
    pub number: u64,
    /// Its source.
    pub source: SourceId,
    /// Where it begins.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
    /// The times in it.
    pub span: Interval,
    /// Its layout.
    pub layout: u32,
    /// Bytes of the times.
    pub time_bytes: u64,
    /// Its columns.
    pub columns: Vec<ColumnView>,
    /// Why it cannot be read; then only the footer's part is told.
    pub damage: Option<String>,
}

/// A column of a block.
#[derive(Clone, Debug)]
pub struct ColumnView {
    /// The field.
    pub field: String,
    /// Its type.
    pub field_type: FieldType,
    /// Values.
    pub values: u64,
    /// Whether rows without a value are among the block's.
    pub gaps: bool,
    /// Whether aggregates stand beside the values.
    pub summary: bool,
    /// Bytes.
    pub bytes: u64,
    /// The tag of the codec, as `docs/format/codecs.md` lists them; none where there are no values.
    pub codec: Option<u8>,
}

/// The segments, by number.
///
/// # Errors
/// When there is no catalog, its header is damaged, or the disk fails.
pub fn segments(disk: &dyn Disk) -> Result<Vec<SegmentView>, Error> {
    let store = open_catalog(disk)?.store;
    let mut views = Vec::new();
    for file in super::files(disk)? {
        let Some((number, _)) = volume::parse(&file.file) else {
            continue;
        };
        let mut view = SegmentView {
            number,
            file: file.file,
            kind: file.kind,
            bytes: file.bytes,
            trailer: None,
            damage: None,
        };
        if view.kind == FileKind::Segment {
            match Segment::on(disk, &view.file, store) {
                Ok(segment) => view.trailer = Some(trailer(&segment)),
                Err(error) => view.damage = Some(error.to_string()),
            }
        }
        views.push(view);
    }
    views.sort_by_key(|view| view.number);
    Ok(views)
}

fn trailer(segment: &Segment) -> TrailerView {
    let trailer = &segment.trailer;
    let pages = segment.fence();
    TrailerView {
        blocks: trailer.blocks,
        rows: trailer.rows,
        block_bytes: trailer.block_bytes,
        footer_bytes: pages.iter().map(|page| u64::from(page.len)).sum::<u64>()
            + u64::from(trailer.fence_len),
        pages: pages.len() as u64,
        span: trailer.span,
        last_block: trailer.last_block,
        sequence: trailer.sequence,
        sources: trailer.sources,
        layouts: trailer.layouts,
    }
}

/// The sealed segment of a number.
fn sealed(disk: &dyn Disk, number: u64) -> Result<Segment, Error> {
    let store = open_catalog(disk)?.store;
    let files = super::files(disk)?;
    let file = files.iter().find(|file| {
        file.kind == FileKind::Segment
            && volume::parse(&file.file).is_some_and(|(n, _)| n == number)
    });
    let file = file.ok_or_else(|| Error::Query(format!("there is no sealed segment {number}")))?;
    Segment::on(disk, &file.file, store)
}

/// The footer pages of a sealed segment.
///
/// # Errors
/// When there is no such segment, it cannot be opened, or the disk fails.
pub fn pages(disk: &dyn Disk, number: u64) -> Result<Vec<PageView>, Error> {
    let segment = sealed(disk, number)?;
    let view = |page| {
        let entries = segment.page(page);
        PageView {
            offset: u64::from(page.offset),
            bytes: u64::from(page.len),
            first_source: SourceId(page.first_source),
            entries: entries.as_ref().map_or(0, |entries| entries.len() as u64),
            damage: entries.err().map(|error| error.to_string()),
        }
    };
    Ok(segment.fence().iter().map(view).collect())
}

/// The blocks of a sealed segment, those of the selected sources, by source and number. They are
/// passed to `visit` one by one; a segment may have a million.
///
/// # Errors
/// When there is no such segment, it cannot be opened, or the disk fails; what `visit` answers.
pub fn blocks<E: From<Error>>(
    disk: &dyn Disk,
    number: u64,
    selector: &Selector,
    visit: &mut dyn FnMut(BlockView) -> Result<(), E>,
) -> Result<(), E> {
    let segment = sealed(disk, number)?;
    let registry = Registry::read(&open_catalog(disk)?.frames, &mut |_, _| {});
    let mut last = LastPage::default();
    let mut entries = Vec::new();
    for source in registry.dictionary.select(selector).iter() {
        entries.clear();
        segment.blocks_of(source, &mut last, &mut entries)?;
        for entry in &entries {
            visit(view(&segment, &registry, entry))?;
        }
    }
    Ok(())
}

fn view(segment: &Segment, registry: &Registry, entry: &Entry) -> BlockView {
    let mut view = BlockView {
        segment: segment.trailer.number,
        number: entry.number,
        source: SourceId(entry.source),
        offset: u64::from(entry.offset),
        bytes: u64::from(entry.len),
        rows: u64::from(entry.rows),
        span: Interval::new(entry.first, entry.last),
        layout: 0,
        time_bytes: 0,
        columns: Vec::new(),
        damage: None,
    };
    view.damage = open_up(segment, registry, entry, &mut view).err();
    view
}

fn open_up(
    segment: &Segment,
    registry: &Registry,
    entry: &Entry,
    view: &mut BlockView,
) -> Result<(), String> {
    let bytes = segment.read(entry).map_err(|error| error.to_string())?;
    let block = Block::open(&bytes)?;
    view.layout = block.head.layout;
    let layout = registry
        .layout(block.head.layout)
        .ok_or("its layout is unknown")?;
    let shape = block.shape(layout.columns())?;
    view.time_bytes = shape.time_bytes as u64;
    let fields = layout.names().iter().zip(layout.types());
    let columns = fields
        .zip(shape.columns)
        .map(|((field, &field_type), column)| ColumnView {
            field: field.to_string(),
            field_type,
            values: column.values as u64,
            gaps: column.gaps,
            summary: column.summary,
            bytes: column.bytes as u64,
            codec: column.codec,
        });
    view.columns = columns.collect();
    Ok(())
}
