//! Functions over many rows: aggregates, selectors and transformations.

use crate::cell::Cell;
use crate::error::Error;
use crate::evaluate::math_names;
use crate::text::statement::Expression;

/// Function that computes one value, or a few, from the samples of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregate {
    /// Number of samples.
    Count,
    /// Number of different values.
    CountDistinct,
    /// Different values.
    Distinct,
    /// Area under the curve, in the field's unit times a duration in ns.
    Integral(i64),
    /// Arithmetic mean.
    Mean,
    /// Value in the middle, or the mean of the two in the middle.
    Median,
    /// Most frequent value.
    Mode,
    /// Difference of maximum and minimum.
    Spread,
    /// Standard deviation of a sample.
    Deviation,
    /// Sum.
    Sum,
    /// Smallest values.
    Bottom(usize),
    /// Earliest value.
    First,
    /// Latest value.
    Last,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Value at a nearest rank, %.
    Percentile(f64),
    /// Largest values.
    Top(usize),
}

impl Aggregate {
    /// Returns whether the result is one of the samples, so that other values of its row can be returned.
    pub fn selects(self) -> bool {
        matches!(
            self,
            Aggregate::Bottom(_)
                | Aggregate::First
                | Aggregate::Last
                | Aggregate::Max
                | Aggregate::Min
                | Aggregate::Percentile(_)
                | Aggregate::Top(_)
        )
    }

    /// Returns whether a bucket has several results.
    pub fn has_many(self) -> bool {
        matches!(
            self,
            Aggregate::Bottom(_) | Aggregate::Top(_) | Aggregate::Distinct
        )
    }

    /// Returns whether the aggregates of blocks contain the result.
    pub fn is_in_blocks(self) -> bool {
        matches!(
            self,
            Aggregate::Count
                | Aggregate::Mean
                | Aggregate::Spread
                | Aggregate::Sum
                | Aggregate::First
                | Aggregate::Last
                | Aggregate::Max
                | Aggregate::Min
        )
    }
}

/// Function that computes a series from a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transform {
    /// Difference of neighbours, divided by their distance in a unit, ns.
    Derivative {
        /// Unit, ns.
        unit: i64,
        /// True if negative results are left out.
        non_negative: bool,
    },
    /// Difference of neighbours.
    Difference {
        /// True if negative results are left out.
        non_negative: bool,
    },
    /// Sum of all values up to each.
    CumulativeSum,
    /// Distance of neighbours in a unit, ns.
    Elapsed(i64),
    /// Mean of a number of neighbours.
    MovingAverage(usize),
}

impl Transform {
    /// Number of buckets before the interval that the first results need.
    pub fn buckets_before(self) -> usize {
        match self {
            Transform::Derivative { .. } | Transform::Difference { .. } | Transform::Elapsed(_) => {
                1
            }
            Transform::MovingAverage(count) => count - 1,
            Transform::CumulativeSum => 0,
        }
    }
}

/// Function by its name and parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// Aggregate of the first argument.
    Aggregate(Aggregate),
    /// Transformation of the first argument.
    Transform(Transform),
}

/// Names of aggregates and transformations.
const NAMES: [&str; 23] = [
    "bottom",
    "count",
    "cumulative_sum",
    "derivative",
    "difference",
    "distinct",
    "elapsed",
    "first",
    "integral",
    "last",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "moving_average",
    "non_negative_derivative",
    "non_negative_difference",
    "percentile",
    "spread",
    "stddev",
    "sum",
    "top",
];

/// Default unit of rates and areas, ns.
const SECOND: i64 = 1_000_000_000;

