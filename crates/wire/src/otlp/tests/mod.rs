//! Requests against messages that `prost` encoded.

use super::*;
use crate::line::Arena;
use crate::remote_write::{LabelNotation, Rejections};
use prost::Message;
use seiner_model::{Batch, Notation, SourceKey, Value};
use std::collections::BTreeMap;

mod messages;
mod properties;
mod translation;

use messages::*;

/// Time of points without a time.
const NOW: i64 = 77;

/// Rows of a request: the series as `name,label=value`, with its time and the bits of its value.
type Rows = Vec<(String, i64, u64)>;

/// Result of a request.
#[derive(Debug, PartialEq)]
struct Decoded {
    rows: Rows,
    rejections: Rejections,
    points: u64,
    ignored: u64,
}

/// Decodes a request in batches of a size.
fn decode(bytes: &[u8], promoted: &[&str], max_rows: usize) -> Result<Decoded, Malformed> {
    let promoted: Vec<String> = promoted.iter().map(|name| name.to_string()).collect();
    let mut decoder = MetricsDecoder::new(bytes, NOW, &promoted);
    let mut rows = Vec::new();
    loop {
        let arena = Arena::new();
        let mut batch = Batch::new();
        let more = decoder.fill(max_rows, &arena, &mut batch)?;
        assert!(batch.rows.len() <= max_rows);
        for (index, row) in batch.rows.iter().enumerate() {
            assert!(decoder.place_of_row(index).0 > 0);
            let Value::F64(value) = batch.cells_of(row)[0].value else {
                panic!("a value is no float");
            };
            // Names that are not UTF-8 are rejected by the store.
            if let Ok(key) = LabelNotation.source_key(row.name) {
                rows.push((line_name(&key), row.time, value.to_bits()));
            }
        }
        if !more {
            return Ok(Decoded {
                rows,
                points: decoder.points,
                ignored: decoder.ignored,
                rejections: decoder.rejections,
            });
        }
    }
}

fn line_name(key: &SourceKey) -> String {
    let tags = key.tags();
    let tags: String = tags.map(|(tag, value)| format!(",{tag}={value}")).collect();
    format!("{}{tags}", key.measurement())
}

fn text(key: &str, value: &str) -> KeyValue {
    pair(key, Any::Text(value.to_string()))
}

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_string(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

/// Returns a request with one resource.
fn request(resource: Vec<KeyValue>, metrics: Vec<Metric>) -> Request {
    let scope = ScopeMetrics {
        scope: Some(Scope {
            name: "library".to_string(),
        }),
        metrics,
    };
    Request {
        resources: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: resource,
            }),
            scopes: vec![scope],
            schema_url: String::new(),
        }],
    }
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    Metric {
        name: name.to_string(),
        description: "Help".to_string(),
        unit: unit.to_string(),
        data: Some(data),
    }
}

fn number(attributes: Vec<KeyValue>, time: u64, value: f64) -> NumberPoint {
    NumberPoint {
        attributes,
        time,
        value: Some(Number::Double(value)),
        ..NumberPoint::default()
    }
}

fn gauge(points: Vec<NumberPoint>) -> Data {
    Data::Gauge(Numbers {
        points,
        ..Numbers::default()
    })
}

/// Returns the rows as texts with values, in their order.
fn shown(decoded: &Decoded) -> Vec<String> {
    let rows = decoded.rows.iter();
    rows.map(|(name, time, bits)| format!("{name} {} {time}", f64::from_bits(*bits)))
        .collect()
}

fn rows_of(request: &Request) -> Vec<String> {
    shown(&decode(&request.encode_to_vec(), &[], 100).unwrap())
}
