//! Evaluation of one series, sample by sample.

use crate::error::Error;
use crate::series::Values;

/// Evaluation of one series. It receives the samples in their order, and keeps only what later steps need.
pub trait Run: Send {
    /// Adds samples, which are later than all before.
    fn push(&mut self, times: &[i64], values: &[f64]) -> Result<(), Error>;

    /// Returns the values of all steps.
    fn finish(self) -> Result<Values, Error>;
}
