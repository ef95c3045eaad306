//! Aggregates of the blocks of a chunk, kept after its rows are forgotten: they take a fraction of the memory.

use super::Header;
use super::chunks::{Chunk, Kept};
use crate::answer::Bucket;
use crate::block::{bucket_of, numbers_of, summary_of};
use crate::segment::Entry;
use seiner_bundle::Layout;
use seiner_model::Interval;
use std::sync::Arc;

/// Aggregates of the blocks of a chunk.
pub struct ChunkSummaries {
    /// Fields of the rows.
    pub layout: Arc<Layout>,
    header: Header,
    ids: Vec<u64>,
    /// Rows of each source, with the first and the last time.
    shapes: Vec<(u32, i64, i64)>,
    /// Sum, minimum, maximum, first and last value of each field of each source. `None` for texts and for fields with
    /// gaps.
    numbers: Vec<Option<[f64; 5]>>,
}

impl Kept for ChunkSummaries {
    fn ids(&self) -> &[u64] {
        &self.ids
    }

    fn memory(&self) -> usize {
        size_of::<ChunkSummaries>()
            + size_of_val(&self.ids[..])
            + size_of_val(&self.shapes[..])
            + size_of_val(&self.numbers[..])
    }
}

impl ChunkSummaries {
    /// Computes the aggregates of a chunk.
    pub fn of(chunk: &Chunk) -> ChunkSummaries {
        let rows = &chunk.rows;
        let mut found = ChunkSummaries {
            layout: rows.layout().clone(),
            header: chunk.header,
            ids: rows.ids().to_vec(),
            shapes: Vec::with_capacity(rows.len()),
            numbers: Vec::with_capacity(rows.len() * rows.layout().len()),
        };
        for source in rows.sources() {
            let times = &source.rows.times;
            let span = times.first().copied().zip(times.last().copied());
            let (first, last) = span.unwrap_or_default();
            found.shapes.push((times.len() as u32, first, last));
            let numbers = source.rows.fields.iter().map(|field| {
                let whole = field.present.is_none() && field.values.len() == times.len();
                let bucket = whole.then(|| summary_of(times, field)).flatten()?;
                Some(numbers_of(&bucket))
            });
            found.numbers.extend(numbers);
        }
        found
    }

    /// Returns the aggregates of a block by field.
    ///
    /// # Errors
    /// A description of the damage, if the chunk does not contain the block.
    pub fn of_block(
        &self,
        entry: &Entry,
    ) -> Result<impl Iterator<Item = Option<Bucket>> + '_, String> {
        let source = self.ids.binary_search(&u64::from(entry.source));
        let source =
            source.map_err(|_| format!("the bundle has no rows of source {}", entry.source))?;
        let (rows, first, last) = self.shapes[source];
        self.header.check(entry, rows as usize, (first, last))?;
        let fields = self.layout.len();
        let numbers = &self.numbers[source * fields..][..fields];
        let span = Interval::new(first, last);
        let bucket = move |numbers| bucket_of(numbers, u64::from(rows), span);
        Ok(numbers.iter().map(move |numbers| numbers.map(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_bundle::{BundleWriter, Directory, Options};
    use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType, Value};

    const SOURCES: u64 = 20;

    /// Returns the rows of a source: whole numbers, texts, and numbers with gaps.
    fn rows(source: u64) -> Columns {
        let count = 3 + source as usize % 5;
        let present: Bitmap = (0..count).map(|row| row > 0).collect();
        let value = |row: usize| (source as f64 - 7.5) * row as f64;
        let mut texts = Column::new(FieldType::Str);
        (0..count).for_each(|row| texts.push(Value::Str(["a", "b"][row % 2])));
        let field = |present, values| FieldColumn { present, values };
        Columns {
            times: (0..count as i64).map(|row| 10 * row).collect(),
            fields: vec![
                field(None, Column::F64((0..count).map(value).collect())),
                field(None, texts),
                field(Some(present), Column::I64((1..count as i64).collect())),
            ],
        }
    }

    fn chunk() -> Chunk {
        let fields = [
            ("v", FieldType::F64),
            ("t", FieldType::Str),
            ("g", FieldType::I64),
        ];
        let layout = Arc::new(Layout::new(fields));
        let mut writer = BundleWriter::new(Options::default());
        for source in 0..SOURCES {
            writer.push(source, &layout, &rows(source)).unwrap();
        }
        let bundle = writer.finish();
        let directory = Directory::parse(&bundle.directory).unwrap();
        Chunk {
            header: Header {
                first_block: 100,
                last_block: 100 + SOURCES,
                directory: 0,
                data: 0,
            },
            rows: directory.decode_chunk(0, &bundle.data).unwrap(),
        }
    }

    fn entry(source: u64) -> Entry {
        let rows = rows(source).times;
        Entry {
            source: source as u32,
            number: 101 + source,
            first: 0,
            last: rows[rows.len() - 1],
            offset: 0,
            len: 1,
            bundle: 1,
            rows: rows.len() as u32,
            ordinal: 0,
            since: 101 + source,
            before: 0,
            late: false,
        }
    }

    #[test]
    fn each_block_has_the_aggregates_of_its_whole_numbers() {
        let summaries = ChunkSummaries::of(&chunk());
        for source in 0..SOURCES {
            let rows = rows(source);
            let found = summaries.of_block(&entry(source)).unwrap();
            let found: Vec<Option<Bucket>> = found.collect();
            let expected = summary_of(&rows.times, &rows.fields[0]).unwrap();
            let bucket = found[0].unwrap();
            assert_eq!(bucket.count, rows.times.len() as u64);
            assert_eq!(
                (bucket.sum, bucket.min, bucket.max),
                (expected.sum, expected.min, expected.max)
            );
            assert_eq!((bucket.first, bucket.last), (expected.first, expected.last));
            assert!(found[1].is_none(), "texts have no aggregates");
            assert!(found[2].is_none(), "gaps hide which rows have values");
        }
    }

    #[test]
    fn aggregates_of_another_block_are_damage() {
        let summaries = ChunkSummaries::of(&chunk());
        let wrong = [
            Entry {
                rows: 2,
                ..entry(0)
            },
            Entry {
                last: 5,
                ..entry(0)
            },
            Entry {
                number: 99,
                ..entry(0)
            },
            Entry {
                source: SOURCES as u32,
                ..entry(0)
            },
        ];
        for entry in wrong {
            assert!(summaries.of_block(&entry).is_err(), "{entry:?}");
        }
        assert!(summaries.of_block(&entry(0)).is_ok());
    }
}
