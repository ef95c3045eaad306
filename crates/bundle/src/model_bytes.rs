//! Bytes of a group's model in the directory.

use std::sync::Arc;

use seiner_codec::DecodeError;
use seiner_codec::reader::Reader;
use seiner_codec::varint::{put_i64, put_u64};
use seiner_model::{FieldType, Strings};

use crate::layout::Layout;
use crate::limits::MAX_ENTRIES;
use crate::lists::{put_list, take_list};
use crate::model::{ColumnModel, GroupModel, Kind, KindModel, Order, TimeForm, TimeModel, UNITS};

/// Flag of the form of times: the first tick is relative.
const RELATIVE_TICK: u8 = 4;
/// First byte of a column of numbers; plus 1 if classes have a context.
const NUMBERS: u8 = 0;
/// First byte of a column in the codec's form.
const CODEC: u8 = 2;
/// Flag of the order of a kind: the first value is relative.
const RELATIVE_FIRST: u8 = 16;
/// Largest number of classes of a column.
const MAX_CLASSES: usize = 1024;

impl GroupModel {
    /// Appends the model.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.times.put(out);
        for column in &self.columns {
            put_column(column, out);
        }
    }

    /// Reads the model of a group with that layout.
    pub(crate) fn take(
        reader: &mut Reader<'_>,
        layout: &Layout,
    ) -> Result<GroupModel, DecodeError> {
        let times = TimeModel::take(reader)?;
        let mut columns = Vec::with_capacity(layout.len());
        for (_, field_type) in layout.fields() {
            columns.push(take_column(reader, *field_type)?);
        }
        Ok(GroupModel { times, columns })
    }
}

impl TimeModel {
    fn put(&self, out: &mut Vec<u8>) {
        let flag = if self.is_relative { RELATIVE_TICK } else { 0 };
        out.push(self.form as u8 | flag);
        out.push(self.unit);
        out.extend_from_slice(&self.base.to_le_bytes());
        match self.form {
            TimeForm::List => put_list(&self.list, out),
            _ => {
                put_u64(self.period, out);
                put_u64(self.origin, out);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<TimeModel, DecodeError> {
        let form = reader.byte("the form of the times")?;
        let is_relative = form & RELATIVE_TICK != 0;
        let Some(&form) = TimeForm::ALL.get(usize::from(form & !RELATIVE_TICK)) else {
            return Err(reader.unknown("times", form));
        };
        let unit = reader.byte("the unit of the times")?;
        if usize::from(unit) >= UNITS.len() {
            return Err(reader.unknown("a unit of times", unit));
        }
        let base = reader.take(8, "the earliest time")?;
        let base = base.first_chunk().copied().unwrap_or_default();
        let (mut period, mut origin, mut list) = (0, 0, Vec::new());
        if form == TimeForm::List {
            list = take_list(reader)?;
        } else {
            period = reader.varint("the period of the times")?;
            origin = reader.varint("the first tick of the times")?;
        }
        Ok(TimeModel {
            form,
            is_relative,
            unit,
            base: i64::from_le_bytes(base),
            period,
            origin,
            list,
        })
    }
}

fn put_column(column: &ColumnModel, out: &mut Vec<u8>) {
    let ColumnModel::Numbers {
        kinds,
        has_context,
        texts,
    } = column
    else {
        return out.push(CODEC);
    };
    out.push(NUMBERS + u8::from(*has_context));
    put_u64(kinds.len() as u64, out);
    for kind in kinds {
        out.push(kind.kind.code());
        let flag = if kind.is_relative { RELATIVE_FIRST } else { 0 };
        out.push(kind.order as u8 | flag);
        put_i64(kind.base, out);
        put_u64(kind.classes as u64, out);
    }
    if kinds.iter().any(|kind| kind.kind == Kind::Text) {
        put_u64(texts.len() as u64, out);
        for index in 0..texts.len() {
            let text = texts.get(index);
            put_u64(text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn take_column(reader: &mut Reader<'_>, field_type: FieldType) -> Result<ColumnModel, DecodeError> {
    let form = reader.byte("the form of a column")?;
    if form == CODEC {
        return Ok(ColumnModel::Codec);
    }
    if form > CODEC {
        return Err(reader.unknown("a column", form));
    }
    let count = reader.length(usize::from(u8::MAX), "more kinds than a column can have")?;
    let mut kinds: Vec<KindModel> = Vec::new();
    let mut classes = 0;
    for _ in 0..count {
        let kind = take_kind(reader, field_type)?;
        classes += kind.classes;
        if classes > MAX_CLASSES {
            return Err(reader.invalid("more classes than a column can have"));
        }
        kinds.push(kind);
    }
    let mut texts = Strings::default();
    if kinds.iter().any(|kind| kind.kind == Kind::Text) {
        let count = reader.length(MAX_ENTRIES, "a dictionary has too many texts")?;
        for _ in 0..count {
            let length = reader.length(reader.rest().len(), "a text exceeds the directory")?;
            let text = reader.take(length, "a text")?;
            let text =
                std::str::from_utf8(text).map_err(|_| reader.invalid("a text is not UTF-8"))?;
            texts.push(text);
        }
    }
    Ok(ColumnModel::Numbers {
        kinds,
        has_context: form != NUMBERS,
        texts: Arc::new(texts),
    })
}

fn take_kind(reader: &mut Reader<'_>, field_type: FieldType) -> Result<KindModel, DecodeError> {
    let code = reader.byte("a kind of values")?;
    let kind = Kind::from_code(code, field_type)
        .ok_or_else(|| reader.unknown("a kind of values", code))?;
    let order = reader.byte("an order")?;
    let is_relative = order & RELATIVE_FIRST != 0;
    let Some(&order) = Order::ALL.get(usize::from(order & !RELATIVE_FIRST)) else {
        return Err(reader.unknown("an order", order));
    };
    let base = reader.signed("the smallest value of a kind")?;
    let classes = reader.length(MAX_CLASSES, "more classes than a column can have")?;
    if classes == 0 {
        return Err(reader.invalid("a kind has no class"));
    }
    Ok(KindModel {
        kind,
        order,
        is_relative,
        base,
        classes,
    })
}
