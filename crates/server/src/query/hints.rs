//! Notes for clients: names that do not exist, and intervals that have samples.

use super::plan::QueryPlan;
use crate::nearest::nearest;

use seiner_model::{Condition, Interval, Selector, rfc3339};
use seiner_store::{Query, Store};

/// Maximum numbers of sources whose time range is determined, and of values of a tag that are compared, to limit the
/// cost.
const SOURCES: usize = 16;
const VALUES: usize = 10_000;

/// Returns notes on names in a query that no source has. Empty if all names exist.
pub fn unknown_names(store: &dyn Store, query: &Query) -> Vec<String> {
    if store
        .sources(&query.selector)
        .unwrap_or_default()
        .is_empty()
    {
        return unknown_selector(store, &query.selector)
            .into_iter()
            .collect();
    }
    let Some(wanted) = &query.fields else {
        return Vec::new();
    };
    let known = store.fields(&query.selector).unwrap_or_default();
    let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    wanted
        .iter()
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| sentence("field", name, &known))
        .collect()
}

/// Returns the first unknown name of a selector without sources.
fn unknown_selector(store: &dyn Store, selector: &Selector) -> Option<String> {
    if let Some(name) = &selector.measurement {
        let known = store.measurements().ok()?;
        if !known.contains(name) {
            return Some(sentence("measurement", name, &texts(&known)));
        }
    }
    let measurement = Selector {
        measurement: selector.measurement.clone(),
        matchers: Vec::new(),
    };
    let tags = store.tag_names(&measurement).ok()?;
    for matcher in &selector.matchers {
        // In the selector, a source without the tag counts as empty: other conditions may match it.
        if let Condition::Is(value) = &matcher.condition
            && !value.is_empty()
        {
            if !tags.contains(&matcher.tag) {
                return Some(sentence("tag", &matcher.tag, &texts(&tags)));
            }
            let values = store.tag_values(&measurement, &matcher.tag, VALUES).ok()?;
            if !values.contains(value) && values.len() < VALUES {
                let what = format!("value of tag {:?}", matcher.tag);
                return Some(sentence(&what, value, &texts(&values)));
            }
        }
    }
    Some("no source matches the selector; leave out a condition".to_string())
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn sentence(what: &str, name: &str, known: &[&str]) -> String {
    const LISTED: usize = 10;
    if let Some(near) = nearest(name, known.iter().copied()) {
        return format!("there is no {what} {name:?}; did you mean {near:?}?");
    }
    let more = match known.len() {
        0 => return format!("there is no {what} {name:?}, and there is no other"),
        many if many > LISTED => ", …",
        _ => "",
    };
    let listed = known[..known.len().min(LISTED)].join(", ");
    format!("there is no {what} {name:?}; there are {listed}{more}")
}

/// Returns the time range of the samples of a query whose interval has none: a note, and the first and last time.
pub fn elsewhere(store: &dyn Store, plan: &QueryPlan) -> Option<(String, Interval)> {
    let everywhere = Query {
        interval: Interval::ALL,
        ..plan.query.clone()
    };
    let range = store.time_range(&everywhere, SOURCES)?;
    let sentence = format!(
        "no samples in this interval; there are samples from {} to {}",
        rfc3339(range.start),
        rfc3339(range.end),
    );
    Some((sentence, range))
}
