//! Plan of a query: the parsed expression with all times in ns and all names resolved.

use crate::functions::Function;
use crate::kind::Kind;
use seiner_model::Condition;
use std::sync::Arc;

/// Expression.
#[derive(Debug)]
pub enum Node {
    /// Number.
    Number(f64),
    /// Text.
    Text(String),
    /// Latest samples of series.
    Selector(Selector),
    /// Samples of series within a range.
    Range(Range),
    /// Negated values.
    Negate(Box<Node>),
    /// Call of a function.
    Call(Function, Vec<Node>),
    /// Operator with two operands.
    Binary(Box<Binary>),
    /// Aggregation of series.
    Aggregate(Box<Aggregate>),
}

impl Node {
    /// Returns the type of the value.
    pub fn kind(&self) -> Kind {
        match self {
            Node::Number(_) => Kind::Scalar,
            Node::Text(_) => Kind::Text,
            Node::Selector(_) | Node::Aggregate(_) => Kind::Vector,
            Node::Range(_) => Kind::Range,
            Node::Negate(inner) => inner.kind(),
            Node::Call(function, _) => function.kind(),
            Node::Binary(binary) => match (binary.left.kind(), binary.right.kind()) {
                (Kind::Scalar, Kind::Scalar) => Kind::Scalar,
                _ => Kind::Vector,
            },
        }
    }
}

/// Condition on a label.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// Name of the label.
    pub label: Arc<str>,
    /// Condition on its value. An absent label has an empty value.
    pub condition: Condition,
}

/// Selection of series, and the time at which they are read.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Conditions, on the name of the metric as well.
    pub matchers: Vec<Matcher>,
    /// Time.
    pub shift: Shift,
}

/// Time at which an expression is evaluated, instead of the time of the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    /// Duration by which the time is earlier, ns.
    pub offset: i64,
    /// Time that replaces that of the step, ns.
    pub at: Option<i64>,
}

impl Shift {
    /// Returns the time that replaces the time of a step.
    pub fn apply(&self, time: i64) -> i64 {
        self.at.unwrap_or(time).saturating_sub(self.offset)
    }
}

/// Range vector.
#[derive(Debug)]
pub enum Range {
    /// Samples of a selector.
    Selector {
        /// Series.
        selector: Selector,
        /// Length of the range, ns.
        range: i64,
    },
    /// Values of an expression at steps of their own.
    Subquery(Box<Subquery>),
}

/// Subquery.
#[derive(Debug)]
pub struct Subquery {
    /// Expression.
    pub node: Node,
    /// Length of the range, ns.
    pub range: i64,
    /// Distance of its steps, ns.
    pub step: i64,
    /// Time.
    pub shift: Shift,
}

/// Operator with two operands.
#[derive(Debug)]
pub struct Binary {
    /// Operator.
    pub operator: Operator,
    /// Left operand.
    pub left: Node,
    /// Right operand.
    pub right: Node,
    /// True if a comparison returns 0 or 1.
    pub returns_bool: bool,
    /// Pairing of the series of two vectors.
    pub matching: Matching,
}

/// Operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Arithmetic.
    Arithmetic(Arithmetic),
    /// Comparison.
    Comparison(Comparison),
    /// Set operation on vectors.
    Set(Set),
}

/// Arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
    /// `atan2`
    Atan2,
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `>=`
    GreaterOrEqual,
    /// `<=`
    LessOrEqual,
}

/// Set operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// `and`
    And,
    /// `or`
    Or,
    /// `unless`
    Unless,
}

/// Side of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Left.
    Left,
    /// Right.
    Right,
}

/// Pairing of the series of two vectors.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    /// True if `labels` are the only labels that must be equal; false if they are the only ones that may differ.
    pub on: bool,
    /// Labels.
    pub labels: Vec<Arc<str>>,
    /// Side with several series for one of the other side. `None` if the pairs are one to one.
    pub many: Option<Side>,
    /// Labels that the result takes from the side with one series.
    pub include: Vec<Arc<str>>,
    /// Values for absent series of the left and of the right side.
    pub fill: [Option<f64>; 2],
}

/// Aggregation of series.
#[derive(Debug)]
pub struct Aggregate {
    /// Operator.
    pub operator: Aggregator,
    /// Parameter of the operator, if it has one.
    pub parameter: Option<Node>,
    /// Aggregated series.
    pub input: Node,
    /// True if `labels` are dropped; false if they are kept.
    pub without: bool,
    /// Labels.
    pub labels: Vec<Arc<str>>,
}

/// Aggregation operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of PromQL")]
pub enum Aggregator {
    Sum,
    Average,
    Minimum,
    Maximum,
    Count,
    Group,
    StandardDeviation,
    Variance,
    Quantile,
    TopK,
    BottomK,
    CountValues,
    LimitK,
    LimitRatio,
}
