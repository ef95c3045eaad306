//! Values, and their arithmetic.

use seiner_model::Value;
use std::cmp::Ordering;
use std::sync::Arc;

/// Value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// 64-bit float.
    Float(f64),
    /// 32-bit float. Arithmetic is done in 64 bits.
    Single(f32),
    /// Signed integer.
    Integer(i64),
    /// Unsigned integer.
    Unsigned(u64),
    /// Boolean.
    Bool(bool),
    /// Text, or the value of a tag.
    Text(Arc<str>),
    /// Time, ns since 1970.
    Time(i64),
}

impl Cell {
    /// Converts a value of the store.
    pub fn of(value: Value<'_>) -> Cell {
        match value {
            Value::F64(value) => Cell::Float(value),
            Value::F32(value) => Cell::Single(value),
            Value::I64(value) => Cell::Integer(value),
            Value::U64(value) => Cell::Unsigned(value),
            Value::Bool(value) => Cell::Bool(value),
            Value::Str(text) => Cell::Text(text.into()),
        }
    }

    /// Creates a text.
    pub fn text(text: &str) -> Cell {
        Cell::Text(text.into())
    }

    /// Returns a number as a float; `None` for other values.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Float(value) => Some(*value),
            Cell::Single(value) => Some(f64::from(*value)),
            Cell::Integer(value) => Some(*value as f64),
            Cell::Unsigned(value) => Some(*value as f64),
            Cell::Bool(_) | Cell::Text(_) | Cell::Time(_) => None,
        }
    }

    /// Returns a whole number of a type for integers; `None` for other values.
    pub fn whole(&self) -> Option<i128> {
        match self {
            Cell::Integer(value) => Some(i128::from(*value)),
            Cell::Unsigned(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// Compares two values: numbers with numbers, and values of the same type. Other pairs, and NaN, have no order.
    pub fn order(&self, other: &Cell) -> Option<Ordering> {
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => Some(a.cmp(b)),
            (Cell::Bool(a), Cell::Bool(b)) => Some(a.cmp(b)),
            (Cell::Time(a), Cell::Time(b)) => Some(a.cmp(b)),
            (a, b) => match (a.whole(), b.whole()) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => a.number()?.partial_cmp(&b.number()?),
            },
        }
    }

    /// Returns a total order: that of [`Cell::order`], then by the type.
    pub fn total_order(&self, other: &Cell) -> Ordering {
        let rank = |cell: &Cell| match cell {
            Cell::Bool(_) => 0,
            Cell::Text(_) => 2,
            Cell::Time(_) => 3,
            _ => 1,
        };
        let by_type = || rank(self).cmp(&rank(other));
        self.order(other).unwrap_or_else(by_type)
    }

    /// Bytes in memory.
    pub fn bytes(cell: &Option<Cell>) -> usize {
        let text = match cell {
            Some(Cell::Text(text)) => text.len() + 16,
            _ => 0,
        };
        size_of::<Option<Cell>>() + text
    }
}

/// Creates an integer of the type that holds it: signed, then unsigned, then a float.
pub fn integer(value: i128) -> Cell {
    if let Ok(value) = i64::try_from(value) {
        return Cell::Integer(value);
    }
    u64::try_from(value).map_or(Cell::Float(value as f64), Cell::Unsigned)
}

/// Operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient, a float.
    Divide,
    /// Remainder.
    Remainder,
    /// Bits in both.
    BitAnd,
    /// Bits in one or both.
    BitOr,
    /// Bits in one only.
    BitXor,
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less.
    Less,
    /// Less or equal.
    AtMost,
    /// Greater.
    Greater,
    /// Greater or equal.
    AtLeast,
    /// Both conditions hold.
    And,
    /// One of two conditions holds.
    Or,
}

impl Operator {
    /// Returns whether the result is a truth value.
    pub fn compares(self) -> bool {
        !matches!(
            self,
            Operator::Add
                | Operator::Subtract
                | Operator::Multiply
                | Operator::Divide
                | Operator::Remainder
                | Operator::BitAnd
                | Operator::BitOr
                | Operator::BitXor
        )
    }

