//! `seiner inspect`: prints the contents of the files in a directory.

use crate::failure::Failure;
use clap::{Args, Subcommand};
use seiner_engine::inspect::{self, BlockView, FileKind, SegmentView};
use seiner_engine::{Error, Reading, read_directory};
use seiner_model::{FieldType, Interval, Selector};
use seiner_platform::Disk;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write, stdout};
use std::path::PathBuf;

/// Show the contents of the files in a directory.
///
/// Without a part, the command lists the files by kind. Changes nothing. Byte offsets are those of
/// docs/format/.
#[derive(Args)]
#[command(subcommand_value_name = "PART", subcommand_help_heading = "Parts")]
pub struct Inspect {
    /// Directory of the store. A server may have the directory open.
    directory: PathBuf,
    #[command(subcommand)]
    part: Option<Part>,
    /// Print JSON: an array with one object per line of the table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Part {
    /// Show every file.
    Files,
    /// Show the segments with the contents of their trailers.
    Segments,
    /// Show the footer pages of a segment.
    Segment {
        /// Number of the segment.
        number: u64,
    },
    /// Show the blocks of a segment, with the size of each column.
    Blocks {
        /// Number of the segment.
        number: u64,
        /// Only blocks of these sources, such as 'cpu{host=a}'.
        #[arg(long, value_name = "SELECTOR", default_value = "{}")]
        source: String,
        /// Maximum number of blocks.
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: usize,
    },
    /// Show the records of the journal.
    Journal,
    /// Show the frames of the catalog.
    Catalog,
    /// Show the layouts: the columns of sources.
    Layouts,
    /// Show the sources that the catalog and the journal name.
    Sources {
        /// Only these sources.
        #[arg(default_value = "{}")]
        selector: String,
    },
}

/// Rows of a table. All rows have the same names in the same order.
type Rows = Vec<Vec<(&'static str, Value)>>;

impl Inspect {
    /// Prints the table.
    pub fn run(self) -> Result<(), Failure> {
        let selector = match &self.part {
            Some(Part::Blocks { source, .. }) => parse(source)?,
            Some(Part::Sources { selector }) => parse(selector)?,
            _ => Selector::all(),
        };
        let rows = read_directory(&self.directory, |disk| {
            self.rows(&*disk, &selector).map(Reading::Done)
        });
        let rows = rows?;
        let mut out = stdout().lock();
        if self.json {
            write_json(rows, &mut out)?
        } else {
            write_table(&rows, &mut out)?
        }
        Ok(())
    }
}

impl Inspect {
    fn rows(&self, disk: &dyn Disk, selector: &Selector) -> Result<Rows, Error> {
        match &self.part {
            None => kinds(disk),
            Some(Part::Files) => files(disk),
            Some(Part::Segments) => Ok(inspect::segments(disk)?.iter().map(segment).collect()),
            Some(Part::Segment { number }) => pages(disk, *number),
            Some(Part::Blocks { number, limit, .. }) => blocks(disk, *number, selector, *limit),
            Some(Part::Journal) => journal(disk),
            Some(Part::Catalog) => frames(disk),
            Some(Part::Layouts) => layouts(disk),
            Some(Part::Sources { .. }) => sources(disk, selector),
        }
    }
}

fn parse(selector: &str) -> Result<Selector, Failure> {
    Selector::parse(selector).map_err(|error| Failure::Usage(error.to_string()))
}

// ---- the parts

fn kinds(disk: &dyn Disk) -> Result<Rows, Error> {
    let mut kinds: BTreeMap<FileKind, (u64, u64)> = BTreeMap::new();
    for file in inspect::files(disk)? {
        let (files, bytes) = kinds.entry(file.kind).or_default();
        (*files, *bytes) = (*files + 1, *bytes + file.bytes);
    }
    let row = |(kind, (files, bytes)): (FileKind, (u64, u64))| {
        vec![
            ("kind", json!(kind.name())),
            ("files", json!(files)),
            ("bytes", json!(bytes)),
        ]
    };
    Ok(kinds.into_iter().map(row).collect())
}

fn files(disk: &dyn Disk) -> Result<Rows, Error> {
    let row = |file: inspect::FileView| {
        vec![
            ("file", json!(file.file)),
            ("kind", json!(file.kind.name())),
            ("bytes", json!(file.bytes)),
        ]
    };
    Ok(inspect::files(disk)?.into_iter().map(row).collect())
}

fn segment(segment: &SegmentView) -> Vec<(&'static str, Value)> {
    let trailer = segment.trailer.as_ref();
    let number = |value: fn(&inspect::TrailerView) -> u64| {
        trailer.map_or(Value::Null, |trailer| json!(value(trailer)))
    };
    vec![
        ("segment", json!(segment.number)),
        ("kind", json!(segment.kind.name())),
        ("bytes", json!(segment.bytes)),
        ("blocks", number(|trailer| trailer.blocks)),
        ("rows", number(|trailer| trailer.rows)),
        ("block_bytes", number(|trailer| trailer.block_bytes)),
        ("footer_bytes", number(|trailer| trailer.footer_bytes)),
        ("pages", number(|trailer| trailer.pages)),
        (
            "first_time",
            trailer.map_or(Value::Null, |trailer| time(trailer.span.start)),
        ),
        (
            "last_time",
            trailer.map_or(Value::Null, |trailer| time(trailer.span.end)),
        ),
        ("last_block", number(|trailer| trailer.last_block)),
        ("sequence", number(|trailer| trailer.sequence)),
        ("sources", number(|trailer| u64::from(trailer.sources))),
        ("layouts", number(|trailer| u64::from(trailer.layouts))),
        ("damage", json!(segment.damage)),
    ]
}

fn pages(disk: &dyn Disk, number: u64) -> Result<Rows, Error> {
    let row = |page: inspect::PageView| {
        vec![
            ("offset", json!(page.offset)),
            ("bytes", json!(page.bytes)),
            ("first_source", json!(page.first_source.0)),
            ("entries", json!(page.entries)),
            ("damage", json!(page.damage)),
        ]
    };
    Ok(inspect::pages(disk, number)?.into_iter().map(row).collect())
}

fn blocks(disk: &dyn Disk, number: u64, selector: &Selector, limit: usize) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    let mut more = 0_u64;
    inspect::blocks::<seiner_engine::Error>(disk, number, selector, &mut |view| {
        if rows.len() < limit {
            rows.push(block(view));
        } else {
            more += 1;
        }
        Ok(())
    })?;
    if more > 0 {
        eprintln!("seiner: {more} blocks more; see --limit");
    }
    Ok(rows)
}

