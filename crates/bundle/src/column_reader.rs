//! Decoding of one column of a chunk.

use std::ops::Range;

use seiner_codec::reader::Reader;
use seiner_codec::varint::unzigzag;
use seiner_codec::{DecodeError, decimals, decode_column, decode_texts};
use seiner_model::{Bitmap, Column, FieldType, Strings};

use crate::ans::{DecodeTable, NumberReader};
use crate::kinds::{bits_32, bits_64};
use crate::lists::at;
use crate::model::{ColumnTables, Kind, KindModel, row_state, shared, source_state};
use crate::parsed_group::Group;

/// Values of one field of all sources of a chunk.
#[derive(Debug)]
pub(crate) struct ChunkField {
    pub(crate) values: Column,
    /// End of the values of each source.
    ends: Vec<usize>,
    /// Rows that have a value; `None` if all have one.
    pub(crate) present: Option<Bitmap>,
}

impl ChunkField {
    fn new(field_type: FieldType, sources: usize) -> ChunkField {
        ChunkField {
            values: Column::new(field_type),
            ends: Vec::with_capacity(sources),
            present: None,
        }
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let present = self.present.as_ref().map_or(0, |bits| bits.len() / 8);
        self.values.bytes() + 8 * self.ends.len() + present
    }

    /// Returns the range of values of a source.
    pub(crate) fn range(&self, source: usize) -> Range<usize> {
        let start = source.checked_sub(1).map_or(0, |last| self.ends[last]);
        start..self.ends[source]
    }

    /// Appends the presence of the rows of a source. `passed` is the number of rows before.
    fn push_present(&mut self, passed: usize, rows: usize, states: Option<&[u8]>) {
        if self.present.is_none() {
            match states {
                None => return,
                Some(_) => self.present = Some((0..passed).map(|_| true).collect()),
            }
        }
        if let Some(present) = &mut self.present {
            for row in 0..rows {
                let state = states.map(|states| states.get(row).copied().unwrap_or(MISSING));
                present.push(state.unwrap_or(PRESENT) != MISSING);
            }
        }
    }
}

const PRESENT: u8 = row_state::PRESENT as u8;
const MISSING: u8 = row_state::MISSING as u8;
const STRAY: u8 = row_state::STRAY as u8;

/// Reads the states of the rows of a source in a mixed state.
fn read_row_states(
    group: &Group,
    rows: usize,
    numbers: &mut NumberReader<'_>,
    states: &mut Vec<u8>,
) {
    states.clear();
    let mut before = 0;
    for _ in 0..rows {
        let state = numbers.number(group.table(shared::ROW_STATE + before));
        if state > row_state::STRAY {
            numbers.fail();
        }
        let state = state.min(row_state::STRAY);
        before = state as usize;
        states.push(state as u8);
    }
}

/// Iterates over the number of rows of each source, with the rows before.
fn row_counts(row_ends: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let starts = std::iter::once(&0).chain(row_ends);
    starts
        .zip(row_ends)
        .map(|(&start, &end)| (start, end - start))
}

/// Reads the states of a column whose values are in the codec's form.
pub(crate) fn read_states(
    group: &Group,
    tables: &ColumnTables,
    row_ends: &[usize],
    numbers: &mut NumberReader<'_>,
) -> ChunkField {
    let mut field = ChunkField::new(FieldType::Bool, row_ends.len());
    let (mut states, mut end) = (Vec::new(), 0);
    for (passed, rows) in row_counts(row_ends) {
        match numbers.number(group.table(tables.state)) {
            source_state::FULL => {
                field.push_present(passed, rows, None);
                end += rows;
            }
            source_state::ABSENT => field.push_present(passed, rows, Some(&[])),
            _ => {
                read_row_states(group, rows, numbers, &mut states);
                if states.contains(&STRAY) {
                    numbers.fail();
                }
                end += states.iter().filter(|state| **state == PRESENT).count();
                field.push_present(passed, rows, Some(&states));
            }
        }
        field.ends.push(end);
    }
    field
}

/// Reads the values of a column in the codec's form.
pub(crate) fn read_codec(
    reader: &mut Reader<'_>,
    field_type: FieldType,
    field: &mut ChunkField,
    text_left: &mut usize,
) -> Result<(), DecodeError> {
    let count = field.ends.last().copied().unwrap_or(0);
    let mut rest = reader.rest();
    let decoded = if field_type == FieldType::Str {
        decode_texts(&mut rest, count, *text_left as u32).map(Column::Str)
    } else {
        decode_column(&mut rest, field_type, count)
    };
    field.values = decoded.map_err(|error| at(error, reader.offset()))?;
    if let Column::Str(texts) = &field.values {
        *text_left -= texts.bytes.len().min(*text_left);
    }
    reader.take(reader.rest().len() - rest.len(), "a column")?;
    Ok(())
}

