//! Arithmetic and comparison of two vectors: pairs of series by their labels.

use super::{evaluate, signature};
use crate::budget::{Budget, Hold, SERIES};
use crate::error::Error;
use crate::labels::Labels;
use crate::plan::{Binary, Matching, Operator, Side};
use crate::series::{ABSENT, Series, Steps, Values, is_absent};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Series of both sides with the same signature.
#[derive(Default)]
struct Group {
    /// Side that may have several series for one of the other.
    many: Vec<usize>,
    one: Vec<usize>,
}

/// Evaluation of an operator. The side `one` has at most one series of a signature at each step.
struct Pairing<'a> {
    budget: &'a Arc<Budget>,
    steps: Steps,
    binary: &'a Binary,
    delayed: bool,
    many: &'a [Series],
    one: &'a [Series],
    results: Vec<Series>,
    places: HashMap<Labels, usize>,
}

/// Computes an arithmetic operator or a comparison of two vectors. With `delayed`, names are dropped at the end of the
/// query.
pub fn vectors(
    budget: &Arc<Budget>,
    steps: Steps,
    binary: &Binary,
    delayed: bool,
    left: &[Series],
    right: &[Series],
) -> Result<Vec<Series>, Error> {
    let swapped = binary.matching.many == Some(Side::Right);
    let (many, one) = if swapped {
        (right, left)
    } else {
        (left, right)
    };
    let mut pairing = Pairing {
        budget,
        steps,
        binary,
        delayed,
        many,
        one,
        results: Vec::new(),
        places: HashMap::new(),
    };
    let mut hold = Hold::new(budget, 0)?;
    let (signatures, groups) = groups(&binary.matching, many, one, &mut hold)?;
    // A step without any value on one side has no result, and no error either.
    let (any_many, any_one) = (any(steps, many), any(steps, one));
    let fill = binary.matching.fill.iter().any(Option::is_some);
    for (signature, group) in signatures.iter().zip(&groups) {
        budget.check()?;
        if let ([many], [one], false) = (&group.many[..], &group.one[..], fill) {
            pairing.single(signature, *many, *one)?;
            continue;
        }
        for at in 0..steps.count {
            if fill || any_many[at] && any_one[at] {
                pairing.step(at, signature, group)?;
            }
        }
    }
    pairing
        .results
        .retain(|series| !series.values.is_all_absent());
    Ok(pairing.results)
}

fn groups(
    matching: &Matching,
    many: &[Series],
    one: &[Series],
    hold: &mut Hold,
) -> Result<(Vec<Labels>, Vec<Group>), Error> {
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let (mut signatures, mut groups): (Vec<Labels>, Vec<Group>) = (Vec::new(), Vec::new());
    for (is_one, series) in [(false, many), (true, one)] {
        for (at, series) in series.iter().enumerate() {
            let labels = signature(matching, &series.labels);
            let place = match places.get(&labels) {
                Some(place) => *place,
                None => {
                    hold.grow(SERIES + labels.bytes())?;
                    places.insert(labels.clone(), groups.len());
                    signatures.push(labels);
                    groups.push(Group::default());
                    groups.len() - 1
                }
            };
            match is_one {
                true => groups[place].one.push(at),
                false => groups[place].many.push(at),
            }
        }
    }
    Ok((signatures, groups))
}

/// Returns the steps at which some series has a value.
fn any(steps: Steps, series: &[Series]) -> Vec<bool> {
    let mut any = vec![false; steps.count];
    for series in series {
        for (any, value) in any.iter_mut().zip(series.values.iter()) {
            *any |= !is_absent(*value);
        }
    }
    any
}

