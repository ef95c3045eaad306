//! Aggregation of series into groups.

pub mod choose;
mod count_values;
mod reduce;

pub use count_values::count_values;
pub use reduce::{Reducer, quantiles};

use crate::labels::{Labels, METRIC_NAME};
use std::collections::HashMap;
use std::sync::Arc;

/// Labels by which series are grouped.
#[derive(Clone, Debug)]
pub struct Grouping {
    without: bool,
    labels: Vec<Arc<str>>,
}

impl Grouping {
    /// Creates a grouping by some labels, or by all labels but some.
    pub fn new(without: bool, labels: &[Arc<str>]) -> Grouping {
        let mut labels = labels.to_vec();
        if without {
            labels.push(METRIC_NAME.into());
        }
        Grouping { without, labels }
    }

    /// Returns the labels of the group of a series.
    pub fn of(&self, labels: &Labels) -> Labels {
        match self.without {
            true => labels.without(&self.labels),
            false if self.labels.is_empty() => Labels::new(),
            false => labels.only(&self.labels),
        }
    }
}

/// Groups in the order in which they were found.
#[derive(Debug)]
pub struct Groups<G> {
    grouping: Grouping,
    places: HashMap<Labels, usize>,
    /// Labels and contents.
    pub groups: Vec<(Labels, G)>,
}

impl<G> Groups<G> {
    /// Creates no groups.
    pub fn new(grouping: Grouping) -> Groups<G> {
        Groups {
            grouping,
            places: HashMap::new(),
            groups: Vec::new(),
        }
    }

    /// Returns the group of a series, which is created if it is new.
    pub fn of<E>(
        &mut self,
        labels: &Labels,
        create: impl FnOnce() -> Result<G, E>,
    ) -> Result<&mut G, E> {
        let labels = self.grouping.of(labels);
        let place = match self.places.get(&labels) {
            Some(place) => *place,
            None => {
                self.groups.push((labels.clone(), create()?));
                self.places.insert(labels, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        Ok(&mut self.groups[place].1)
    }
}
