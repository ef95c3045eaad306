//! Model of a group: how its times and values become numbers, and which table is the context of each.
//!
//! The writer chooses a model from the rows and stores it in the directory. Writer and reader number the
//! tables of a model in the same order.

use std::sync::Arc;

use seiner_model::{FieldType, Strings};

/// Tables that a group has once.
pub(crate) mod shared {
    /// Distance of a source's number from the one before, minus 1.
    pub(crate) const GAP: usize = 0;
    /// Flag: rows and times equal those of the source before.
    pub(crate) const OWN_TIMES: usize = 1;
    /// Number of rows, minus 1.
    pub(crate) const ROWS: usize = 2;
    /// Tick of the first row.
    pub(crate) const FIRST_TICK: usize = 3;
    /// Ticks from the first row to the second.
    pub(crate) const FIRST_STEP: usize = 4;
    /// Ticks from a later row to the next.
    pub(crate) const STEP: usize = 5;
    /// Distance of the first time from its tick.
    pub(crate) const FIRST_RESIDUAL: usize = 6;
    /// Distance of a later time from its tick.
    pub(crate) const RESIDUAL: usize = 7;
    /// Flag: a stray has the bits of the stray before.
    pub(crate) const STRAY_REPEATS: usize = 8;
    /// Byte of a stray.
    pub(crate) const STRAY_BYTE: usize = 9;
    /// State of a row, by the state of the row before; three tables.
    pub(crate) const ROW_STATE: usize = 10;
    /// Number of these tables.
    pub(crate) const COUNT: usize = 13;
}

/// States of a row in one column.
pub(crate) mod row_state {
    /// The row has a value.
    pub(crate) const PRESENT: u64 = 0;
    /// The row has no value.
    pub(crate) const MISSING: u64 = 1;
    /// The row has a value that the kind of the source cannot express.
    pub(crate) const STRAY: u64 = 2;
}

/// States of a source in one column.
pub(crate) mod source_state {
    /// Every row has a value.
    pub(crate) const FULL: u64 = 0;
    /// No row has a value.
    pub(crate) const ABSENT: u64 = 1;
    /// Rows have states.
    pub(crate) const MIXED: u64 = 2;
}

/// Form of the times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeForm {
    /// Index into the list of distinct times.
    List,
    /// Tick of a grid that all sources share, and the distance upwards from it.
    Grid,
    /// Like `Grid`, and each source has a phase: the mean distance of its rows so far.
    Phase,
    /// Difference from the source before at the same row.
    #[default]
    Before,
}

impl TimeForm {
    /// All forms, in the order of their codes.
    pub(crate) const ALL: [TimeForm; 4] = [
        TimeForm::List,
        TimeForm::Grid,
        TimeForm::Phase,
        TimeForm::Before,
    ];
}

/// Units of times in ns, by code.
pub(crate) const UNITS: [u64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

/// Model of the times of a group. A time is `base + unit × T`, with T as u64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeModel {
    pub(crate) form: TimeForm,
    /// True if the first tick of a source is a difference from that of the source before.
    pub(crate) is_relative: bool,
    /// Index into [`UNITS`].
    pub(crate) unit: u8,
    /// Earliest time of the group, ns.
    pub(crate) base: i64,
    /// Distance of the ticks; 0 if there is only one.
    pub(crate) period: u64,
    /// T of tick 0.
    pub(crate) origin: u64,
    /// Distinct T, ascending; empty in other forms.
    pub(crate) list: Vec<u64>,
}

/// Nature of the values of a source in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Floats that are a mantissa divided by this power of ten.
    Decimal(u8),
    /// 64-bit floats that are exact as 32-bit floats.
    Narrow,
    /// Floats as their bits, in numeric order.
    Float,
    /// Integers; booleans as 0 and 1.
    Integer,
    /// Texts as indices into the dictionary.
    Text,
}

impl Kind {
    /// Returns the code in the directory.
    pub(crate) fn code(self) -> u8 {
        match self {
            Kind::Decimal(scale) => scale,
            Kind::Narrow => 32,
            Kind::Float => 33,
            Kind::Integer => 34,
            Kind::Text => 35,
        }
    }

