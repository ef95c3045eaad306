//! Functions: their names, and what computes them.

pub mod counter;
pub mod date;
pub mod elementwise;
pub mod histogram;
pub mod order;
pub mod over_time;
pub mod regression;
pub mod relabel;
pub mod samples;
pub mod window;

use crate::kind::Kind;
use window::WindowFunction;

/// Function of an expression.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are those of PromQL")]
pub enum Function {
    Time,
    Pi,
    QueryStart,
    QueryEnd,
    QueryRange,
    QueryStep,
    Scalar,
    Vector,
    /// Function of one value.
    Map(fn(f64) -> f64),
    Clamp,
    ClampMin,
    ClampMax,
    Round,
    /// Function of a time in seconds.
    Date(fn(i64) -> f64),
    Timestamp,
    /// Function of the samples of a range.
    Window(WindowFunction),
    Absent,
    AbsentOverTime,
    HistogramQuantile,
    HistogramFraction,
    /// Function of native histograms, which no store contains. The result is empty.
    NativeHistogram,
    LabelReplace,
    LabelJoin,
    Sort {
        descending: bool,
    },
    SortByLabel {
        descending: bool,
    },
}

impl Function {
    /// Returns the type of the value.
    pub fn kind(self) -> Kind {
        match self {
            Function::Time
            | Function::Pi
            | Function::QueryStart
            | Function::QueryEnd
            | Function::QueryRange
            | Function::QueryStep
            | Function::Scalar => Kind::Scalar,
            _ => Kind::Vector,
        }
    }
}

/// Returns the function of a name. `None` if there is none, or it is not supported.
pub fn find(name: &str) -> Option<Function> {
    if let Some(function) = window::find(name) {
        return Some(Function::Window(function));
    }
    if let Some(map) = elementwise::find(name) {
        return Some(Function::Map(map));
    }
    if let Some(date) = date::find(name) {
        return Some(Function::Date(date));
    }
    Some(match name {
        "time" => Function::Time,
        "pi" => Function::Pi,
        "start" => Function::QueryStart,
        "end" => Function::QueryEnd,
        "range" => Function::QueryRange,
        "step" => Function::QueryStep,
        "scalar" => Function::Scalar,
        "vector" => Function::Vector,
        "clamp" => Function::Clamp,
        "clamp_min" => Function::ClampMin,
        "clamp_max" => Function::ClampMax,
        "round" => Function::Round,
        "timestamp" => Function::Timestamp,
        "absent" => Function::Absent,
        "absent_over_time" => Function::AbsentOverTime,
        "histogram_quantile" => Function::HistogramQuantile,
        "histogram_fraction" => Function::HistogramFraction,
        "histogram_avg" | "histogram_count" | "histogram_stddev" | "histogram_stdvar"
        | "histogram_sum" => Function::NativeHistogram,
        "label_replace" => Function::LabelReplace,
        "label_join" => Function::LabelJoin,
        "sort" => Function::Sort { descending: false },
        "sort_desc" => Function::Sort { descending: true },
        "sort_by_label" => Function::SortByLabel { descending: false },
        "sort_by_label_desc" => Function::SortByLabel { descending: true },
        _ => return None,
    })
}
