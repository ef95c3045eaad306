//! Operators with two operands.

mod arithmetic;
mod matching;
mod set;

pub use arithmetic::{evaluate, of_scalars, with_scalar};
pub use matching::vectors;
pub use set::sets;

use crate::labels::{Labels, METRIC_NAME};
use crate::plan::Matching;

/// Returns the labels by which the series of two vectors are paired.
fn signature(matching: &Matching, labels: &Labels) -> Labels {
    match matching.on {
        true => labels.only(&matching.labels),
        false => {
            let mut rest = labels.without(&matching.labels);
            rest.remove(METRIC_NAME);
            rest
        }
    }
}