    /// Applies the operator. An absent value, and values without this operation, give an absent value. As in InfluxDB,
    /// a division by zero gives 0.
    pub fn apply(self, left: Option<Cell>, right: Option<Cell>) -> Option<Cell> {
        match self {
            Operator::And => return Some(Cell::Bool(is_true(&left) && is_true(&right))),
            Operator::Or => return Some(Cell::Bool(is_true(&left) || is_true(&right))),
            _ => {}
        }
        let (left, right) = (left?, right?);
        if self.compares() {
            return Some(Cell::Bool(self.holds(left.order(&right))));
        }
        if let (Cell::Bool(left), Cell::Bool(right)) = (&left, &right) {
            return match self {
                Operator::BitAnd => Some(Cell::Bool(left & right)),
                Operator::BitOr => Some(Cell::Bool(left | right)),
                Operator::BitXor => Some(Cell::Bool(left ^ right)),
                _ => None,
            };
        }
        if let (Some(left), Some(right)) = (left.whole(), right.whole())
            && self != Operator::Divide
        {
            return self.integers(left, right).map(integer);
        }
        self.floats(left.number()?, right.number()?)
            .map(Cell::Float)
    }

    fn holds(self, order: Option<Ordering>) -> bool {
        let Some(order) = order else {
            return self == Operator::NotEqual;
        };
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::AtMost => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::AtLeast => order.is_ge(),
            _ => false,
        }
    }

    fn integers(self, left: i128, right: i128) -> Option<i128> {
        match self {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Remainder => Some(left.checked_rem(right).unwrap_or(0)),
            Operator::BitAnd => Some(left & right),
            Operator::BitOr => Some(left | right),
            Operator::BitXor => Some(left ^ right),
            _ => None,
        }
    }

    fn floats(self, left: f64, right: f64) -> Option<f64> {
        match self {
            Operator::Add => Some(left + right),
            Operator::Subtract => Some(left - right),
            Operator::Multiply => Some(left * right),
            Operator::Divide if right == 0.0 => Some(0.0),
            Operator::Divide => Some(left / right),
            Operator::Remainder => Some(left % right),
            _ => None,
        }
    }
}

/// Returns whether a condition holds. An absent value does not.
pub fn is_true(cell: &Option<Cell>) -> bool {
    matches!(cell, Some(Cell::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(operator: Operator, left: Cell, right: Cell) -> Option<Cell> {
        operator.apply(Some(left), Some(right))
    }

    #[test]
    fn integers_stay_integers_except_for_quotients() {
        let (seven, two) = (Cell::Integer(7), Cell::Integer(2));
        let results = [
            (Operator::Add, Cell::Integer(9)),
            (Operator::Remainder, Cell::Integer(1)),
            (Operator::BitXor, Cell::Integer(5)),
            (Operator::Divide, Cell::Float(3.5)),
        ];
        for (operator, result) in results {
            assert_eq!(apply(operator, seven.clone(), two.clone()), Some(result));
        }
        assert_eq!(
            apply(Operator::Add, Cell::Integer(i64::MAX), Cell::Integer(1)),
            Some(Cell::Unsigned(1 << 63))
        );
        assert_eq!(
            apply(Operator::Divide, Cell::Float(1.0), Cell::Integer(0)),
            Some(Cell::Float(0.0))
        );
    }

    #[test]
    fn absent_values_and_other_types_have_no_result() {
        assert_eq!(Operator::Add.apply(None, Some(Cell::Integer(1))), None);
        assert_eq!(
            apply(Operator::Add, Cell::text("a"), Cell::Integer(1)),
            None
        );
        assert_eq!(
            apply(Operator::Equal, Cell::text("1"), Cell::Integer(1)),
            Some(Cell::Bool(false))
        );
        assert_eq!(
            Operator::Or.apply(None, Some(Cell::Bool(true))),
            Some(Cell::Bool(true))
        );
    }

    #[test]
    fn integers_compare_without_rounding() {
        let (a, b) = (
            Cell::Integer(9_007_199_254_740_993),
            Cell::Unsigned(9_007_199_254_740_992),
        );
        assert_eq!(a.order(&b), Some(Ordering::Greater));
        assert_eq!(
            Cell::Float(1.0).order(&Cell::Integer(1)),
            Some(Ordering::Equal)
        );
    }
}
