//! Set operators of two vectors: `and`, `or`, `unless`.

use super::signature;
use crate::budget::{Budget, Hold, SERIES};
use crate::error::Error;
use crate::labels::Labels;
use crate::plan::{Matching, Set};
use crate::series::{ABSENT, Series, is_absent};
use std::collections::HashMap;
use std::sync::Arc;

/// Computes a set operator, step by step.
pub fn sets(
    budget: &Arc<Budget>,
    operator: Set,
    matching: &Matching,
    mut left: Vec<Series>,
    mut right: Vec<Series>,
) -> Result<Vec<Series>, Error> {
    let mut hold = Hold::new(budget, 0)?;
    match operator {
        Set::And => {
            let present = presence(matching, &right, &mut hold)?;
            keep(matching, &present, &mut left, true);
        }
        Set::Unless => {
            let present = presence(matching, &right, &mut hold)?;
            keep(matching, &present, &mut left, false);
        }
        Set::Or => {
            let present = presence(matching, &left, &mut hold)?;
            keep(matching, &present, &mut right, false);
            left.append(&mut right);
        }
    }
    left.retain(|series| !series.values.is_all_absent());
    Ok(left)
}

/// Returns the steps at which some series of a signature has a value.
fn presence(
    matching: &Matching,
    series: &[Series],
    hold: &mut Hold,
) -> Result<HashMap<Labels, Vec<bool>>, Error> {
    let mut present: HashMap<Labels, Vec<bool>> = HashMap::new();
    for one in series {
        let labels = signature(matching, &one.labels);
        if !present.contains_key(&labels) {
            hold.grow(SERIES + labels.bytes() + one.values.len())?;
        }
        let steps = present.entry(labels).or_default();
        steps.resize(one.values.len(), false);
        for (step, value) in steps.iter_mut().zip(one.values.iter()) {
            *step |= !is_absent(*value);
        }
    }
    Ok(present)
}

/// Keeps the values at steps at which the other side has its signature, or those at which it has not.
fn keep(
    matching: &Matching,
    present: &HashMap<Labels, Vec<bool>>,
    series: &mut [Series],
    wanted: bool,
) {
    for one in series {
        let steps = present.get(&signature(matching, &one.labels));
        for (at, value) in one.values.iter_mut().enumerate() {
            if steps.is_some_and(|steps| steps[at]) != wanted {
                *value = ABSENT;
            }
        }
    }
}