    /// Returns the kind with this code, if it is one of that type of fields.
    pub(crate) fn from_code(code: u8, field_type: FieldType) -> Option<Kind> {
        let is_float = matches!(field_type, FieldType::F64 | FieldType::F32);
        match code {
            scale if is_float && scale < seiner_codec::decimals::SCALES => {
                Some(Kind::Decimal(scale))
            }
            32 if field_type == FieldType::F64 => Some(Kind::Narrow),
            33 if is_float => Some(Kind::Float),
            34 if !is_float && field_type != FieldType::Str => Some(Kind::Integer),
            35 if field_type == FieldType::Str => Some(Kind::Text),
            _ => None,
        }
    }
}

/// Numbers that stand for the values behind the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Distance upwards from the base.
    Plain,
    /// Difference from the value before.
    First,
    /// Difference of the differences; the second value has a table of its own.
    Second,
    /// Zero if the value equals the one before, otherwise one more than its distance from the base.
    Repeat,
    /// Difference from the mean of about the last four values.
    Near,
    /// Difference from the mean of about the last 32 values.
    Mean,
}

impl Order {
    /// All orders, in the order of their codes.
    pub(crate) const ALL: [Order; 6] = [
        Order::Plain,
        Order::First,
        Order::Second,
        Order::Repeat,
        Order::Near,
        Order::Mean,
    ];
}

/// Model of the values of one kind in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindModel {
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    /// True if the first value of a source is a difference from the last first value of this kind.
    pub(crate) is_relative: bool,
    /// Smallest value of this kind.
    pub(crate) base: i64,
    /// Number of classes by movement, at least 1. Each has its table.
    pub(crate) classes: usize,
}

/// Model of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnModel {
    /// Values as numbers, by kinds and classes.
    Numbers {
        kinds: Vec<KindModel>,
        /// True if the context of a class is the class of the source before.
        has_context: bool,
        /// Distinct texts; empty in columns of other types.
        texts: Arc<Strings>,
    },
    /// Values of all sources of a chunk, encoded as a column of the codec.
    Codec,
}

/// Model of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupModel {
    pub(crate) times: TimeModel,
    pub(crate) columns: Vec<ColumnModel>,
}

/// Numbers of the tables of one column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnTables {
    /// Table of the sources' states.
    pub(crate) state: usize,
    /// First table of the classes: one, or one per class before.
    pub(crate) class: usize,
    /// First of two tables per kind: first values, then second values.
    pub(crate) kinds: usize,
    /// First of one table per class: all further values.
    pub(crate) rest: usize,
    /// Index of the kind of each class.
    pub(crate) kind_of: Vec<usize>,
    /// Number of the first table behind this column.
    pub(crate) end: usize,
}

impl ColumnTables {
    /// Numbers the tables of a column, from `start` on.
    pub(crate) fn new(start: usize, column: &ColumnModel) -> ColumnTables {
        let (class, mut kind_of, mut contexts, mut kinds) = (start + 1, Vec::new(), 1, 0);
        if let ColumnModel::Numbers {
            kinds: models,
            has_context,
            ..
        } = column
        {
            for (index, model) in models.iter().enumerate() {
                kind_of.extend((0..model.classes).map(|_| index));
            }
            contexts = if *has_context { kind_of.len() } else { 1 }.max(1);
            kinds = models.len();
        }
        let first_kind = class + contexts;
        let rest = first_kind + 2 * kinds;
        ColumnTables {
            state: start,
            class,
            kinds: first_kind,
            rest,
            end: rest + kind_of.len(),
            kind_of,
        }
    }

    /// Returns the table of a class, given the class of the source before.
    pub(crate) fn class_after(&self, before: usize) -> usize {
        self.class + before.min(self.kinds - self.class - 1)
    }
}

impl GroupModel {
    /// Returns the number of classes of all columns.
    pub(crate) fn classes(&self) -> usize {
        let of = |column: &ColumnModel| match column {
            ColumnModel::Numbers { kinds, .. } => kinds.iter().map(|kind| kind.classes).sum(),
            ColumnModel::Codec => 0,
        };
        self.columns.iter().map(of).sum()
    }

    /// Numbers the tables of all columns. The second value is the number of tables.
    pub(crate) fn tables(&self) -> (Vec<ColumnTables>, usize) {
        let mut next = shared::COUNT;
        let columns = self.columns.iter().map(|column| {
            let tables = ColumnTables::new(next, column);
            next = tables.end;
            tables
        });
        (columns.collect(), next)
    }
}
