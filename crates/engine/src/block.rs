//! Blocks: encoded rows of one source over some time, with all that is needed to read them.
//!
//! A block contains its source, the number of its rows, their times, and its columns with their
//! aggregates. A log can be rebuilt by reading its blocks, and aggregates need not decode the
//! values. `docs/format/block.md` specifies the bytes.

use crate::answer::{Bucket, number};
use crate::buffer::decimals::Decimals;
use crate::bytes::{Cursor, Short};
use seiner_codec::{
    Effort, checksum, decode_bitmap, decode_column, decode_times, encode_bitmap, encode_column,
    encode_times, varint,
};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType, Interval};
use seiner_platform::critical::assert_outside;

/// Minimum values of a column with stored aggregates. Decoding a shorter column costs no more than
/// reading aggregates.
const SUMMARY_FROM: usize = 256;
/// Limit of the rows of a block. A larger count is damage.
pub const ROWS_LIMIT: usize = 1 << 20;
/// Flag of a column without gaps.
const WHOLE: u8 = 0;
/// Flag of a column with gaps: a bitmap precedes the values.
const GAPS: u8 = 1;
/// Flag of a column with aggregates, which precede the values.
const SUMMARY: u8 = 2;

/// Identity of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// Number of the source.
    pub source: u32,
    /// Number of the block. Blocks of a store are numbered in the order in which they are begun. Of
    /// two samples at the same time, the sample in the block with the higher number counts.
    pub number: u64,
    /// Number of the layout of the columns.
    pub layout: u32,
}

/// Appends a block of at least one row, with rows in strictly ascending time.
pub fn encode(head: BlockHead, columns: &Columns, effort: Effort, out: &mut Vec<u8>) {
    encode_with(head, &columns.times, out, |out| {
        for column in &columns.fields {
            encode_field(&columns.times, column, effort, out);
        }
    });
}

/// Appends a block of one column of decimal doubles, at the effort of the write path. Writes the
/// same bytes as [`encode`], but faster.
pub fn encode_decimals(head: BlockHead, decimals: &Decimals, out: &mut Vec<u8>) {
    let rows = decimals.times.len();
    encode_with(head, &decimals.times, out, |out| {
        let summary = (rows >= SUMMARY_FROM).then(|| {
            let (first, last) = (decimals.value(0), decimals.value(rows - 1));
            [decimals.sum, decimals.min, decimals.max, first, last]
        });
        put_values(None, summary, out, |out| {
            seiner_codec::encode_decimals(&decimals.mantissas, decimals.scale, out);
        });
    });
}

/// Appends a block whose columns `put_columns` appends.
fn encode_with(
    head: BlockHead,
    times: &[i64],
    out: &mut Vec<u8>,
    put_columns: impl FnOnce(&mut Vec<u8>),
) {
    assert_outside("encoding a block");
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    varint::put_u64(u64::from(head.source), out);
    varint::put_u64(head.number, out);
    varint::put_u64(u64::from(head.layout), out);
    varint::put_u64(times.len() as u64, out);
    encode_times(times, out);
    put_columns(out);
    let sum = checksum(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

fn encode_field(times: &[i64], column: &FieldColumn, effort: Effort, out: &mut Vec<u8>) {
    let summary = (column.values.len() >= SUMMARY_FROM)
        .then(|| summary_of(times, column))
        .flatten();
    let summary = summary.map(|bucket| {
        [
            bucket.sum,
            bucket.min,
            bucket.max,
            bucket.first.1,
            bucket.last.1,
        ]
    });
    put_values(column.present.as_ref(), summary, out, |out| {
        encode_column(&column.values, effort, out)
    });
}

/// Appends a column whose values `put` appends.
fn put_values(
    present: Option<&Bitmap>,
    summary: Option<[f64; 5]>,
    out: &mut Vec<u8>,
    put: impl FnOnce(&mut Vec<u8>),
) {
    let gaps = if present.is_some() { GAPS } else { WHOLE };
    out.push(gaps | if summary.is_some() { SUMMARY } else { 0 });
    if let Some(present) = present {
        encode_bitmap(present, out);
    }
    for number in summary.iter().flatten() {
        out.extend_from_slice(&number.to_bits().to_le_bytes());
    }
    // The length of the values lets a reader skip unwanted columns.
    let at = out.len();
    put(out);
    let len = out.len() - at;
    let mut prefix = Vec::with_capacity(4);
    varint::put_u64(len as u64, &mut prefix);
    out.splice(at..at, prefix);
}

/// Returns the aggregates of a column, with the values in the order of rows. Returns `None` for
/// texts.
pub fn summary_of(times: &[i64], column: &FieldColumn) -> Option<Bucket> {
    if column.values.field_type() == FieldType::Str {
        return None;
    }
    let mut bucket: Option<Bucket> = None;
    let mut add = |time: i64, value: f64| match &mut bucket {
        Some(bucket) => bucket.absorb(&Bucket::of(bucket.start, time, value)),
        None => bucket = Some(Bucket::of(times[0], time, value)),
    };
    match (&column.values, &column.present) {
        (Column::F64(values), None) => times
            .iter()
            .zip(values)
            .for_each(|(&time, &value)| add(time, value)),
        (values, present) => present_rows(times, present)
            .enumerate()
            .for_each(|(index, time)| add(time, number(values.get(index)))),
    }
    bucket
}

/// Returns the times of the rows that have a value.
pub fn present_rows<'a>(
    times: &'a [i64],
    present: &'a Option<Bitmap>,
) -> impl Iterator<Item = i64> + 'a {
    times
        .iter()
        .enumerate()
        .filter(|(row, _)| present.as_ref().is_none_or(|bits| bits.get(*row)))
        .map(|(_, &time)| time)
}

