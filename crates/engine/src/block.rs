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
/// Flag of a column with aggregates in the short form.
const SHORT_SUMMARY: u8 = 4;
/// Bytes of aggregates that are not in the short form.
const SUMMARY_BYTES: usize = 5 * 8;

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
        let summary = may_have_summaries(rows).then(|| {
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
    let summary = may_have_summaries(column.values.len())
        .then(|| summary_of(times, column))
        .flatten();
    let summary = summary.map(|bucket| numbers_of(&bucket));
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
    let flags_at = out.len();
    out.push(if present.is_some() { GAPS } else { WHOLE });
    if let Some(present) = present {
        encode_bitmap(present, out);
    }
    if let Some(summary) = summary {
        out[flags_at] |= put_summary(summary, out);
    }
    // The length of the values lets a reader skip unwanted columns.
    let at = out.len();
    put(out);
    let len = out.len() - at;
    let mut prefix = Vec::with_capacity(4);
    varint::put_u64(len as u64, &mut prefix);
    out.splice(at..at, prefix);
}

/// Appends aggregates in the form that takes fewer bytes. Returns its flag.
fn put_summary(summary: [f64; 5], out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    let [sum, values @ ..] = summary;
    out.extend_from_slice(&sum.to_bits().to_le_bytes());
    // The others are values of the column, and most often as short as those.
    encode_column(&Column::F64(values.to_vec()), Effort::Fast, out);
    if out.len() - start < SUMMARY_BYTES {
        return SHORT_SUMMARY;
    }
    out.truncate(start);
    for number in summary {
        out.extend_from_slice(&number.to_bits().to_le_bytes());
    }
    SUMMARY
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

/// Returns whether columns of a block may have aggregates.
pub fn may_have_summaries(rows: usize) -> bool {
    rows >= SUMMARY_FROM
}

/// Returns the sum, minimum, maximum, first and last value of a bucket.
pub fn numbers_of(bucket: &Bucket) -> [f64; 5] {
    let ends = (bucket.first.1, bucket.last.1);
    [bucket.sum, bucket.min, bucket.max, ends.0, ends.1]
}

/// Returns the bucket of `count` values in a span, of which [`numbers_of`] are known.
pub fn bucket_of([sum, min, max, first, last]: [f64; 5], count: u64, span: Interval) -> Bucket {
    Bucket {
        start: span.start,
        count,
        sum,
        min,
        max,
        first: (span.start, first),
        last: (span.end, last),
        exact: None,
    }
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
                    .map(|numbers| bucket_of(numbers, count as u64, span)))
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
        let summary = get_summary(flags, &mut cursor)?;
        let values = cursor.bytes().map_err(short)?;
        *rest = cursor.0;
        Ok((present, count, summary, values))
    }
}

/// Reads the aggregates of a column with these flags, if it has any.
fn get_summary(flags: u8, cursor: &mut Cursor<'_>) -> Result<Option<[f64; 5]>, String> {
    let short = |Short| "the block ends too early".to_string();
    let mut numbers = [0.0; 5];
    let plain = match flags & (SUMMARY | SHORT_SUMMARY) {
        0 => return Ok(None),
        SHORT_SUMMARY => 1,
        SUMMARY => numbers.len(),
        _ => return Err("a column has aggregates in two forms".to_string()),
    };
    for number in &mut numbers[..plain] {
        *number = f64::from_bits(cursor.u64().map_err(short)?);
    }
    if flags & SHORT_SUMMARY != 0 {
        let values = decode_column(&mut cursor.0, FieldType::F64, numbers.len() - plain);
        match values.map_err(|error| error.to_string())? {
            Column::F64(values) => numbers[plain..].copy_from_slice(&values),
            _ => return Err("aggregates are not numbers".to_string()),
        }
    }
    Ok(Some(numbers))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes values at the times 0, 1, 2 … and returns the aggregates read back, with the bytes of the column that are
    /// not values.
    fn round_trip(values: Vec<f64>) -> (Bucket, usize) {
        let times: Vec<i64> = (0..values.len() as i64).collect();
        let field = FieldColumn {
            present: None,
            values: Column::F64(values.clone()),
        };
        let head = BlockHead {
            source: 1,
            number: 2,
            layout: 3,
        };
        let columns = Columns {
            times,
            fields: vec![field],
        };
        let (mut bytes, mut plain) = (Vec::new(), Vec::new());
        encode(head, &columns, Effort::Fast, &mut bytes);
        encode_column(&columns.fields[0].values, Effort::Fast, &mut plain);
        let block = Block::open(&bytes).unwrap();
        let span = Interval::new(0, values.len() as i64 - 1);
        let found = block.summaries(1, span).unwrap()[0].unwrap();
        let (_, fields) = block.columns(&[FieldType::F64], |_| true).unwrap();
        let Some(Column::F64(read)) = fields[0].as_ref().map(|field| &field.values) else {
            panic!("the column has another type");
        };
        assert!(
            read.iter()
                .zip(&values)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
        let column = block.shape(1).unwrap().columns[0].bytes;
        (found, column - plain.len())
    }

    #[test]
    fn aggregates_of_decimals_are_short() {
        let values: Vec<f64> = (0..1000)
            .map(|n| f64::from(n * 37 % 500 - 200) / 10.0)
            .collect();
        let (found, bytes) = round_trip(values.clone());
        assert_eq!(found.sum, values.iter().sum::<f64>());
        assert_eq!((found.min, found.max), (-20.0, 29.9));
        assert_eq!((found.first.1, found.last.1), (values[0], values[999]));
        assert!(bytes < 30, "{bytes} bytes");
    }

    #[test]
    fn aggregates_of_other_values_take_no_more_than_five_numbers() {
        let noise = |n: i32| f64::from(n).sin() * 1e-7;
        let odd = [f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE];
        for values in [
            (0..300).map(noise).collect(),
            (0..300).map(|n| odd[n % 4]).collect::<Vec<f64>>(),
            vec![f64::NAN; 256],
        ] {
            let (found, bytes) = round_trip(values.clone());
            let last = values[values.len() - 1];
            assert_eq!(found.first.1.to_bits(), values[0].to_bits());
            assert_eq!(found.last.1.to_bits(), last.to_bits());
            assert!(bytes <= 1 + SUMMARY_BYTES + 2, "{bytes} bytes");
        }
    }

    #[test]
    fn aggregates_in_two_forms_are_damage() {
        let bytes = [0_u8; 64];
        let flags = SUMMARY | SHORT_SUMMARY;
        assert!(get_summary(flags, &mut Cursor(&bytes)).is_err());
        assert!(get_summary(SUMMARY, &mut Cursor(&bytes[..39])).is_err());
        assert!(get_summary(SHORT_SUMMARY, &mut Cursor(&bytes[..8])).is_err());
    }
}