fn block(block: BlockView) -> Vec<(&'static str, Value)> {
    let Interval { start, end } = block.span;
    let columns = block.columns.iter().map(|column| {
        json!({
            "field": column.field,
            "type": column.field_type.name(),
            "values": column.values,
            "gaps": column.gaps,
            "aggregates": column.summary,
            "bytes": column.bytes,
            "codec": column.codec,
        })
    });
    vec![
        ("block", json!(block.number)),
        ("source", json!(block.source.0)),
        ("offset", json!(block.offset)),
        ("bytes", json!(block.bytes)),
        ("bundle", json!(block.bundle)),
        ("rows", json!(block.rows)),
        ("first_time", time(start)),
        ("last_time", time(end)),
        ("layout", json!(block.layout)),
        ("time_bytes", json!(block.time_bytes)),
        ("columns", Value::Array(columns.collect())),
        ("damage", json!(block.damage)),
    ]
}

fn journal(disk: &dyn Disk) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    for file in inspect::journal(disk)? {
        rows.extend(file.records.iter().map(|record| {
            vec![
                ("file", json!(file.file)),
                ("offset", json!(record.offset)),
                ("sequence", json!(record.sequence)),
                ("bytes", json!(record.bytes)),
                ("plain_bytes", json!(record.plain_bytes)),
                ("rows", json!(record.rows)),
                ("sources", json!(record.sources)),
                ("blocks", json!(record.blocks)),
                ("new_sources", json!(record.new_sources)),
                ("new_layouts", json!(record.new_layouts)),
                ("whole", json!(record.whole)),
            ]
        }));
        for (from, to) in &file.damage {
            eprintln!(
                "seiner: {}: bytes {from} to {to} are not records",
                file.file
            );
        }
        if file.torn_bytes > 0 {
            eprintln!(
                "seiner: {}: what begins at {} is not whole",
                file.file, file.used
            );
        }
        if file.first_sequence.is_none() {
            eprintln!("seiner: {}: it has no header of this store", file.file);
        }
    }
    Ok(rows)
}

