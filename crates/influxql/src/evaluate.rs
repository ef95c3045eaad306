//! Expressions on the values of a row.

use crate::cell::{Cell, Operator};
use regex::Regex;

/// Expression whose names are places in a row.
#[derive(Clone, Debug)]
pub enum Node {
    /// Constant.
    Constant(Cell),
    /// Value at a place.
    Place(usize),
    /// Value at a place, or an empty text: an absent tag in a condition.
    PlaceOrEmpty(usize),
    /// Mathematical function of one value.
    Math(Math, Box<Node>),
    /// Mathematical function of two values.
    Math2(Math2, Box<Node>, Box<Node>),
    /// Operator between two values.
    Binary(Operator, Box<Node>, Box<Node>),
    /// The value contains a match; with `true`, none.
    Matches(Box<Node>, Regex, bool),
}

impl Node {
    /// Returns the value for a row.
    pub fn value(&self, row: &[Option<Cell>]) -> Option<Cell> {
        match self {
            Node::Constant(cell) => Some(cell.clone()),
            Node::Place(place) => row[*place].clone(),
            Node::PlaceOrEmpty(place) => Some(row[*place].clone().unwrap_or(Cell::text(""))),
            Node::Math(math, node) => math.apply(node.value(row)?),
            Node::Math2(math, left, right) => {
                let (left, right) = (left.value(row)?.number()?, right.value(row)?.number()?);
                finite((math.function)(left, right))
            }
            Node::Binary(operator, left, right) => {
                operator.apply(left.value(row), right.value(row))
            }
            Node::Matches(node, regex, negated) => match node.value(row)? {
                Cell::Text(text) => Some(Cell::Bool(regex.is_match(&text) != *negated)),
                _ => None,
            },
        }
    }

    /// Calls a function for every place that the expression reads.
    pub fn places(&self, found: &mut impl FnMut(usize)) {
        match self {
            Node::Constant(_) => {}
            Node::Place(place) | Node::PlaceOrEmpty(place) => found(*place),
            Node::Math(_, node) | Node::Matches(node, ..) => node.places(found),
            Node::Math2(_, left, right) | Node::Binary(_, left, right) => {
                left.places(found);
                right.places(found);
            }
        }
    }
}

/// Mathematical function of one number.
#[derive(Clone, Copy, Debug)]
pub struct Math {
    name: &'static str,
    function: fn(f64) -> f64,
}

/// Functions of one number, as in InfluxDB.
const MATH: [Math; 18] = [
    Math {
        name: "abs",
        function: f64::abs,
    },
    Math {
        name: "acos",
        function: f64::acos,
    },
    Math {
        name: "asin",
        function: f64::asin,
    },
    Math {
        name: "atan",
        function: f64::atan,
    },
    Math {
        name: "ceil",
        function: f64::ceil,
    },
    Math {
        name: "cos",
        function: f64::cos,
    },
    Math {
        name: "exp",
        function: f64::exp,
    },
    Math {
        name: "floor",
        function: f64::floor,
    },
    Math {
        name: "ln",
        function: f64::ln,
    },
    Math {
        name: "log10",
        function: f64::log10,
    },
    Math {
        name: "log2",
        function: f64::log2,
    },
    Math {
        name: "round",
        function: f64::round,
    },
    Math {
        name: "sin",
        function: f64::sin,
    },
    Math {
        name: "sqrt",
        function: f64::sqrt,
    },
    Math {
        name: "tan",
        function: f64::tan,
    },
    Math {
        name: "sinh",
        function: f64::sinh,
    },
    Math {
        name: "cosh",
        function: f64::cosh,
    },
    Math {
        name: "tanh",
        function: f64::tanh,
    },
];

impl Math {
    /// Returns the function of this name.
    pub fn named(name: &str) -> Option<Math> {
        MATH.iter().find(|math| math.name == name).copied()
    }

    /// Returns the result. The absolute value and the rounding of an integer are integers. A result that is not a
    /// finite number is absent.
    fn apply(self, cell: Cell) -> Option<Cell> {
        if let Some(whole) = cell.whole() {
            match self.name {
                "abs" => return Some(crate::cell::integer(whole.abs())),
                "ceil" | "floor" | "round" => return Some(cell),
                _ => {}
            }
        }
        finite((self.function)(cell.number()?))
    }
}

/// Mathematical function of two numbers.
#[derive(Clone, Copy, Debug)]
pub struct Math2 {
    name: &'static str,
    function: fn(f64, f64) -> f64,
}

const MATH2: [Math2; 3] = [
    Math2 {
        name: "pow",
        function: f64::powf,
    },
    Math2 {
        name: "atan2",
        function: f64::atan2,
    },
    Math2 {
        name: "log",
        function: |value, base| value.ln() / base.ln(),
    },
];

impl Math2 {
    /// Returns the function of this name.
    pub fn named(name: &str) -> Option<Math2> {
        MATH2.iter().find(|math| math.name == name).copied()
    }
}

/// Returns the names of all mathematical functions.
pub fn math_names() -> impl Iterator<Item = &'static str> {
    let one = MATH.iter().map(|math| math.name);
    one.chain(MATH2.iter().map(|math| math.name))
}

fn finite(value: f64) -> Option<Cell> {
    value.is_finite().then_some(Cell::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, cell: Cell) -> Option<Cell> {
        let math = Math::named(name).expect("a function");
        Node::Math(math, Box::new(Node::Constant(cell))).value(&[])
    }

    #[test]
    fn functions_keep_integers_where_influxdb_does() {
        assert_eq!(call("abs", Cell::Integer(-3)), Some(Cell::Integer(3)));
        assert_eq!(call("round", Cell::Integer(7)), Some(Cell::Integer(7)));
        assert_eq!(call("round", Cell::Float(2.5)), Some(Cell::Float(3.0)));
        assert_eq!(call("sqrt", Cell::Integer(9)), Some(Cell::Float(3.0)));
        assert_eq!(call("sqrt", Cell::Integer(-1)), None);
        assert_eq!(call("abs", Cell::text("a")), None);
    }

    #[test]
    fn absent_values_are_empty_in_conditions_only() {
        let row = [None];
        assert_eq!(Node::Place(0).value(&row), None);
        assert_eq!(Node::PlaceOrEmpty(0).value(&row), Some(Cell::text("")));
    }
}
