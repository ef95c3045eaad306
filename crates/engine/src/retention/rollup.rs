//! Roll-up levels: the times up to which old data is rolled up, and the rows of levels.
//!
//! A level of a source is another source, which clients cannot name
//! ([`seiner_model::SourceKey::level`]). Its rows have the time of the beginning of their step, and
//! a few columns for each field of the source: `count:`, `sum:`, `min:`, `max:`, `first:` and
//! `last:` before the field's name. Texts have `count:` and `last:`. The columns are f64. If an f64
//! could round the figures of integers, the row also has the exact figures as a text in `exact:`.
//! Writes, merges, checks and drops treat these rows like all others.

use crate::answer::{Bucket, Exact, number};
use crate::bytes::put_text;
use crate::retention::Retention;
use crate::retention::class::Classes;
use crate::retention::records::{MADE, OLDER, put_rolled_up};
use roaring::RoaringBitmap;
use seiner_codec::varint;
use seiner_model::{Column, FieldType, Value};
use std::sync::Arc;

/// Fraction of a class's age that one pass rolls up. With fewer passes, blocks of a source are read
/// fewer times, but more data stays beyond its age.
const PASSES: i64 = 32;

/// Maximum number of fields in one source of a level. Further fields are in the next part.
pub const FIELDS_A_PART: usize = 128;

/// Figure of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Count,
    Sum,
    Min,
    Max,
    First,
    Last,
}

use Figure::{Count, First, Last, Max, Min, Sum};

impl Figure {
    /// Returns the figures of a field type.
    pub fn of(field_type: FieldType) -> &'static [Figure] {
        match field_type {
            FieldType::Str => &[Count, Last],
            _ => &[Count, Sum, Min, Max, First, Last],
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Count => "count:",
            Sum => "sum:",
            Min => "min:",
            Max => "max:",
            First => "first:",
            Last => "last:",
        }
    }

    /// Returns the name of the column for a field.
    pub fn column(self, field: &str) -> String {
        format!("{}{field}", self.prefix())
    }

    /// Returns the value of the figure. The last value of a text is not a number and is passed
    /// separately.
    pub fn value<'a>(self, bucket: &Bucket, last: Option<&'a str>) -> Value<'a> {
        match self {
            Count => Value::U64(bucket.count),
            Sum => Value::F64(bucket.sum),
            Min => Value::F64(bucket.min),
            Max => Value::F64(bucket.max),
            First => Value::F64(bucket.first.1),
            Last => last.map_or(Value::F64(bucket.last.1), Value::Str),
        }
    }

    /// Sets the figure in a bucket.
    pub fn set(self, bucket: &mut Bucket, value: Value<'_>) {
        match (self, value) {
            (Count, Value::U64(count)) => bucket.count = count,
            (Sum, value) => bucket.sum = number(value),
            (Min, value) => bucket.min = number(value),
            (Max, value) => bucket.max = number(value),
            (First, value) => bucket.first.1 = number(value),
            (Last, value) => bucket.last.1 = number(value),
            (Count, _) => {}
        }
    }
}

/// Prefix of the column with the exact figures of integers.
const EXACT: &str = "exact:";

/// Returns the name of the column with a field's exact figures.
pub fn exact_column(field: &str) -> String {
    format!("{EXACT}{field}")
}

/// Returns the count and the exact figures of a bucket of integers, if its f64 figures may be rounded.
pub fn exact_text(bucket: &Bucket) -> Option<String> {
    let exact = bucket.exact?;
    let Exact {
        sum,
        min,
        max,
        first,
        last,
    } = exact;
    match bucket.of_integers() {
        Some(_) => None,
        None => Some(format!("{} {sum} {min} {max} {first} {last}", bucket.count)),
    }
}

/// Restores the exact figures from a text, if they match the f64 figures of the bucket. A row that
/// was rewritten without a text leaves the earlier text in place.
pub fn set_exact(bucket: &mut Bucket, text: &str) {
    let mut numbers = text.split(' ').map(|number| number.parse::<i128>().ok());
    let mut next = || numbers.next().flatten();
    let (Some(count), Some(sum), Some(min), Some(max), Some(first), Some(last)) =
        (next(), next(), next(), next(), next(), next())
    else {
        return;
    };
    let rounded = [min as f64, max as f64, first as f64, last as f64];
    let found = [bucket.min, bucket.max, bucket.first.1, bucket.last.1];
    if count == i128::from(bucket.count) && rounded == found && bucket.of_integers().is_none() {
        bucket.exact = Some(Exact {
            sum,
            min,
            max,
            first,
            last,
        });
    }
}

/// Returns the field of a column's name.
pub fn field_of(column: &str) -> &str {
    column.split_once(':').map_or(column, |(_, field)| field)
}

/// Appends the value that replaces the samples of a step in a query for samples, in the type of the
/// samples: the mean of floats, the rounded mean of integers, or the last value of other types.
pub fn push_stand_in(values: &mut Column, bucket: &Bucket, last: Option<&str>) {
    match values {
        Column::F64(values) => values.push(bucket.mean()),
        Column::F32(values) => values.push(bucket.mean() as f32),
        Column::I64(values) => values.push(match bucket.exact {
            Some(exact) => rounded_mean(exact.sum, bucket.count) as i64,
            None => bucket.mean().round() as i64,
        }),
        Column::U64(values) => values.push(match bucket.exact {
            Some(exact) => rounded_mean(exact.sum, bucket.count) as u64,
            None => bucket.mean().round() as u64,
        }),
        Column::Bool(values) => values.push(bucket.last.1 != 0.0),
        Column::Str(values) => values.push(last.unwrap_or("")),
    }
}

