//! Parsing: the text of a query becomes a plan.

use crate::error::Error;
use crate::functions::{self, Function};
use crate::kind::Kind;
use crate::labels::METRIC_NAME;
use crate::numbers::seconds;
use crate::operators::{aggregator, operator};
use crate::plan::{
    Aggregate, Binary, Matcher, Matching, Node, Range, Selector, Shift, Side, Subquery,
};
use crate::stack::on_large_stack;
use crate::text::{Times, rewrite};
use promql_parser::label::{MatchOp, Matchers};
use promql_parser::parser::{
    AggregateExpr, AtModifier, BinModifier, BinaryExpr, Call, Expr, LabelModifier, Offset,
    SubqueryExpr, VectorMatchCardinality, VectorSelector,
};
use seiner_model::Condition;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Times of the query, which its text may use.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// First time, ns.
    pub start: i64,
    /// Last time, ns.
    pub end: i64,
    /// Step, ns.
    pub step: i64,
    /// Step of subqueries without one, ns.
    pub default_step: i64,
}

/// Parses a query.
///
/// # Errors
/// If the text is not a valid expression, or a part of it is not supported.
pub fn parse(text: &str, context: Context) -> Result<Node, Error> {
    lower(&syntax(text, context)?, context)
}

/// Parses the conditions of a selector, such as those of `match[]`.
///
/// # Errors
/// If the text is not a selector without range, offset and `@`.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, Error> {
    let context = Context {
        start: 0,
        end: 0,
        step: 1,
        default_step: 1,
    };
    on_large_stack(|| match parse(text, context)? {
        Node::Selector(selector) if selector.shift == Shift::default() => Ok(selector.matchers),
        _ => Err(Error::invalid(format!(
            "{text:?} is not a selector of series"
        ))),
    })
}

/// Returns the text of a query in the usual layout.
///
/// # Errors
/// If the text is not a valid expression.
pub fn format(text: &str) -> Result<String, Error> {
    let context = Context {
        start: 0,
        end: 0,
        step: 1,
        default_step: 1,
    };
    on_large_stack(|| Ok(syntax(text, context)?.prettify()))
}

fn syntax(text: &str, context: Context) -> Result<Expr, Error> {
    let times = Times {
        step: seconds(context.step),
        range: seconds(context.end.saturating_sub(context.start)),
    };
    let text = rewrite(text, times)?;
    // The parser panics for some numbers that are out of range.
    let parsed = catch_unwind(AssertUnwindSafe(|| promql_parser::parser::parse(&text)));
    let parsed = parsed.unwrap_or_else(|_| Err("a number is out of range".to_string()));
    parsed.map_err(|error| {
        Error::invalid(format!("invalid parameter \"query\": parse error: {error}"))
    })
}

fn lower(expression: &Expr, context: Context) -> Result<Node, Error> {
    match expression {
        Expr::NumberLiteral(number) => Ok(Node::Number(number.val)),
        Expr::StringLiteral(text) => Ok(Node::Text(text.val.clone())),
        Expr::Paren(paren) => lower(&paren.expr, context),
        Expr::Unary(unary) => Ok(match lower(&unary.expr, context)? {
            Node::Number(number) => Node::Number(-number),
            inner => Node::Negate(Box::new(inner)),
        }),
        Expr::VectorSelector(selector) => Ok(Node::Selector(lower_selector(selector, context)?)),
        Expr::MatrixSelector(matrix) => Ok(Node::Range(Range::Selector {
            selector: lower_selector(&matrix.vs, context)?,
            range: ns(matrix.range),
        })),
        Expr::Subquery(subquery) => lower_subquery(subquery, context),
        Expr::Call(call) => lower_call(call, context),
        Expr::Binary(binary) => lower_binary(binary, context),
        Expr::Aggregate(aggregate) => lower_aggregate(aggregate, context),
        Expr::Extension(_) => Err(Error::invalid("unexpected expression")),
    }
}

fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn lower_shift(offset: Option<&Offset>, at: Option<&AtModifier>, context: Context) -> Shift {
    let at = at.map(|at| match at {
        AtModifier::Start => context.start,
        AtModifier::End => context.end,
        AtModifier::At(time) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => ns(after),
            Err(before) => -ns(before.duration()),
        },
    });
    let offset = match offset {
        None => 0,
        Some(Offset::Pos(offset)) => ns(*offset),
        Some(Offset::Neg(offset)) => -ns(*offset),
    };
    Shift { offset, at }
}

fn lower_selector(selector: &VectorSelector, context: Context) -> Result<Selector, Error> {
    let mut matchers = lower_matchers(&selector.matchers)?;
    if let Some(name) = &selector.name {
        matchers.push(Matcher {
            label: METRIC_NAME.into(),
            condition: Condition::Is(name.clone()),
        });
    }
    let matches_all = matchers.iter().all(|matcher| matcher.condition.holds(""));
    if matches_all {
        return Err(Error::invalid(
            "invalid parameter \"query\": parse error: vector selector must contain at least one non-empty matcher",
        ));
    }
    Ok(Selector {
        matchers,
        shift: lower_shift(selector.offset.as_ref(), selector.at.as_ref(), context),
    })
}

