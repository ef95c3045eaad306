//! Results of queries.

use crate::labels::Labels;
use crate::series::{Series, Steps};

/// Result of a query.
#[derive(Debug)]
pub struct Answer {
    /// Result.
    pub data: Data,
    /// Reasons why the result may be incomplete or meaningless.
    pub warnings: Vec<String>,
    /// Hints about the query.
    pub infos: Vec<String>,
}

/// Value of a query.
#[derive(Debug)]
pub enum Data {
    /// Number at a time, ns.
    Scalar(i64, f64),
    /// Text at a time, ns.
    Text(i64, String),
    /// Series with one value each, at a time, ns.
    Vector(i64, Vec<(Labels, f64)>),
    /// Series with the values of steps.
    Matrix(Steps, Vec<Series>),
    /// Series with the samples of a range.
    Samples(Vec<Raw>),
}

/// Samples of a series.
#[derive(Debug)]
pub struct Raw {
    /// Labels.
    pub labels: Labels,
    /// Times, ns.
    pub times: Vec<i64>,
    /// Values.
    pub values: Vec<f64>,
}
