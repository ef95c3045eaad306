//! Segment view: segments, the pages of their footers, and their blocks.

use super::FileKind;
use super::registry::{Registry, open_catalog};
use crate::block::Block;
use crate::bundle::Whole;
use crate::error::Error;
use crate::segment::Entry;
use crate::segment::sealed::{LastPage, Segment};
use crate::volume;
use seiner_bundle::SourceRows;
use seiner_model::{FieldType, Interval, Selector, SourceId};
use seiner_platform::Disk;

/// Segment of the volume.
#[derive(Clone, Debug)]
pub struct SegmentView {
    /// Number of the segment.
    pub number: u64,
    /// Name of the segment's file.
    pub file: String,
    /// Kind of the file: sealed, being written, or set aside.
    pub kind: FileKind,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Trailer of the segment. `None` if the segment is not sealed.
    pub trailer: Option<TrailerView>,
    /// Reason why a sealed segment cannot be opened.
    pub damage: Option<String>,
}

/// Trailer of a sealed segment.
#[derive(Clone, Debug)]
pub struct TrailerView {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of rows in the blocks.
    pub rows: u64,
    /// Bytes of the blocks.
    pub block_bytes: u64,
    /// Bytes of footer pages and sparse index.
    pub footer_bytes: u64,
    /// Number of footer pages.
    pub pages: u64,
    /// Interval of the times in the segment.
    pub span: Interval,
    /// Highest block number in the segment.
    pub last_block: u64,
    /// Sequence of the journal when the segment was closed.
    pub sequence: u64,
    /// Number of sources in the store when the segment was closed.
    pub sources: u32,
    /// Number of layouts in the store when the segment was closed, the empty layout included.
    pub layouts: u32,
}

/// Page of a footer.
#[derive(Clone, Debug)]
pub struct PageView {
    /// Offset of the page in the file, in bytes.
    pub offset: u64,
    /// Length of the page in bytes.
    pub bytes: u64,
    /// Source of the first entry.
    pub first_source: SourceId,
    /// Number of entries.
    pub entries: u64,
    /// Reason why the page cannot be read.
    pub damage: Option<String>,
}

/// Block of a segment.
#[derive(Clone, Debug)]
pub struct BlockView {
    /// Number of the segment that contains the block.
    pub segment: u64,
    /// Number of the block.
    pub number: u64,
    /// Source of the block.
    pub source: SourceId,
    /// Offset of the block in the segment, in bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub bytes: u64,
    /// Bytes of the bundle that contains the block. The bytes of the block are then its share.
    pub bundle: Option<u64>,
    /// Number of rows.
    pub rows: u64,
    /// Interval of the times in the block.
    pub span: Interval,
    /// Number of the block's layout.
    pub layout: u32,
    /// Bytes of the times.
    pub time_bytes: u64,
    /// Columns of the block.
    pub columns: Vec<ColumnView>,
    /// Reason why the block cannot be read. The view then contains only the fields from the footer.
    pub damage: Option<String>,
}

/// Column of a block.
#[derive(Clone, Debug)]
pub struct ColumnView {
    /// Name of the field.
    pub field: String,
    /// Type of the field.
    pub field_type: FieldType,
    /// Number of values.
    pub values: u64,
    /// True if some rows of the block have no value in this column.
    pub gaps: bool,
    /// True if the column stores aggregates beside its values.
    pub summary: bool,
    /// Bytes of the column.
    pub bytes: u64,
    /// Tag of the codec, as listed in `docs/format/codecs.md`. `None` if the column has no values.
    pub codec: Option<u8>,
}

/// Reads the segments, by number.
///
/// # Errors
/// If there is no catalog, its header is damaged, or the disk fails.
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
    let pages = segment.sparse_index();
    TrailerView {
        blocks: trailer.blocks,
        rows: trailer.rows,
        block_bytes: trailer.block_bytes,
        footer_bytes: pages.iter().map(|page| u64::from(page.len)).sum::<u64>()
            + u64::from(trailer.sparse_index_len),
        pages: pages.len() as u64,
        span: trailer.span,
        last_block: trailer.last_block,
        sequence: trailer.sequence,
        sources: trailer.sources,
        layouts: trailer.layouts,
    }
}

/// Opens the sealed segment with a number.
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

/// Reads the footer pages of a sealed segment.
///
/// # Errors
/// If the segment does not exist or cannot be opened, or the disk fails.
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
    Ok(segment.sparse_index().iter().map(view).collect())
}

/// Reads the blocks of the selected sources in a sealed segment, by source and number. Blocks are
/// passed to `visit` one by one, because a segment may contain a million.
///
/// # Errors
/// If the segment does not exist or cannot be opened, or the disk fails. Errors of `visit` are
/// returned as they are.
pub fn blocks<E: From<Error>>(
    disk: &dyn Disk,
    number: u64,
    selector: &Selector,
    visit: &mut dyn FnMut(BlockView) -> Result<(), E>,
) -> Result<(), E> {
    let segment = sealed(disk, number)?;
    let registry = Registry::read(open_catalog(disk)?.frames(), &mut |_, _| {});
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
        bundle: entry.is_bundled().then_some(u64::from(entry.bundle)),
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
    if entry.is_bundled() {
        return open_bundled(&bytes, registry, entry, view);
    }
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

/// Shows a block in a bundle with these bytes. The columns have no bytes of their own.
fn open_bundled(
    bytes: &[u8],
    registry: &Registry,
    entry: &Entry,
    view: &mut BlockView,
) -> Result<(), String> {
    let bundle = Whole::open(bytes)?;
    let id = u64::from(entry.source);
    // Chunks with other fields may be damaged.
    let mut found = Err("the bundle has no rows of the source".to_string());
    for chunk in bundle.directory.find(id) {
        match bundle.chunk(&chunk) {
            Ok(rows) => found = rows.find(id).map_or(found, Ok),
            Err(what) => found = found.or(Err(what)),
        }
    }
    let SourceRows { layout, rows, .. } = found?;
    view.layout = registry
        .find_layout(layout.fields())
        .ok_or("its layout is unknown")?;
    let fields = layout.fields().iter().zip(&rows.fields);
    let columns = fields.map(|((field, field_type), column)| ColumnView {
        field: field.clone(),
        field_type: *field_type,
        values: column.values.len() as u64,
        gaps: column.present.is_some(),
        summary: false,
        bytes: 0,
        codec: None,
    });
    view.columns = columns.collect();
    Ok(())
}