fn lower_matchers(matchers: &Matchers) -> Result<Vec<Matcher>, Error> {
    if !matchers.or_matchers.is_empty() {
        return Err(Error::invalid(
            "unexpected \"or\" in label matching, expected \",\" or \"}\"",
        ));
    }
    let lower = |matcher: &promql_parser::label::Matcher| {
        let regex = || Condition::matches(&matcher.value).map_err(Error::invalid);
        let condition = match &matcher.op {
            MatchOp::Equal => Condition::Is(matcher.value.clone()),
            MatchOp::NotEqual => Condition::IsNot(matcher.value.clone()),
            MatchOp::Re(_) => regex()?,
            MatchOp::NotRe(_) => match regex()? {
                Condition::Matches(regex) => Condition::MatchesNot(regex),
                other => other,
            },
        };
        Ok(Matcher {
            label: matcher.name.as_str().into(),
            condition,
        })
    };
    matchers.matchers.iter().map(lower).collect()
}

fn lower_subquery(subquery: &SubqueryExpr, context: Context) -> Result<Node, Error> {
    Ok(Node::Range(Range::Subquery(Box::new(Subquery {
        node: lower(&subquery.expr, context)?,
        range: ns(subquery.range),
        step: subquery.step.map_or(context.default_step, ns).max(1),
        shift: lower_shift(subquery.offset.as_ref(), subquery.at.as_ref(), context),
    }))))
}

fn lower_call(call: &Call, context: Context) -> Result<Node, Error> {
    let name = call.func.name;
    let function = functions::find(name).ok_or_else(|| {
        Error::invalid(format!("function {name:?} is not supported by this server"))
    })?;
    let mut arguments = Vec::with_capacity(call.args.args.len());
    for argument in &call.args.args {
        arguments.push(lower(argument, context)?);
    }
    check_arguments(name, function, &arguments)?;
    Ok(Node::Call(function, arguments))
}

/// Checks what the evaluation relies on. The parser has checked the number and the types of the arguments, except
/// for some literals.
fn check_arguments(name: &str, function: Function, arguments: &[Node]) -> Result<(), Error> {
    let kinds: Vec<Kind> = arguments.iter().map(Node::kind).collect();
    let is_valid = match function {
        Function::Map(_) => kinds == [Kind::Vector],
        Function::LabelReplace | Function::LabelJoin | Function::SortByLabel { .. } => {
            kinds.first() == Some(&Kind::Vector)
                && arguments[1..]
                    .iter()
                    .all(|node| matches!(node, Node::Text(_)))
        }
        _ => true,
    };
    match is_valid {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "invalid types of arguments in call to function {name:?}"
        ))),
    }
}

fn lower_binary(binary: &BinaryExpr, context: Context) -> Result<Node, Error> {
    let (left, right) = (lower(&binary.lhs, context)?, lower(&binary.rhs, context)?);
    let returns_bool = binary.return_bool();
    let operator = operator(binary.op.id())
        .ok_or_else(|| Error::invalid(format!("operator {} is not supported", binary.op)))?;
    Ok(Node::Binary(Box::new(Binary {
        operator,
        left,
        right,
        returns_bool,
        matching: binary
            .modifier
            .as_ref()
            .map(lower_matching)
            .unwrap_or_default(),
    })))
}

fn lower_matching(modifier: &BinModifier) -> Matching {
    let (on, labels) = match &modifier.matching {
        Some(LabelModifier::Include(labels)) => (true, names(&labels.labels)),
        Some(LabelModifier::Exclude(labels)) => (false, names(&labels.labels)),
        None => (false, Vec::new()),
    };
    let (many, include) = match &modifier.card {
        VectorMatchCardinality::ManyToOne(labels) => (Some(Side::Left), names(&labels.labels)),
        VectorMatchCardinality::OneToMany(labels) => (Some(Side::Right), names(&labels.labels)),
        VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany => (None, Vec::new()),
    };
    Matching {
        on,
        labels,
        many,
        include,
        fill: [modifier.fill_values.lhs, modifier.fill_values.rhs],
    }
}

fn names(labels: &[String]) -> Vec<Arc<str>> {
    labels.iter().map(|label| label.as_str().into()).collect()
}

fn lower_aggregate(aggregate: &AggregateExpr, context: Context) -> Result<Node, Error> {
    let (operator, parameter_kind) = aggregator(aggregate.op.id())
        .ok_or_else(|| Error::invalid(format!("aggregation {} is not supported", aggregate.op)))?;
    let parameter = match &aggregate.param {
        Some(parameter) => Some(lower(parameter, context)?),
        None => None,
    };
    if parameter.as_ref().map(Node::kind) != parameter_kind {
        return Err(Error::invalid(format!(
            "expected type {} in aggregation parameter of {}",
            parameter_kind.map_or("none", Kind::name),
            aggregate.op
        )));
    }
    let (without, labels) = match &aggregate.modifier {
        Some(LabelModifier::Include(labels)) => (false, names(&labels.labels)),
        Some(LabelModifier::Exclude(labels)) => (true, names(&labels.labels)),
        None => (false, Vec::new()),
    };
    Ok(Node::Aggregate(Box::new(Aggregate {
        operator,
        parameter,
        input: lower(&aggregate.expr, context)?,
        without,
        labels,
    })))
}
