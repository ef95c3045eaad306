//! Expressions whose series have different labels even without the names of their metrics.

use crate::functions::Function;
use crate::labels::METRIC_NAME;
use crate::plan::{Aggregator, Node, Operator, Range, Selector, Set};
use seiner_model::Condition;

/// Returns whether no two series of a vector differ only in the name of their metric.
pub fn names_are_unique(node: &Node) -> bool {
    match node {
        Node::Selector(selector) => has_name(selector),
        Node::Negate(_) => true,
        Node::Call(function, arguments) => match function {
            Function::Window(function) if function.keeps_name() => {
                arguments.iter().all(|argument| match argument {
                    Node::Range(range) => range_names_are_unique(range),
                    _ => true,
                })
            }
            Function::LabelReplace | Function::LabelJoin => false,
            Function::Sort { .. } | Function::SortByLabel { .. } => names_are_unique(&arguments[0]),
            _ => true,
        },
        Node::Binary(binary) => match binary.operator {
            Operator::Arithmetic(_) => true,
            Operator::Set(Set::Or) => false,
            _ => {
                binary.returns_bool
                    || names_are_unique(&binary.left) && names_are_unique(&binary.right)
            }
        },
        Node::Aggregate(aggregate) => match aggregate.operator {
            Aggregator::TopK
            | Aggregator::BottomK
            | Aggregator::LimitK
            | Aggregator::LimitRatio => names_are_unique(&aggregate.input),
            _ => aggregate.without || !aggregate.labels.iter().any(|label| &**label == METRIC_NAME),
        },
        Node::Number(_) | Node::Text(_) | Node::Range(_) => true,
    }
}

/// Returns whether no two series of a range vector differ only in the name of their metric.
pub fn range_names_are_unique(range: &Range) -> bool {
    match range {
        Range::Selector { selector, .. } => has_name(selector),
        Range::Subquery(subquery) => names_are_unique(&subquery.node),
    }
}

/// Returns whether a selector names its metric. Then its series have different labels even without their names.
fn has_name(selector: &Selector) -> bool {
    let names = selector
        .matchers
        .iter()
        .filter(|matcher| &*matcher.label == METRIC_NAME);
    names
        .into_iter()
        .any(|matcher| matches!(matcher.condition, Condition::Is(_)))
}
