//! Functions of the samples within a range.

use super::samples::Compute;
use super::{counter, over_time, regression};

/// Function of the samples within a range.
#[derive(Clone, Copy, Debug)]
pub struct WindowFunction {
    /// Name.
    pub name: &'static str,
    /// Computation.
    pub compute: Compute,
}

impl WindowFunction {
    /// Returns whether the result keeps the name of the metric.
    pub fn keeps_name(&self) -> bool {
        matches!(self.name, "last_over_time" | "first_over_time")
    }

    /// Returns whether the function expects a counter.
    pub fn expects_counter(&self) -> bool {
        matches!(self.name, "rate" | "increase")
    }
}

const FUNCTIONS: [(&str, Compute); 27] = [
    ("rate", counter::rate),
    ("increase", counter::increase),
    ("delta", counter::delta),
    ("irate", counter::irate),
    ("idelta", counter::idelta),
    ("resets", counter::resets),
    ("changes", counter::changes),
    ("deriv", regression::deriv),
    ("predict_linear", regression::predict_linear),
    (
        "double_exponential_smoothing",
        regression::double_exponential_smoothing,
    ),
    ("holt_winters", regression::double_exponential_smoothing),
    ("avg_over_time", over_time::avg),
    ("sum_over_time", over_time::sum),
    ("count_over_time", over_time::count),
    ("min_over_time", over_time::min),
    ("max_over_time", over_time::max),
    ("first_over_time", over_time::first),
    ("last_over_time", over_time::last),
    ("present_over_time", over_time::present),
    ("quantile_over_time", over_time::quantile_over_time),
    ("stddev_over_time", over_time::stddev),
    ("stdvar_over_time", over_time::stdvar),
    ("mad_over_time", over_time::mad),
    ("ts_of_first_over_time", over_time::time_of_first),
    ("ts_of_last_over_time", over_time::time_of_last),
    ("ts_of_min_over_time", over_time::time_of_min),
    ("ts_of_max_over_time", over_time::time_of_max),
];

/// Returns the function of a name.
pub fn find(name: &str) -> Option<WindowFunction> {
    let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
    found.map(|&(name, compute)| WindowFunction { name, compute })
}