/// Returns the mean of integers, halves rounded away from zero.
fn rounded_mean(sum: i128, count: u64) -> i128 {
    let count = i128::from(count.max(1));
    (sum + sum.signum() * (count / 2)) / count
}

/// Returns the beginning of the step that contains a time.
pub fn step_start(time: i64, step: u64) -> i64 {
    time.saturating_sub(time.rem_euclid(step as i64))
}

impl Retention {
    /// Returns the classes and their levels.
    pub fn rules(&self) -> &Classes {
        &self.classes
    }

    /// Returns the length of a pass of a class that has a next level, ns: a whole number of its
    /// steps.
    pub fn pass_len(&self, class: u8) -> Option<i64> {
        let step = self.next[class as usize]? as i64;
        let age = self.classes.list()[class as usize].keep.age?;
        let part = (age.as_nanos() as i64 / PASSES).max(1);
        Some((part + step - 1) / step * step)
    }

    /// Returns the time up to which rows of a class should be in its next level, if a pass is due.
    pub fn due(&self, class: u8) -> Option<i64> {
        let pass = self.pass_len(class)?;
        let step = self.next[class as usize]?;
        let age = self.classes.list()[class as usize].keep.age?;
        let mut to = self.now.saturating_sub(age.as_nanos() as i64);
        if let Some(level) = self.classes.level(class) {
            // Rows that are not yet in this level cannot be in the next.
            let levels = self.classes.levels_of(level.class);
            let finer = levels.iter().take_while(|(_, step)| *step < level.step);
            let finer = finer.last().map_or(level.class, |(number, _)| *number);
            to = to.min(self.made(finer));
        }
        let to = step_start(to, step);
        let made = self.made(class);
        let late = to.checked_sub(made).is_none_or(|late| late >= pass);
        (to > made && late).then_some(to)
    }

    /// Returns the time up to which rows of a class are in its next level.
    pub fn made(&self, class: u8) -> i64 {
        self.floors[class as usize].time
    }

    /// Adds the time up to which rows of a class are in its next level to the records for the
    /// catalog.
    pub fn note_made(&mut self, class: u8, to: i64) {
        self.pending.push(MADE);
        put_text(&self.classes.list()[class as usize].name, &mut self.pending);
        varint::put_i64(to, &mut self.pending);
    }

    /// Expires rows of a class up to a time, because the catalog contains the end of their roll-up.
    pub fn expire_rolled_up(&mut self, class: u8, to: i64) {
        let floor = &mut self.floors[class as usize].time;
        *floor = (*floor).max(to);
        self.note_late();
    }

    /// Returns the time before which rows of a source's levels may be needed.
    pub fn levels_until(&self, source: u32) -> i64 {
        let class = self.class_of(source);
        let own = self.next[class as usize].map_or(i64::MIN, |_| self.made(class));
        self.older.values().copied().fold(own, i64::max)
    }

    /// Returns the levels that other rules made, by the lengths of their steps, with the end of
    /// each.
    pub fn older(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.older.iter().map(|(&step, &to)| (step, to))
    }

    pub(super) fn note_older(&mut self, step: u64, to: i64) {
        let older = self.older.entry(step).or_insert(i64::MIN);
        if to > *older {
            *older = to;
            self.pending.push(OLDER);
            varint::put_u64(step, &mut self.pending);
            varint::put_i64(to, &mut self.pending);
        }
    }

    /// Records sources that, before a time, have only levels of rules that no longer apply.
    pub(super) fn note_rolled_up(&mut self, sources: RoaringBitmap, before: i64) {
        put_rolled_up(&sources, before, &mut self.pending);
        Arc::make_mut(&mut self.rolled_up).push((sources, before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a bucket as a level stores it: f64 figures without the exact figures.
    fn kept(bucket: &Bucket) -> Bucket {
        Bucket {
            exact: None,
            ..*bucket
        }
    }

    #[test]
    fn exact_figures_are_restored_only_from_their_own_text() {
        let mut large = Bucket::of_integer(0, 1, (1 << 53) + 1);
        large.absorb(&Bucket::of_integer(0, 2, -5));
        let text = exact_text(&large).expect("the bucket has exact figures");
        assert_eq!(
            text,
            "2 9007199254740988 -5 9007199254740993 9007199254740993 -5"
        );
        let mut found = kept(&large);
        set_exact(&mut found, &text);
        assert_eq!(found.exact, large.exact);
        // The row was rewritten with other figures.
        let mut others = kept(&large);
        others.absorb(&Bucket::of(0, 3, 1.0));
        set_exact(&mut others, &text);
        assert_eq!(others.exact, None);
        set_exact(&mut others, "2 9 x");
        assert_eq!(others.exact, None);
        // Small figures need no text and have none.
        let small = Bucket::of_integer(0, 1, 7);
        assert_eq!(exact_text(&small), None);
        assert_eq!(kept(&small).of_integers(), Some(small));
        assert_eq!(kept(&large).of_integers(), None);
    }

    #[test]
    fn means_of_integers_are_rounded_to_the_nearest() {
        let cases = [
            (7, 2, 4),
            (-7, 2, -4),
            (1, 3, 0),
            (i128::from(u64::MAX) * 3, 3, i128::from(u64::MAX)),
        ];
        for (sum, count, mean) in cases {
            assert_eq!(rounded_mean(sum, count), mean);
        }
    }
}