/// Returns whether a name is that of an aggregate or a transformation.
pub fn is_over_rows(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns whether a function takes fields of any type.
pub fn takes_any_type(name: &str) -> bool {
    matches!(
        name,
        "count" | "first" | "last" | "mode" | "distinct" | "elapsed" | "max" | "min"
    )
}

/// Returns the function of a call. `unit` is the default unit of a transformation, ns.
///
/// # Errors
/// If there is none of this name, or the parameters are wrong.
pub fn function(
    name: &str,
    arguments: &[Expression],
    default_unit: Option<i64>,
) -> Result<Function, Error> {
    let parameter = arguments.get(1);
    if let Some(transform) = transform(name, parameter, default_unit)? {
        return Ok(Function::Transform(transform));
    }
    let is_distinct =
        matches!(arguments.first(), Some(Expression::Call(inner, _)) if inner == "distinct");
    let aggregate = match name {
        "count" if is_distinct => Aggregate::CountDistinct,
        "count" => Aggregate::Count,
        "distinct" => Aggregate::Distinct,
        "integral" => Aggregate::Integral(duration(name, parameter)?.unwrap_or(SECOND)),
        "mean" => Aggregate::Mean,
        "median" => Aggregate::Median,
        "mode" => Aggregate::Mode,
        "spread" => Aggregate::Spread,
        "stddev" => Aggregate::Deviation,
        "sum" => Aggregate::Sum,
        "first" => Aggregate::First,
        "last" => Aggregate::Last,
        "max" => Aggregate::Max,
        "min" => Aggregate::Min,
        "bottom" => Aggregate::Bottom(count(name, arguments.last())?),
        "top" => Aggregate::Top(count(name, arguments.last())?),
        "percentile" => Aggregate::Percentile(percentage(parameter)?),
        _ => return Err(undefined(name)),
    };
    let most = match aggregate {
        Aggregate::Bottom(_) | Aggregate::Top(_) => usize::MAX,
        Aggregate::Percentile(_) | Aggregate::Integral(_) => 2,
        _ => 1,
    };
    check_count(name, arguments, most)?;
    Ok(Function::Aggregate(aggregate))
}

fn transform(
    name: &str,
    parameter: Option<&Expression>,
    default_unit: Option<i64>,
) -> Result<Option<Transform>, Error> {
    let unit = |default: i64| duration(name, parameter).map(|given| given.unwrap_or(default));
    let rate_unit = default_unit.unwrap_or(SECOND);
    Ok(Some(match name {
        "derivative" => Transform::Derivative {
            unit: unit(rate_unit)?,
            non_negative: false,
        },
        "non_negative_derivative" => Transform::Derivative {
            unit: unit(rate_unit)?,
            non_negative: true,
        },
        "difference" => Transform::Difference {
            non_negative: false,
        },
        "non_negative_difference" => Transform::Difference { non_negative: true },
        "cumulative_sum" => Transform::CumulativeSum,
        "elapsed" => Transform::Elapsed(unit(1)?),
        "moving_average" => match count(name, parameter)? {
            1 => return Err(Error::invalid("moving_average needs a window of 2 or more")),
            window => Transform::MovingAverage(window),
        },
        _ => return Ok(None),
    }))
}

fn check_count(name: &str, arguments: &[Expression], most: usize) -> Result<(), Error> {
    match arguments.is_empty() || arguments.len() > most {
        true => Err(Error::invalid(format!(
            "invalid number of arguments for {name}, expected {most}, got {}",
            arguments.len()
        ))),
        false => Ok(()),
    }
}

fn undefined(name: &str) -> Error {
    let names: Vec<&str> = NAMES.into_iter().chain(math_names()).collect();
    Error::invalid(format!(
        "undefined function {name}(); there are {}",
        names.join(", ")
    ))
}

fn duration(name: &str, parameter: Option<&Expression>) -> Result<Option<i64>, Error> {
    match parameter {
        None => Ok(None),
        Some(Expression::Duration(ns)) if *ns > 0 => Ok(Some(*ns)),
        Some(_) => Err(Error::invalid(format!(
            "the second argument of {name} is a duration such as 10s"
        ))),
    }
}

fn count(name: &str, parameter: Option<&Expression>) -> Result<usize, Error> {
    let whole = match parameter {
        Some(Expression::Constant(cell)) => cell.whole(),
        _ => None,
    };
    let count = whole.and_then(|whole| usize::try_from(whole).ok());
    count
        .filter(|count| (1..=1_000_000).contains(count))
        .ok_or_else(|| {
            Error::invalid(format!(
                "the last argument of {name} is a number from 1 to 1000000"
            ))
        })
}

fn percentage(parameter: Option<&Expression>) -> Result<f64, Error> {
    let number = match parameter {
        Some(Expression::Constant(cell)) => Cell::number(cell),
        _ => None,
    };
    number
        .ok_or_else(|| Error::invalid("the second argument of percentile is a number, in percent"))
}
