//! Reader of files of Parquet and Arrow, some rows at a time.

use super::messages::{END, Messages};
use crate::arrow_stream::{BatchDecoder, TakeBatch, shielded};
use anyhow::{Context, Result, bail};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use indicatif::ProgressBar;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::path::Path;

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 32 << 10;

/// Maximum number of cells of a batch.
const BATCH_CELLS: usize = 1 << 20;

/// First and last bytes of a file of Arrow. A stream has none.
const MAGIC: &[u8; 6] = b"ARROW1";

/// Maximum bytes before the stream in a file of Arrow.
const MAX_BEGIN: u64 = 4096;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Parquet,
    /// File or stream of Arrow.
    Arrow,
}

impl Format {
    /// Ends of the names of files in a folder.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Parquet => &["parquet", "pq", "parq"],
            Format::Arrow => &["arrow", "arrows", "feather", "ipc"],
        }
    }

    /// Reads the schema of a file.
    ///
    /// # Errors
    /// If the file cannot be read or has another format.
    pub fn schema(self, path: &Path) -> Result<SchemaRef> {
        let file = File::open(path).context("the file cannot be opened")?;
        match self {
            Format::Parquet => Ok(metadata(&file)?.schema().clone()),
            Format::Arrow => {
                let mut decoder = BatchDecoder::default();
                let first = Messages::new(content(file)?).next()?;
                let (_, mut first) = first.context("the file is not complete: it has no schema")?;
                // The decoder looks at a message when another one follows.
                first.extend_from_slice(&END);
                decoder.take(first, &mut |_| Ok(()))?;
                decoder.schema().context("the file has no schema")
            }
        }
    }

    /// Reads the columns with the given indices, ascending, and passes batches of rows to a function.
    ///
    /// # Errors
    /// If the file is damaged, and the errors of the function.
    pub fn read(
        self,
        path: &Path,
        columns: &[usize],
        bar: &ProgressBar,
        take: &mut TakeBatch<'_>,
    ) -> Result<()> {
        let file = File::open(path).context("the file cannot be opened")?;
        match self {
            Format::Parquet => read_parquet(file, columns, bar, take),
            Format::Arrow => read_arrow(file, columns, bar, take),
        }
    }
}

fn read_parquet(
    file: File,
    columns: &[usize],
    bar: &ProgressBar,
    take: &mut TakeBatch<'_>,
) -> Result<()> {
    let length = file.metadata()?.len();
    let metadata = metadata(&file)?;
    let all_rows = metadata.metadata().file_metadata().num_rows().max(1) as u64;
    let mut reader = shielded(|| {
        let roots = columns.iter().copied();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
        let builder = builder
            .with_projection(mask)
            .with_batch_size(batch_rows(columns.len()));
        builder.build().context("the file is damaged")
    })?;
    let mut rows = 0;
    while let Some(batch) = shielded(|| {
        let batch = reader.next().transpose();
        batch.context("the file is damaged")
    })? {
        rows += batch.num_rows() as u64;
        take(batch)?;
        // Rows of a file are about equally long.
        bar.set_position((u128::from(length) * u128::from(rows) / u128::from(all_rows)) as u64);
    }
    Ok(())
}

/// Reads the metadata of a Parquet file, and checks that its columns are in the file.
fn metadata(file: &File) -> Result<ArrowReaderMetadata> {
    let length = file.metadata()?.len();
    let metadata = shielded(|| {
        ArrowReaderMetadata::load(file, ArrowReaderOptions::new())
            .context("this is not a complete file of Parquet")
    })?;
    let groups = metadata.metadata().row_groups().iter();
    for column in groups.flat_map(|group| group.columns()) {
        let start = column
            .dictionary_page_offset()
            .unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let fits = end.is_some_and(|end| u64::try_from(end).is_ok_and(|end| end <= length));
        if start < 0 || column.compressed_size() < 0 || !fits {
            bail!(
                "the file is damaged: column {:?} does not lie in the file",
                column.column_path().string()
            );
        }
    }
    Ok(metadata)
}

fn read_arrow(
    file: File,
    columns: &[usize],
    bar: &ProgressBar,
    take: &mut TakeBatch<'_>,
) -> Result<()> {
    let full = batch_rows(columns.len());
    let mut messages = Messages::new(content(file)?);
    let mut decoder = BatchDecoder::default();
    while let Some((length, message)) = shielded(|| messages.next())? {
        bar.inc(length);
        let mut divide = |batch: RecordBatch| {
            let batch = batch.project(columns)?;
            for start in (0..batch.num_rows()).step_by(full) {
                take(batch.slice(start, full.min(batch.num_rows() - start)))?;
            }
            Ok(())
        };
        decoder.take(message, &mut divide)?;
    }
    decoder.finish()
}

/// Returns the part of a file that is a stream of Arrow: a file of Arrow has a magic number and zeros before the stream,
/// and a footer behind it.
fn content(mut file: File) -> Result<Take<File>> {
    let length = file.metadata()?.len();
    let mut first = Vec::new();
    file.by_ref().take(MAX_BEGIN).read_to_end(&mut first)?;
    let Some(rest) = first.strip_prefix(MAGIC) else {
        file.seek(SeekFrom::Start(0))?;
        return Ok(file.take(length));
    };
    let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
    // A stream without the marker of newer streams begins with a length, whose last bytes may be zeros only.
    let begin = (MAGIC.len() + zeros) as u64 / 8 * 8;
    let mut last = [0; 10];
    file.seek(SeekFrom::Start(length.saturating_sub(10)))?;
    let read = file.read_exact(&mut last);
    let footer = last
        .first_chunk()
        .map_or(0, |length| u32::from_le_bytes(*length));
    let content = length.checked_sub(begin + 10 + u64::from(footer));
    let content = content.filter(|_| read.is_ok() && last.ends_with(MAGIC));
    let content = content.context("the file is not complete: its footer is missing")?;
    file.seek(SeekFrom::Start(begin))?;
    Ok(file.take(content))
}

fn batch_rows(columns: usize) -> usize {
    (BATCH_CELLS / columns.max(1)).clamp(1, BATCH_ROWS)
}