fn frames(disk: &dyn Disk) -> Result<Rows, Error> {
    let catalog = inspect::catalog(disk)?;
    for (file, offset, what) in &catalog.damage {
        eprintln!("seiner: {file}, offset {offset}: {what}");
    }
    let row = |frame: &inspect::FrameView| {
        vec![
            ("store", json!(format!("{:016x}", catalog.store))),
            ("offset", json!(frame.offset)),
            ("bytes", json!(frame.bytes)),
            ("first_source", json!(frame.first_source)),
            ("sources", json!(frame.sources)),
            ("layouts", json!(frame.layouts)),
            ("links", json!(frame.links)),
        ]
    };
    Ok(catalog.frames.iter().map(row).collect())
}

fn layouts(disk: &dyn Disk) -> Result<Rows, Error> {
    let row = |layout: inspect::LayoutView| {
        vec![
            ("layout", json!(layout.number)),
            ("parent", json!(layout.parent)),
            ("sources", json!(layout.sources)),
            ("fields", fields(&layout.fields)),
        ]
    };
    Ok(inspect::catalog(disk)?
        .layouts
        .into_iter()
        .map(row)
        .collect())
}

fn sources(disk: &dyn Disk, selector: &Selector) -> Result<Rows, Error> {
    let row = |source: inspect::SourceView| {
        vec![
            ("source", json!(source.id.0)),
            ("key", json!(source.key.to_string())),
            (
                "known_to",
                json!(if source.catalogued {
                    "catalog"
                } else {
                    "journal"
                }),
            ),
            ("fields", fields(&source.fields)),
        ]
    };
    Ok(inspect::sources(disk, selector)?
        .into_iter()
        .map(row)
        .collect())
}

fn fields(fields: &[(String, FieldType)]) -> Value {
    fields
        .iter()
        .map(|(name, field_type)| json!({ "field": name, "type": field_type.name() }))
        .collect()
}

/// Formats a time as RFC 3339. Many JSON readers would round a number of nanoseconds, and people cannot read
/// it.
fn time(time: i64) -> Value {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time));
    json!(
        time.expect("every i64 of nanoseconds is a time of the calendar")
            .to_string()
    )
}

// ---- printing

fn write_json(rows: Rows, out: &mut impl Write) -> io::Result<()> {
    let object = |row: Vec<(&'static str, Value)>| {
        row.into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect::<serde_json::Map<_, _>>()
    };
    let rows: Vec<Value> = rows
        .into_iter()
        .map(|row| Value::Object(object(row)))
        .collect();
    writeln!(out, "{:#}", Value::Array(rows))
}

/// Prints a table: numbers right-aligned, texts left-aligned. Omits empty columns.
fn write_table(rows: &Rows, out: &mut impl Write) -> io::Result<()> {
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|(_, value)| in_words(value)).collect())
        .collect();
    let shown: Vec<(usize, usize)> = (0..first.len())
        .filter_map(|column| {
            let widest = cells
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .filter(|&width| width > 0)?;
            Some((column, widest.max(first[column].0.len())))
        })
        .collect();
    let is_number = |column: usize| {
        rows.iter()
            .all(|row| matches!(row[column].1, Value::Number(_) | Value::Null))
    };
    let mut line = |texts: &dyn Fn(usize) -> String| {
        let cells = shown.iter().map(|&(column, width)| {
            let text = texts(column);
            if is_number(column) {
                format!("{text:>width$}")
            } else {
                format!("{text:width$}")
            }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    line(&|column| first[column].0.to_string())?;
    for row in &cells {
        line(&|column| row[column].clone())?;
    }
    Ok(())
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(in_words).collect::<Vec<_>>().join(", "),
        // A JSON object is a column of a block, or a field.
        Value::Object(column) => {
            let part = |name: &str| column.get(name).map(in_words).unwrap_or_default();
            let mut text = format!("{}:{}", part("field"), part("type"));
            if column.contains_key("values") {
                text += &format!(" {}v {}B", part("values"), part("bytes"));
                text += &column
                    .get("codec")
                    .filter(|codec| !codec.is_null())
                    .map(|codec| format!(" codec {codec}"))
                    .unwrap_or_default();
            }
            text
        }
        other => other.to_string(),
    }
}