/// Sizes of the parts of a block.
pub struct BlockShape {
    /// Bytes of the times.
    pub time_bytes: usize,
    /// Sizes of the columns.
    pub columns: Vec<ColumnShape>,
}

/// Sizes of the parts of a column.
pub struct ColumnShape {
    /// True if a bitmap marks the rows with a value.
    pub gaps: bool,
    /// Number of values.
    pub values: usize,
    /// True if aggregates precede the values.
    pub summary: bool,
    /// Bytes of the column, including everything before the values.
    pub bytes: usize,
    /// First byte of the values, which identifies the codec. `None` if there are no values.
    pub codec: Option<u8>,
}

/// Block that was read, with a valid checksum.
pub struct Block<'a> {
    /// Identity of the block.
    pub head: BlockHead,
    /// Number of rows.
    pub rows: usize,
    body: &'a [u8],
}

impl<'a> Block<'a> {
    /// Checks the bytes of a block and opens it.
    pub fn open(bytes: &'a [u8]) -> Result<Block<'a>, String> {
        let (sum, rest) = bytes
            .split_at_checked(4)
            .ok_or("too short for a checksum")?;
        let stored = u32::from_le_bytes(sum.try_into().expect("four bytes"));
        let found = checksum(rest);
        if stored != found {
            return Err(format!(
                "the block's checksum is {found:08x}, {stored:08x} was written"
            ));
        }
        Block::parse(rest).map_err(|Short| "the block ends too early".to_string())
    }

    /// Decodes a block after its checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Block<'a>, Short> {
        let mut cursor = Cursor(bytes);
        let source = cursor.count(u32::MAX as usize)? as u32;
        let number = cursor.varint()?;
        let layout = cursor.count(u32::MAX as usize)? as u32;
        let rows = cursor.count(ROWS_LIMIT)?;
        Ok(Block {
            head: BlockHead {
                source,
                number,
                layout,
            },
            rows,
            body: cursor.0,
        })
    }

