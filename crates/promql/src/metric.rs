//! Names of metrics: the rule that maps measurements and fields to them.
//!
//! The field `value` of a measurement `M` is the metric `M`. Any other field `F` is the metric `M_F`. Tags are labels.
//! Fields of text are not visible. A tag named `__name__` is hidden by the name of the metric.

use crate::error::Error;
use crate::labels::METRIC_NAME;
use crate::plan::Matcher;
use seiner_model::{Condition, FieldType, Selector};
use seiner_store::Store;
use std::sync::Arc;

/// Field whose metric has the name of its measurement.
pub const VALUE: &str = "value";

/// Bytes of a field besides its names.
const NAME_BYTES: usize = 64;

/// Fields of a measurement that a query reads.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Selector of the sources.
    pub selector: Selector,
    /// Fields, with the names of their metrics.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}

impl Pick {
    /// Returns the bytes of memory of the names.
    pub fn bytes(&self) -> usize {
        let names = self.fields.iter();
        let names = names.map(|(field, metric)| NAME_BYTES + field.len() + metric.len());
        names.sum::<usize>() + size_of::<Pick>()
    }
}

/// Returns the name of the metric of a field.
pub fn name(measurement: &str, field: &str) -> String {
    match field {
        VALUE => measurement.to_string(),
        _ => format!("{measurement}_{field}"),
    }
}

/// Returns the measurements and fields that the matchers select.
pub fn picks(store: &dyn Store, matchers: &[Matcher]) -> Result<Vec<Pick>, Error> {
    let (of_name, of_tags): (Vec<&Matcher>, Vec<&Matcher>) = matchers
        .iter()
        .partition(|matcher| &*matcher.label == METRIC_NAME);
    let tags: Vec<seiner_model::Matcher> = of_tags
        .into_iter()
        .map(|matcher| seiner_model::Matcher {
            tag: matcher.label.to_string(),
            condition: matcher.condition.clone(),
        })
        .collect();
    let exact = of_name.iter().find_map(|matcher| match &matcher.condition {
        Condition::Is(name) => Some(name.as_str()),
        _ => None,
    });
    let measurements = match exact {
        Some(name) => candidates(name),
        None => store.measurements()?,
    };
    let mut picks = Vec::new();
    for measurement in measurements {
        let selector = Selector {
            measurement: Some(measurement.clone()),
            matchers: tags.clone(),
        };
        let mut fields = Vec::new();
        for (field, field_type) in store.fields(&selector)? {
            let metric = name(&measurement, &field);
            let holds = of_name
                .iter()
                .all(|matcher| matcher.condition.holds(&metric));
            if field_type != FieldType::Str && holds {
                fields.push((field.into(), metric.into()));
            }
        }
        if !fields.is_empty() {
            picks.push(Pick { selector, fields });
        }
    }
    Ok(picks)
}

/// Returns the measurements that may have a field with this name of a metric.
fn candidates(name: &str) -> Vec<String> {
    let splits = name.match_indices('_').map(|(at, _)| &name[..at]);
    let measurements = splits
        .filter(|measurement| !measurement.is_empty())
        .chain([name]);
    measurements
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .collect()
}

/// Returns the name of a metric that two fields have, if there is one. Their series may have equal labels.
pub fn ambiguous(picks: &[Pick]) -> Option<Arc<str>> {
    let mut names: Vec<&Arc<str>> = picks
        .iter()
        .flat_map(|pick| &pick.fields)
        .map(|(_, metric)| metric)
        .collect();
    names.sort();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_join_measurement_and_field() {
        assert_eq!(name("cpu", "usage"), "cpu_usage");
        assert_eq!(name("up", "value"), "up");
        assert_eq!(candidates("a_b_c"), ["a", "a_b", "a_b_c"]);
        assert_eq!(candidates("_x"), ["_x"]);
    }
}