impl Pairing<'_> {
    /// Computes all steps of a signature with one series on each side, whose labels are the same at all steps.
    fn single(&mut self, signature: &Labels, many: usize, one: usize) -> Result<(), Error> {
        let labels = self.labels(signature, Some(many), Some(one));
        let pairs = self.many[many]
            .values
            .iter()
            .zip(self.one[one].values.iter());
        for (at, (&many, &one)) in pairs.enumerate() {
            if !is_absent(many)
                && !is_absent(one)
                && let Some(result) = self.result(many, one)
            {
                self.put(at, &labels, result)?;
            }
        }
        Ok(())
    }

    /// Returns the result of a pair; `None` if a comparison does not hold.
    fn result(&self, many: f64, one: f64) -> Option<f64> {
        let (left, right) = match self.binary.matching.many {
            Some(Side::Right) => (one, many),
            _ => (many, one),
        };
        let result = evaluate(self.binary.operator, left, right);
        match self.binary.returns_bool {
            true => Some(f64::from(u8::from(result.is_some()))),
            false => result,
        }
    }

    fn step(&mut self, at: usize, signature: &Labels, group: &Group) -> Result<(), Error> {
        let is_many = |series: &&usize| !is_absent(self.many[**series].values[at]);
        let many: Vec<usize> = group.many.iter().filter(is_many).copied().collect();
        let mut ones = group
            .one
            .iter()
            .filter(|series| !is_absent(self.one[**series].values[at]))
            .copied();
        let one = ones.next();
        if let (Some(first), Some(second)) = (one, ones.next()) {
            return Err(self.duplicate(signature, second, first));
        }
        if many.is_empty() && one.is_none() {
            return Ok(());
        }
        let [fill_many, fill_one] = self.fills();
        if many.is_empty() {
            return match (one, fill_many) {
                (Some(one), Some(value)) => self.pair(
                    at,
                    signature,
                    (None, value),
                    (Some(one), self.one[one].values[at]),
                    &mut None,
                ),
                _ => Ok(()),
            };
        }
        let Some(other) = one.map(|one| self.one[one].values[at]).or(fill_one) else {
            return Ok(());
        };
        let mut seen = None;
        for series in many {
            let value = self.many[series].values[at];
            self.pair(
                at,
                signature,
                (Some(series), value),
                (one, other),
                &mut seen,
            )?;
        }
        Ok(())
    }

    /// Returns the values for absent series of the sides `many` and `one`.
    fn fills(&self) -> [Option<f64>; 2] {
        let [left, right] = self.binary.matching.fill;
        match self.binary.matching.many {
            Some(Side::Right) => [right, left],
            _ => [left, right],
        }
    }

    /// Adds the result of a pair. `seen` has the labels of earlier results of the signature at this step.
    fn pair(
        &mut self,
        at: usize,
        signature: &Labels,
        (many, many_value): (Option<usize>, f64),
        (one, one_value): (Option<usize>, f64),
        seen: &mut Option<BTreeSet<Labels>>,
    ) -> Result<(), Error> {
        let matching = &self.binary.matching;
        let Some(result) = self.result(many_value, one_value) else {
            return Ok(());
        };
        let labels = self.labels(signature, many, one);
        let is_first = seen.is_none();
        let is_new = seen.get_or_insert_default().insert(labels.clone());
        match matching.many {
            None if !is_first => {
                return Err(Error::execution(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                ));
            }
            Some(_) if !is_new => {
                return Err(Error::execution(
                    "multiple matches for labels: grouping labels must ensure unique matches",
                ));
            }
            _ => {}
        }
        self.put(at, &labels, result)
    }

    fn put(&mut self, at: usize, labels: &Labels, result: f64) -> Result<(), Error> {
        let place = match self.places.get(labels) {
            Some(place) => *place,
            None => {
                self.places.insert(labels.clone(), self.results.len());
                let mut values = Values::filled(self.budget, self.steps.count, ABSENT)?;
                values.hold_labels(labels)?;
                self.results.push(Series {
                    labels: labels.clone(),
                    drop_name: self.binary.returns_bool,
                    values,
                });
                self.results.len() - 1
            }
        };
        let value = &mut self.results[place].values[at];
        match is_absent(*value) {
            true => *value = result,
            false => return Err(Error::same_labels()),
        }
        Ok(())
    }

    /// Returns the labels of the result of a pair. A side that is filled has the labels of the signature.
    fn labels(&self, signature: &Labels, many: Option<usize>, one: Option<usize>) -> Labels {
        let matching = &self.binary.matching;
        let mut labels =
            many.map_or_else(|| signature.clone(), |many| self.many[many].labels.clone());
        let drops_now = self.binary.returns_bool && !self.delayed;
        if matches!(self.binary.operator, Operator::Arithmetic(_)) || drops_now {
            labels.remove_metadata();
        }
        if matching.many.is_none() {
            labels = match matching.on {
                true => labels.only(&matching.labels),
                false => labels.without(&matching.labels),
            };
        }
        for name in &matching.include {
            let value = one.map_or(signature.get(name), |one| self.one[one].labels.get(name));
            labels.set(name.clone(), value.to_string());
        }
        labels
    }

    fn duplicate(&self, signature: &Labels, first: usize, second: usize) -> Error {
        let side = match self.binary.matching.many {
            Some(Side::Right) => "left",
            _ => "right",
        };
        Error::execution(format!(
            "found duplicate series for the match group {signature} on the {side} hand-side of the operation: [{}, \
             {}];many-to-many matching not allowed: matching labels must be unique on one side",
            self.one[first].labels, self.one[second].labels
        ))
    }
}