    /// Decodes the times and the wanted columns. Each row has a value or a gap for every column of
    /// the layout.
    pub fn columns(
        &self,
        types: &[FieldType],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(Vec<i64>, Vec<Option<FieldColumn>>), String> {
        let mut rest = self.body;
        let mut times = Vec::with_capacity(self.rows);
        decode_times(&mut rest, self.rows, &mut times).map_err(|error| error.to_string())?;
        let mut fields = Vec::with_capacity(types.len());
        for (index, &field_type) in types.iter().enumerate() {
            let (present, count, _, mut values) = self.field(&mut rest)?;
            fields.push(if wanted(index) {
                let values = decode_column(&mut values, field_type, count)
                    .map_err(|error| error.to_string())?;
                Some(FieldColumn { present, values })
            } else {
                None
            });
        }
        Ok((times, fields))
    }

    /// Returns the aggregates of the wanted columns over the whole block, without decoding values.
    /// `None` stands for a column without aggregates.
    pub fn summaries(&self, columns: usize, span: Interval) -> Result<Vec<Option<Bucket>>, String> {
        let mut rest = self.body;
        decode_times(&mut rest, self.rows, &mut Vec::with_capacity(self.rows))
            .map_err(|error| error.to_string())?;
        (0..columns)
            .map(|_| {
                let (present, count, summary, _) = self.field(&mut rest)?;
                // With gaps, the first and last value may belong to other rows than the first and
                // last row.
                Ok(summary
                    .filter(|_| present.is_none())
                    .map(|[sum, min, max, first, last]| Bucket {
                        start: span.start,
                        count: count as u64,
                        sum,
                        min,
                        max,
                        first: (span.start, first),
                        last: (span.end, last),
                        exact: None,
                    }))
            })
            .collect()
    }

    /// Returns the sizes of the block's parts, without decoding values.
    ///
    /// # Errors
    /// If the block ends too early or too late.
    pub fn shape(&self, columns: usize) -> Result<BlockShape, String> {
        let mut rest = self.body;
        decode_times(&mut rest, self.rows, &mut Vec::with_capacity(self.rows))
            .map_err(|error| error.to_string())?;
        let time_bytes = self.body.len() - rest.len();
        let columns = (0..columns)
            .map(|_| {
                let before = rest.len();
                let (present, count, summary, values) = self.field(&mut rest)?;
                let codec = values.first().copied();
                Ok(ColumnShape {
                    gaps: present.is_some(),
                    values: count,
                    summary: summary.is_some(),
                    bytes: before - rest.len(),
                    codec,
                })
            })
            .collect::<Result<_, String>>()?;
        if !rest.is_empty() {
            return Err(format!("{} bytes follow the last column", rest.len()));
        }
        Ok(BlockShape {
            time_bytes,
            columns,
        })
    }

    #[allow(clippy::type_complexity)]
    fn field(
        &self,
        rest: &mut &'a [u8],
    ) -> Result<(Option<Bitmap>, usize, Option<[f64; 5]>, &'a [u8]), String> {
        let short = |Short| "the block ends too early".to_string();
        let mut cursor = Cursor(rest);
        let flags = cursor.u8().map_err(short)?;
        let mut present = None;
        if flags & GAPS != 0 {
            let bits =
                decode_bitmap(&mut cursor.0, self.rows).map_err(|error| error.to_string())?;
            present = Some(bits);
        }
        let count = present.as_ref().map_or(self.rows, Bitmap::count_ones);
        let mut summary = None;
        if flags & SUMMARY != 0 {
            let mut words = [0.0; 5];
            for word in &mut words {
                *word = f64::from_bits(cursor.u64().map_err(short)?);
            }
            summary = Some(words);
        }
        let values = cursor.bytes().map_err(short)?;
        *rest = cursor.0;
        Ok((present, count, summary, values))
    }
}

/// Sorts rows from order of arrival into strictly ascending time. Of rows at the same time, each
/// column keeps the last value.
pub fn sorted(columns: Columns) -> Columns {
    if columns.times.windows(2).all(|pair| pair[0] < pair[1]) {
        return columns;
    }
    let mut order: Vec<u32> = (0..columns.times.len() as u32).collect();
    order.sort_by_key(|&row| columns.times[row as usize]);
    let mut times: Vec<i64> = order
        .iter()
        .map(|&row| columns.times[row as usize])
        .collect();
    times.dedup();
    let fields = columns
        .fields
        .iter()
        .map(|field| sort_field(&columns.times, field, &order, times.len()))
        .collect();
    Columns { times, fields }
}

fn sort_field(times: &[i64], field: &FieldColumn, order: &[u32], distinct: usize) -> FieldColumn {
    // Position of each row's value among the values.
    let places: Option<Vec<u32>> = field.present.as_ref().map(|present| {
        let mut next = 0;
        present
            .iter()
            .map(|bit| {
                next += u32::from(bit);
                if bit { next - 1 } else { u32::MAX }
            })
            .collect()
    });
    let mut values = Column::new(field.values.field_type());
    let mut present = Bitmap::new();
    let mut at = 0;
    while at < order.len() {
        let time = times[order[at] as usize];
        let mut latest = u32::MAX;
        while at < order.len() && times[order[at] as usize] == time {
            let place = places
                .as_ref()
                .map_or(order[at], |places| places[order[at] as usize]);
            latest = if place == u32::MAX { latest } else { place };
            at += 1;
        }
        present.push(latest != u32::MAX);
        if latest != u32::MAX {
            values.push(field.values.get(latest as usize));
        }
    }
    debug_assert_eq!(present.len(), distinct);
    let whole = present.count_ones() == present.len();
    FieldColumn {
        present: (!whole).then_some(present),
        values,
    }
}
