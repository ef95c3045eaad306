//! Files of an export. A file has its final name only when all of its rows are on the disk.

use super::layout::{BEGUN, LEVELS, Layout};
use anyhow::{Context, Result};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use clap::ValueEnum;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

/// Maximum number of rows of a row group. A row group is in memory, encoded, until it is complete.
const GROUP_ROWS: usize = 256 << 10;

/// Maximum bytes of a row group.
const GROUP_BYTES: usize = 64 << 20;

/// Format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Parquet, compressed by Zstandard.
    Parquet,
    /// Stream of Arrow (Feather without a footer), not compressed.
    Arrow,
}

impl Format {
    /// Returns the name of the file of a day.
    pub fn file_name(self) -> &'static str {
        match self {
            Format::Parquet => "rows.parquet",
            Format::Arrow => "rows.arrows",
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }

    /// Returns the time at which the export of a complete file began, ns; `None` if there is no such file.
    pub fn begun(self, path: &Path) -> Option<i64> {
        let schema = crate::arrow_stream::shielded(|| self.schema(path)).ok()?;
        schema.metadata().get(BEGUN)?.parse().ok()
    }

    fn schema(self, path: &Path) -> Result<SchemaRef> {
        let file = File::open(path)?;
        Ok(match self {
            Format::Parquet => ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?
                .schema()
                .clone(),
            Format::Arrow => StreamReader::try_new(BufReader::new(file), None)?.schema(),
        })
    }
}

enum Writer {
    Parquet(Box<ArrowWriter<File>>),
    Arrow(Box<StreamWriter<BufWriter<File>>>),
}

/// File of one day that is being written.
pub struct DayFile<'a> {
    format: Format,
    /// Folder of the file.
    folder: &'a Path,
    measurement: &'a str,
    begun: i64,
    /// Writer, after the first row.
    open: Option<(Layout, Writer)>,
    rows: u64,
    has_levels: bool,
}

/// Contents of a complete file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Number of rows; 0 if there is no file.
    pub rows: u64,
    /// True if the file contains rows of roll-ups.
    pub has_levels: bool,
}

impl<'a> DayFile<'a> {
    /// Begins a file. `begun` is the time before the query, ns. Nothing is created before the first row.
    pub fn new(format: Format, folder: &'a Path, measurement: &'a str, begun: i64) -> DayFile<'a> {
        DayFile {
            format,
            folder,
            measurement,
            begun,
            open: None,
            rows: 0,
            has_levels: false,
        }
    }

    /// Writes rows of a wide answer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (layout, writer) = match &mut self.open {
            Some(open) => open,
            None => {
                let opened = self.create(batch)?;
                self.open.insert(opened)
            }
        };
        let rows = layout.apply(batch)?;
        match writer {
            Writer::Parquet(writer) => writer.write(&rows)?,
            Writer::Arrow(writer) => writer.write(&rows)?,
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn create(&mut self, batch: &RecordBatch) -> Result<(Layout, Writer)> {
        let schema = batch.schema();
        self.has_levels = schema.metadata().contains_key(LEVELS);
        let layout = Layout::new(&schema, self.measurement, self.begun);
        fs::create_dir_all(self.folder)
            .with_context(|| format!("the folder {} cannot be created", self.folder.display()))?;
        let path = self.temporary();
        let file =
            File::create(&path).with_context(|| format!("{} cannot be created", path.display()))?;
        let writer = match self.format {
            Format::Parquet => {
                let writer = ArrowWriter::try_new(file, layout.schema.clone(), Some(properties()))?;
                Writer::Parquet(Box::new(writer))
            }
            Format::Arrow => Writer::Arrow(Box::new(StreamWriter::try_new_buffered(
                file,
                &layout.schema,
            )?)),
        };
        Ok((layout, writer))
    }

    /// Completes the file: writes its end, syncs it, and gives it its final name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<Written> {
        let Some((_, writer)) = self.open.take() else {
            return Ok(Written::default());
        };
        let file = match writer {
            Writer::Parquet(writer) => writer.into_inner()?,
            Writer::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?.into_inner()?
            }
        };
        file.sync_all()?;
        fs::rename(self.temporary(), self.folder.join(self.format.file_name()))?;
        sync_folders(self.folder)?;
        Ok(Written {
            rows: self.rows,
            has_levels: self.has_levels,
        })
    }

    /// Returns the name of the incomplete file. Readers of data sets skip names that begin with a dot.
    fn temporary(&self) -> PathBuf {
        self.folder
            .join(format!(".{}.part", self.format.file_name()))
    }
}

/// Syncs the names in the folder of a day, in that of its measurement, and in that of the export.
fn sync_folders(folder: &Path) -> Result<()> {
    for folder in folder.ancestors().take(3) {
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn properties() -> WriterProperties {
    let time = ColumnPath::new(vec!["time".to_string()]);
    WriterProperties::builder()
        .set_created_by(concat!("seiner ", env!("CARGO_PKG_VERSION")).to_string())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        // Nearly every time of a source is new, but its distance to the previous one is not.
        .set_column_dictionary_enabled(time.clone(), false)
        .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
        .build()
}