/// Tables of the values of one class.
#[derive(Clone, Copy)]
struct ClassTables<'a> {
    kind: usize,
    first: &'a DecodeTable,
    second: &'a DecodeTable,
    rest: &'a DecodeTable,
}

/// Reader of a column of numbers.
struct ColumnReader<'a, 'b> {
    group: &'a Group,
    kinds: &'a [KindModel],
    texts: &'a Strings,
    tables: &'a ColumnTables,
    numbers: &'a mut NumberReader<'b>,
    /// Tables of the classes that occurred.
    classes: Vec<Option<ClassTables<'a>>>,
    /// Last first value of each kind.
    firsts: Vec<i64>,
    class_before: usize,
    last_stray: u64,
    /// Values of one source as integers, and its strays.
    integers: Vec<i64>,
    strays: Vec<u64>,
    text_left: &'a mut usize,
}

/// Reads a column of numbers.
pub(crate) fn read_numbers(
    (group, kinds, texts, tables): (&Group, &[KindModel], &Strings, &ColumnTables),
    field_type: FieldType,
    row_ends: &[usize],
    numbers: &mut NumberReader<'_>,
    text_left: &mut usize,
) -> ChunkField {
    let mut field = ChunkField::new(field_type, row_ends.len());
    reserve(&mut field.values, row_ends.last().copied().unwrap_or(0));
    let mut reader = ColumnReader {
        group,
        kinds,
        texts,
        tables,
        numbers,
        classes: vec![None; tables.kind_of.len()],
        firsts: kinds.iter().map(|kind| kind.base).collect(),
        class_before: 0,
        last_stray: 0,
        integers: Vec::new(),
        strays: Vec::new(),
        text_left,
    };
    let mut states = Vec::new();
    let state = group.table(tables.state);
    for (passed, rows) in row_counts(row_ends) {
        match reader.numbers.number(state) {
            source_state::FULL => {
                field.push_present(passed, rows, None);
                let class = reader.class();
                let kind = reader.values(class, rows);
                reader.append(kind, &mut field.values);
            }
            source_state::ABSENT => field.push_present(passed, rows, Some(&[])),
            _ => {
                let class = reader.class();
                read_row_states(group, rows, reader.numbers, &mut states);
                field.push_present(passed, rows, Some(&states));
                reader.mixed(class, &states, &mut field.values);
            }
        }
        field.ends.push(field.values.len());
    }
    field
}

fn reserve(values: &mut Column, count: usize) {
    match values {
        Column::F64(values) => values.reserve(count),
        Column::F32(values) => values.reserve(count),
        Column::I64(values) => values.reserve(count),
        Column::U64(values) => values.reserve(count),
        Column::Bool(values) => values.reserve(count),
        Column::Str(texts) => texts.ends.reserve(count),
    }
}

