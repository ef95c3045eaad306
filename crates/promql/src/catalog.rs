//! Names of series, labels and metrics.

use crate::error::Error;
use crate::labels::{LabelTexts, Labels, METRIC_NAME};
use crate::metric::{self, Pick};
use crate::plan::Matcher;
use seiner_model::{FieldType, Interval, Selector};
use seiner_store::{Query, Step, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of sources whose times are compared with the interval of a request for names.
const MAX_LOOKED_AT: usize = 100_000;

/// Metric of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: String,
    /// True if the field is a boolean.
    pub is_bool: bool,
}

/// Returns all metrics, sorted by name.
///
/// # Errors
/// If the names cannot be read.
pub fn metrics(store: &dyn Store) -> Result<Vec<Metric>, Error> {
    let mut found = BTreeMap::new();
    for measurement in store.measurements()? {
        let selector = Selector {
            measurement: Some(measurement.clone()),
            matchers: Vec::new(),
        };
        for (field, field_type) in store.fields(&selector)? {
            if field_type != FieldType::Str {
                found.insert(
                    metric::name(&measurement, &field),
                    field_type == FieldType::Bool,
                );
            }
        }
    }
    Ok(found
        .into_iter()
        .map(|(name, is_bool)| Metric { name, is_bool })
        .collect())
}

/// Returns the labels of up to `limit` series that one of the selectors matches. With an interval, only series with
/// samples in it.
///
/// # Errors
/// If the names or the blocks of the store cannot be read.
pub fn series(
    store: &dyn Store,
    selectors: &[Vec<Matcher>],
    interval: Option<Interval>,
    limit: usize,
) -> Result<Vec<Labels>, Error> {
    let mut found = BTreeSet::new();
    for pick in picks(store, selectors)? {
        match interval {
            Some(interval) => with_samples(store, &pick, interval, limit, &mut found)?,
            None => registered(store, &pick, limit, &mut found)?,
        }
    }
    Ok(found.into_iter().take(limit).collect())
}

/// Returns the picks of all selectors, or of all series if there are no selectors.
fn picks(store: &dyn Store, selectors: &[Vec<Matcher>]) -> Result<Vec<Pick>, Error> {
    if selectors.is_empty() {
        return metric::picks(store, &[]);
    }
    let mut all = Vec::new();
    for matchers in selectors {
        all.extend(metric::picks(store, matchers)?);
    }
    Ok(all)
}

fn with_samples(
    store: &dyn Store,
    pick: &Pick,
    interval: Interval,
    limit: usize,
    found: &mut BTreeSet<Labels>,
) -> Result<(), Error> {
    let query = Query {
        selector: pick.selector.clone(),
        fields: Some(
            pick.fields
                .iter()
                .map(|(field, _)| field.to_string())
                .collect(),
        ),
        interval,
    };
    let mut texts = LabelTexts::new();
    for summary in store.aggregate(&query, Step::Whole, None)? {
        let summary = match summary {
            Ok(summary) => summary,
            // The names of other series are valid.
            Err(seiner_store::Error::Damage { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let metric = pick
            .fields
            .iter()
            .find(|(field, _)| *field == summary.field);
        if let Some((_, metric)) = metric {
            found.insert(texts.labels(&summary.key, metric.clone()));
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok(())
}

fn registered(
    store: &dyn Store,
    pick: &Pick,
    limit: usize,
    found: &mut BTreeSet<Labels>,
) -> Result<(), Error> {
    let mut texts = LabelTexts::new();
    for source in store.sources(&pick.selector)? {
        if found.len() >= limit {
            break;
        }
        if let Some(key) = store.source_key(source)? {
            let metrics = pick.fields.iter().map(|(_, metric)| metric.clone());
            found.extend(metrics.map(|metric| texts.labels(&key, metric)));
        }
    }
    Ok(())
}

/// Returns the names of the labels of the selected series, sorted. With an interval, series are omitted that are known
/// to have no samples in it.
///
/// # Errors
/// If the names cannot be read.
pub fn label_names(
    store: &dyn Store,
    selectors: &[Vec<Matcher>],
    interval: Option<Interval>,
) -> Result<Vec<String>, Error> {
    let mut names = BTreeSet::new();
    if let Some(interval) = looked_at(store, selectors, interval)? {
        for pick in picks(store, selectors)? {
            for source in store.sources_within(&pick.selector, interval)? {
                names.insert(METRIC_NAME.to_string());
                let key = store.source_key(source)?;
                let tags = key.iter().flat_map(|key| key.tags());
                names.extend(tags.map(|(name, _)| name.to_string()));
            }
        }
        return Ok(names.into_iter().collect());
    }
    if selectors.is_empty() {
        names.extend(store.tag_names(&Selector::all())?);
        if !store.measurements()?.is_empty() {
            names.insert(METRIC_NAME.to_string());
        }
        return Ok(names.into_iter().collect());
    }
    for pick in picks(store, selectors)? {
        names.insert(METRIC_NAME.to_string());
        names.extend(store.tag_names(&pick.selector)?);
    }
    Ok(names.into_iter().collect())
}

/// Returns up to `limit` values of a label among the selected series, sorted. With an interval, series are omitted that
/// are known to have no samples in it.
///
/// # Errors
/// If the names cannot be read.
pub fn label_values(
    store: &dyn Store,
    selectors: &[Vec<Matcher>],
    interval: Option<Interval>,
    label: &str,
    limit: usize,
) -> Result<Vec<String>, Error> {
    let mut values = BTreeSet::new();
    let within = looked_at(store, selectors, interval)?;
    if label != METRIC_NAME && selectors.is_empty() && within.is_none() {
        return Ok(store.tag_values(&Selector::all(), label, limit)?);
    }
    for pick in picks(store, selectors)? {
        let metrics = pick.fields.iter().map(|(_, metric)| metric.to_string());
        match (label, within) {
            (METRIC_NAME, None) => values.extend(metrics),
            (METRIC_NAME, Some(interval)) => {
                if !store.sources_within(&pick.selector, interval)?.is_empty() {
                    values.extend(metrics);
                }
            }
            (label, None) => values.extend(store.tag_values(&pick.selector, label, limit)?),
            (label, Some(interval)) => {
                for source in store.sources_within(&pick.selector, interval)? {
                    let key = store.source_key(source)?;
                    let value = key.as_ref().map_or("", |key| key.tag(label));
                    if !value.is_empty() && !values.contains(value) {
                        values.insert(value.to_string());
                    }
                }
            }
        }
    }
    Ok(values.into_iter().take(limit).collect())
}

/// Returns the interval, unless so many sources are selected that a look at each of them would take too long.
fn looked_at(
    store: &dyn Store,
    selectors: &[Vec<Matcher>],
    interval: Option<Interval>,
) -> Result<Option<Interval>, Error> {
    let Some(interval) = interval.filter(|interval| *interval != Interval::ALL) else {
        return Ok(None);
    };
    let mut sources = 0;
    for pick in picks(store, selectors)? {
        sources += store.sources(&pick.selector)?.len();
        if sources > MAX_LOOKED_AT {
            return Ok(None);
        }
    }
    Ok(Some(interval))
}
