//! Summaries of measurements: what a store holds, for people who look for their data.

use seiner_model::{FieldType, Interval, Selector, SourceId, rfc3339};
use seiner_store::{Error, Query, Store};
use serde_json::{Value, json};

/// Maximum number of sources of a measurement whose samples in memory count for the times, which bounds the cost.
const SOURCES: usize = 1000;
/// Maximum number of values of a tag that are counted.
const VALUES: usize = 10_000;

/// Contents of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Name of the measurement.
    pub measurement: String,
    /// Number of sources.
    pub sources: u64,
    /// Names of the tags, each with the number of its values, at most 10,000.
    pub tags: Vec<(String, usize)>,
    /// Names and types of the fields. A field may have several types, in different sources.
    pub fields: Vec<(String, FieldType)>,
    /// First and last time, ns. Samples in memory count for the first 1,000 sources only. `None` without samples.
    pub times: Option<Interval>,
    /// Bytes in segments. `None` for a store without files.
    pub bytes: Option<u64>,
}

/// Returns the contents of each measurement with sources that a selector selects, sorted by name.
///
/// # Errors
/// If the names cannot be read, or the disk fails.
pub fn summaries(store: &dyn Store, selector: &Selector) -> Result<Vec<Summary>, Error> {
    let mut found = Vec::new();
    let mut groups: Vec<Vec<SourceId>> = Vec::new();
    for name in store.measurements()? {
        if selector
            .measurement
            .as_ref()
            .is_some_and(|only| *only != name)
        {
            continue;
        }
        let selector = Selector {
            measurement: Some(name),
            matchers: selector.matchers.clone(),
        };
        let sources = store.sources(&selector)?;
        if sources.is_empty() {
            continue;
        }
        found.push(summary(store, selector, sources.len())?);
        groups.push(sources);
    }
    if let Some(embedded) = store.embedded() {
        for (summary, mut extent) in found.iter_mut().zip(embedded.extents(&groups)?) {
            summary.bytes = Some(extent.bytes);
            summary
                .times
                .into_iter()
                .for_each(|times| extent.include(times));
            summary.times = extent.times;
        }
    }
    Ok(found)
}

/// Returns the contents of the selected sources of a measurement, without their bytes.
fn summary(store: &dyn Store, selector: Selector, sources: usize) -> Result<Summary, Error> {
    let mut tags = Vec::new();
    for tag in store.tag_names(&selector)? {
        let values = store.tag_values(&selector, &tag, VALUES)?.len();
        tags.push((tag, values));
    }
    let fields = store.fields(&selector)?;
    let query = Query {
        selector,
        fields: None,
        interval: Interval::ALL,
    };
    let times = store.time_range(&query, SOURCES);
    Ok(Summary {
        measurement: query.selector.measurement.unwrap_or_default(),
        sources: sources as u64,
        tags,
        fields,
        times,
        bytes: None,
    })
}

impl Summary {
    /// Returns the summary as JSON.
    pub fn to_json(&self) -> Value {
        let tags = self.tags.iter();
        let tags: Vec<Value> = tags
            .map(|(name, values)| {
                let mut tag = json!({ "name": name, "values": values });
                if *values == VALUES {
                    tag["more"] = json!(true);
                }
                tag
            })
            .collect();
        let fields = self.fields.iter();
        let fields: Vec<Value> = fields
            .map(|(name, kind)| json!({ "name": name, "type": kind.name() }))
            .collect();
        json!({
            "measurement": self.measurement,
            "sources": self.sources,
            "tags": tags,
            "fields": fields,
            "first": self.times.map(|times| rfc3339(times.start)),
            "last": self.times.map(|times| rfc3339(times.end)),
            "bytes": self.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::{Column, Columns, FieldColumn, SourceKey};
    use seiner_store::MemoryStore;

    fn store() -> MemoryStore {
        let store = MemoryStore::default();
        for (measurement, host, time) in [("cpu", "a", 5), ("cpu", "b", 3), ("mem", "a", 9)] {
            let key = SourceKey::new(measurement, [("host", host)]).unwrap();
            let source = store.register(&key).unwrap();
            let columns = Columns {
                times: vec![time],
                fields: vec![FieldColumn {
                    present: None,
                    values: Column::F64(vec![1.0]),
                }],
            };
            store.append_columns(source, &["value"], &columns).unwrap();
        }
        store
    }

    #[test]
    fn measurements_are_summarised() {
        let found = summaries(&store(), &Selector::all()).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.measurement.as_str()).collect();
        assert_eq!(names, ["cpu", "mem"]);
        let cpu = &found[0];
        assert_eq!((cpu.sources, cpu.times), (2, Some(Interval::new(3, 5))));
        assert_eq!(cpu.tags, [("host".to_string(), 2)]);
        assert_eq!(cpu.to_json()["fields"][0]["name"], "value");
        assert_eq!(cpu.to_json()["first"], "1970-01-01T00:00:00.000000003Z");
    }

    #[test]
    fn a_selector_limits_measurements_and_sources() {
        let names = |selector: &str| {
            let found = summaries(&store(), &Selector::parse(selector).unwrap()).unwrap();
            let found = found.into_iter();
            found
                .map(|one| (one.measurement, one.sources))
                .collect::<Vec<_>>()
        };
        assert_eq!(names("cpu{host=\"a\"}"), [("cpu".to_string(), 1)]);
        assert_eq!(names("{host=\"b\"}"), [("cpu".to_string(), 1)]);
        assert_eq!(names("disk"), []);
    }
}
