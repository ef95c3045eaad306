//! Operators by the tokens of the parser.

use crate::kind::Kind;
use crate::plan::{Aggregator, Arithmetic, Comparison, Operator, Set};
use promql_parser::parser::token::*;

/// Returns the operator of a token.
pub fn operator(token: TokenId) -> Option<Operator> {
    Some(match token {
        T_ADD => Operator::Arithmetic(Arithmetic::Add),
        T_SUB => Operator::Arithmetic(Arithmetic::Subtract),
        T_MUL => Operator::Arithmetic(Arithmetic::Multiply),
        T_DIV => Operator::Arithmetic(Arithmetic::Divide),
        T_MOD => Operator::Arithmetic(Arithmetic::Modulo),
        T_POW => Operator::Arithmetic(Arithmetic::Power),
        T_ATAN2 => Operator::Arithmetic(Arithmetic::Atan2),
        T_EQLC => Operator::Comparison(Comparison::Equal),
        T_NEQ => Operator::Comparison(Comparison::NotEqual),
        T_GTR => Operator::Comparison(Comparison::Greater),
        T_LSS => Operator::Comparison(Comparison::Less),
        T_GTE => Operator::Comparison(Comparison::GreaterOrEqual),
        T_LTE => Operator::Comparison(Comparison::LessOrEqual),
        T_LAND => Operator::Set(Set::And),
        T_LOR => Operator::Set(Set::Or),
        T_LUNLESS => Operator::Set(Set::Unless),
        _ => return None,
    })
}

/// Returns the aggregation of a token, and the type of its parameter.
pub fn aggregator(token: TokenId) -> Option<(Aggregator, Option<Kind>)> {
    let aggregator = match token {
        T_SUM => Aggregator::Sum,
        T_AVG => Aggregator::Average,
        T_MIN => Aggregator::Minimum,
        T_MAX => Aggregator::Maximum,
        T_COUNT => Aggregator::Count,
        T_GROUP => Aggregator::Group,
        T_STDDEV => Aggregator::StandardDeviation,
        T_STDVAR => Aggregator::Variance,
        T_QUANTILE => Aggregator::Quantile,
        T_TOPK => Aggregator::TopK,
        T_BOTTOMK => Aggregator::BottomK,
        T_COUNT_VALUES => Aggregator::CountValues,
        T_LIMITK => Aggregator::LimitK,
        T_LIMIT_RATIO => Aggregator::LimitRatio,
        _ => return None,
    };
    let parameter = match aggregator {
        Aggregator::CountValues => Some(Kind::Text),
        Aggregator::Quantile
        | Aggregator::TopK
        | Aggregator::BottomK
        | Aggregator::LimitK
        | Aggregator::LimitRatio => Some(Kind::Scalar),
        _ => None,
    };
    Some((aggregator, parameter))
}