impl<'a> ColumnReader<'a, '_> {
    /// Reads the class of a source.
    fn class(&mut self) -> usize {
        let table = self.tables.class_after(self.class_before);
        let class = self.numbers.number(self.group.table(table));
        if class >= self.tables.kind_of.len() as u64 {
            self.numbers.fail();
            return 0;
        }
        self.class_before = class as usize;
        class as usize
    }

    #[inline]
    fn class_tables(&mut self, class: usize) -> Option<ClassTables<'a>> {
        let (group, tables) = (self.group, self.tables);
        let found = self.classes.get_mut(class)?;
        if found.is_none() {
            let kind = tables.kind_of[class];
            *found = Some(ClassTables {
                kind,
                first: group.table(tables.kinds + 2 * kind),
                second: group.table(tables.kinds + 2 * kind + 1),
                rest: group.table(tables.rest + class),
            });
        }
        *found
    }

    /// Reads `count` values of a source into `integers`. Returns their kind.
    fn values(&mut self, class: usize, count: usize) -> Kind {
        // All of them are overwritten, or the numbers are marked as damaged.
        self.integers.resize(count, 0);
        let Some(class) = self.class_tables(class) else {
            self.numbers.fail();
            return Kind::Integer;
        };
        let &KindModel {
            kind,
            order,
            is_relative,
            base,
            ..
        } = &self.kinds[class.kind];
        let Some((first, rest)) = self.integers.split_first_mut() else {
            return kind;
        };
        let number = self.numbers.number(class.first);
        *first = if is_relative {
            self.firsts[class.kind].wrapping_add(unzigzag(number))
        } else {
            base.wrapping_add(number as i64)
        };
        self.firsts[class.kind] = *first;
        let lead = (order.lead() - 1).min(rest.len());
        let (lead, rest) = rest.split_at_mut(lead);
        self.numbers.fill(class.second, lead);
        self.numbers.fill(class.rest, rest);
        order.restore(&mut self.integers, base);
        kind
    }

    /// Reads the values of a source in which some rows have no value or a stray.
    fn mixed(&mut self, class: usize, states: &[u8], values: &mut Column) {
        let count = states.iter().filter(|state| **state == PRESENT).count();
        let strays = states.iter().filter(|state| **state == STRAY).count();
        self.read_strays(strays, values);
        let kind = self.values(class, count);
        if strays == 0 {
            return self.append(kind, values);
        }
        let integers = std::mem::take(&mut self.integers);
        let (mut integers, mut strays) = (integers.iter(), self.strays.iter());
        for &state in states {
            match state {
                PRESENT => push(kind, integers.next().copied().unwrap_or(0), values),
                STRAY => push_bits(strays.next().copied().unwrap_or(0), values),
                _ => {}
            }
        }
    }

    /// Reads the bits of strays. Columns without floats have none.
    fn read_strays(&mut self, count: usize, values: &Column) {
        let width = match values {
            Column::F64(_) => 8,
            Column::F32(_) => 4,
            _ if count > 0 => return self.numbers.fail(),
            _ => return,
        };
        self.strays.clear();
        for _ in 0..count {
            let repeats = self.numbers.number(self.group.table(shared::STRAY_REPEATS));
            if repeats == 0 {
                let mut bytes = [0; 8];
                for byte in &mut bytes[..width] {
                    let number = self.numbers.number(self.group.table(shared::STRAY_BYTE));
                    *byte = number as u8;
                }
                self.last_stray = u64::from_le_bytes(bytes);
            }
            self.strays.push(self.last_stray);
        }
    }

    /// Appends the integers of a source as values of their kind.
    fn append(&mut self, kind: Kind, values: &mut Column) {
        let integers = self.integers.iter();
        match (values, kind) {
            (Column::F64(values), Kind::Decimal(scale)) => {
                values.extend(integers.map(|&mantissa| decimals::value(mantissa, scale)));
            }
            (Column::I64(values), _) => values.extend(integers),
            (Column::U64(values), _) => values.extend(integers.map(|&value| value as u64)),
            (Column::Bool(values), _) => {
                if self.integers.iter().any(|&value| !(0..=1).contains(&value)) {
                    self.numbers.fail();
                }
                values.extend(self.integers.iter().map(|&value| value != 0));
            }
            (Column::Str(texts), _) => self.append_texts(texts),
            (values, kind) => integers.for_each(|&integer| push(kind, integer, values)),
        }
    }

    fn append_texts(&mut self, texts: &mut Strings) {
        for index in 0..self.integers.len() {
            let index = usize::try_from(self.integers[index]).ok();
            let text = index
                .filter(|&index| index < self.texts.len())
                .map(|index| self.texts.get(index))
                .filter(|text| text.len() <= *self.text_left);
            if text.is_none() {
                self.numbers.fail();
            }
            let text = text.unwrap_or_default();
            *self.text_left -= text.len();
            texts.push(text);
        }
    }
}

/// Appends a float of a kind.
fn push(kind: Kind, integer: i64, values: &mut Column) {
    match (values, kind) {
        (Column::F64(values), Kind::Decimal(scale)) => {
            values.push(decimals::value(integer, scale));
        }
        (Column::F64(values), Kind::Narrow) => {
            values.push(f64::from(f32::from_bits(bits_32(integer))));
        }
        (Column::F64(values), _) => values.push(f64::from_bits(bits_64(integer))),
        (Column::F32(values), Kind::Decimal(scale)) => {
            values.push(decimals::value(integer, scale) as f32);
        }
        (Column::F32(values), _) => values.push(f32::from_bits(bits_32(integer))),
        _ => {}
    }
}

/// Appends a float with these bits.
fn push_bits(bits: u64, values: &mut Column) {
    match values {
        Column::F64(values) => values.push(f64::from_bits(bits)),
        Column::F32(values) => values.push(f32::from_bits(bits as u32)),
        _ => {}
    }
}
