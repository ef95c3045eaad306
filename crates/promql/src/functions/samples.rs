//! Samples of a range, as the arguments of functions.

use crate::error::Error;

/// Samples of one series within the range of one step.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Times, ns, ascending, at least one.
    pub times: &'a [i64],
    /// Values.
    pub values: &'a [f64],
    /// Exclusive begin of the range, ns.
    pub start: i64,
    /// Inclusive end of the range, ns.
    pub end: i64,
    /// Time of the step, ns. It differs from `end` with `offset` and `@`.
    pub now: i64,
}

/// Computation of one value from a window and the scalar arguments of the function. `None` omits the step.
pub type Compute = fn(Window<'_>, &[f64]) -> Result<Option<f64>, Error>;
