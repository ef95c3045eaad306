//! Number columns through pco: bins fitted to the column, entropy-coded.
//!
//! The form is the smallest for floats with full mantissas and the slowest to write, so the write path
//! tries it last.

use pco::data_types::Number;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, PagingSpec};

use crate::reader::Reader;
use crate::{DecodeError, Effort};

/// Appends the numbers. Returns false and appends nothing if pco rejects them.
pub(crate) fn encode<T: Number>(numbers: &[T], effort: Effort, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let done = write(numbers, effort, out).is_ok();
    if !done {
        out.truncate(start);
    }
    done
}

fn write<T: Number>(
    numbers: &[T],
    effort: Effort,
    out: &mut Vec<u8>,
) -> pco::errors::PcoResult<()> {
    let level = match effort {
        Effort::Fast => 4,
        Effort::Best => 8,
    };
    let config = ChunkConfig::default()
        .with_compression_level(level)
        .with_paging_spec(PagingSpec::Exact(vec![numbers.len()]));
    let file = FileCompressor::default();
    file.write_header(&mut *out)?;
    let mut column = file.chunk_compressor(numbers, &config)?;
    column.write_meta(&mut *out)?;
    column.write_page(0, &mut *out)?;
    Ok(())
}

/// Reads `count` numbers.
pub(crate) fn decode<T: Number + Default>(
    reader: &mut Reader<'_>,
    count: usize,
) -> Result<Vec<T>, DecodeError> {
    let mut numbers = vec![T::default(); count];
    let rest = read(reader.rest(), &mut numbers)
        .map_err(|_| reader.invalid("a pco section is damaged"))?;
    let read = reader.rest().len() - rest;
    reader.take(read, "a pco section")?;
    Ok(numbers)
}

/// Decodes into `numbers` and returns the number of bytes left over.
fn read<T: Number>(bytes: &[u8], numbers: &mut [T]) -> pco::errors::PcoResult<usize> {
    let (file, rest) = FileDecompressor::new(bytes)?;
    let (mut column, rest) = file.chunk_decompressor::<T, _>(rest)?;
    let mut page = column.page_decompressor(rest, numbers.len())?;
    page.read(numbers)?;
    Ok(page.into_src().len())
}
