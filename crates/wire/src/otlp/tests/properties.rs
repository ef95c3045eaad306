//! Requests of any content: the same rows in batches of any size and in JSON, and no panic from damaged bytes.

use super::*;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Value of any bits, stale markers and other NaN included.
fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![any::<u64>().prop_map(f64::from_bits), -1e3..1e3, Just(0.0)]
}

fn any_attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    let key = prop_oneof!["[a-c._]{1,3}", ".{0,6}", Just("le".to_string())];
    let value = prop_oneof![
        ".{0,12}".prop_map(Any::Text),
        any::<bool>().prop_map(Any::Bool),
        any::<i64>().prop_map(Any::Int),
        (-1e9..1e9).prop_map(Any::Double),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Any::Bytes),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(|ints| {
            let values = ints.into_iter().map(|int| AnyValue {
                value: Some(Any::Int(int)),
            });
            Any::List(ArrayValue {
                values: values.collect(),
            })
        }),
    ];
    let attribute = (key, value).prop_map(|(key, value)| super::pair(&key, value));
    prop::collection::vec(attribute, 0..4)
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), any::<u64>(), 0..1_u64 << 61]
}

fn any_flags() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0), 1 => 0..4_u32]
}

fn any_numbers() -> impl Strategy<Value = Numbers> {
    let value = prop_oneof![
        any_value().prop_map(|value| Some(Number::Double(value))),
        any::<i64>().prop_map(|value| Some(Number::Int(value))),
        Just(None),
    ];
    let point = (any_attributes(), any_time(), value, any_flags(), 0..2_usize).prop_map(
        |(attributes, time, value, flags, exemplars)| NumberPoint {
            attributes,
            start: 1,
            time,
            value,
            flags,
            exemplars: vec![Exemplar { time: 1 }; exemplars],
        },
    );
    (prop::collection::vec(point, 0..5), 0..3, any::<bool>()).prop_map(
        |(points, temporality, is_monotonic)| Numbers {
            points,
            temporality,
            is_monotonic,
        },
    )
}

fn any_histogram() -> impl Strategy<Value = Histogram> {
    let buckets = prop::collection::vec((any_value(), 0..9_u64), 0..5);
    let sum = prop::option::of(any_value());
    let point = (any_attributes(), any_time(), buckets, sum, any_flags()).prop_map(
        |(attributes, time, mut buckets, sum, flags)| {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (bounds, mut counts): (Vec<f64>, Vec<u64>) = buckets.into_iter().unzip();
            counts.push(1);
            HistogramPoint {
                time,
                count: counts.iter().sum(),
                sum,
                counts,
                bounds,
                attributes,
                flags,
                start: 0,
            }
        },
    );
    (prop::collection::vec(point, 0..3), 0..3).prop_map(|(points, temporality)| Histogram {
        points,
        temporality,
    })
}

fn any_exponential() -> impl Strategy<Value = Exponential> {
    let buckets = || {
        let counts = prop::collection::vec(any::<u64>(), 0..6);
        let buckets = (any::<i32>(), counts).prop_map(|(offset, counts)| Buckets {
            offset: offset / 7,
            counts,
        });
        prop::option::of(buckets)
    };
    let fields = (
        any_attributes(),
        any_time(),
        -12..34,
        any_value(),
        any_flags(),
    );
    let point = (fields, buckets(), buckets(), any::<u64>()).prop_map(
        |((attributes, time, scale, zero_threshold, flags), positive, negative, zero_count)| {
            ExponentialPoint {
                attributes,
                time,
                count: 9,
                sum: None,
                scale,
                zero_count,
                positive,
                negative,
                flags,
                zero_threshold,
            }
        },
    );
    (prop::collection::vec(point, 0..3), 0..3).prop_map(|(points, temporality)| Exponential {
        points,
        temporality,
    })
}

fn any_summary() -> impl Strategy<Value = Summary> {
    let quantile =
        (any_value(), any_value()).prop_map(|(quantile, value)| Quantile { quantile, value });
    let quantiles = prop::collection::vec(quantile, 0..3);
    let point =
        (any_attributes(), any_time(), quantiles).prop_map(|(attributes, time, quantiles)| {
            SummaryPoint {
                time,
                count: 3,
                sum: 0.5,
                quantiles,
                attributes,
                flags: 0,
            }
        });
    prop::collection::vec(point, 0..3).prop_map(|points| Summary { points })
}

fn any_request() -> impl Strategy<Value = Request> {
    let data = prop_oneof![
        any_numbers().prop_map(Data::Gauge),
        any_numbers().prop_map(Data::Sum),
        any_histogram().prop_map(Data::Histogram),
        any_exponential().prop_map(Data::Exponential),
        any_summary().prop_map(Data::Summary),
    ];
    let metric =
        ("[a-z._]{0,5}", "[a-z/{}]{0,3}", prop::option::of(data)).prop_map(|(name, unit, data)| {
            Metric {
                name,
                description: String::new(),
                unit,
                data,
            }
        });
    let scope = prop::collection::vec(metric, 0..4).prop_map(|metrics| ScopeMetrics {
        scope: None,
        metrics,
    });
    let service = prop::option::of("[a-z]{1,3}");
    let resource = (any_attributes(), service).prop_map(|(mut attributes, service)| {
        attributes.extend(service.map(|name| text("service.name", &name)));
        Resource { attributes }
    });
    let resource = (
        prop::option::of(resource),
        prop::collection::vec(scope, 0..3),
    )
        .prop_map(|(resource, scopes)| ResourceMetrics {
            resource,
            scopes,
            schema_url: String::new(),
        });
    prop::collection::vec(resource, 0..3).prop_map(|resources| Request { resources })
}

/// Returns a number as JSON can contain it; floats that JSON does not have are texts.
fn double(value: f64) -> Json {
    match value {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value if value.is_nan() => json!("NaN"),
        value => json!(value),
    }
}

fn json_of_value(value: &AnyValue) -> Json {
    match &value.value {
        None => json!({}),
        Some(Any::Text(text)) => json!({ "stringValue": text }),
        Some(Any::Bool(value)) => json!({ "boolValue": value }),
        Some(Any::Int(value)) => json!({ "intValue": value.to_string() }),
        Some(Any::Double(value)) => json!({ "doubleValue": double(*value) }),
        Some(Any::List(list)) => {
            let values: Vec<Json> = list.values.iter().map(json_of_value).collect();
            json!({ "arrayValue": { "values": values } })
        }
        Some(Any::Map(map)) => json!({ "kvlistValue": { "values": json_of_pairs(&map.values) } }),
        Some(Any::Bytes(bytes)) => {
            let mut text = Vec::new();
            base64::encode(bytes, &mut text);
            json!({ "bytesValue": String::from_utf8(text).unwrap() })
        }
    }
}

fn json_of_pairs(pairs: &[KeyValue]) -> Json {
    let pairs = pairs.iter().map(|pair| {
        let value = pair.value.as_ref().map(json_of_value);
        json!({ "key": pair.key, "value": value })
    });
    pairs.collect()
}

fn json_of_numbers(numbers: &Numbers) -> Json {
    let points: Vec<Json> = numbers
        .points
        .iter()
        .map(|point| {
            let mut json = json!({
                "attributes": json_of_pairs(&point.attributes),
                "startTimeUnixNano": point.start,
                "timeUnixNano": point.time.to_string(),
                "flags": point.flags,
                "exemplars": vec![json!({ "timeUnixNano": "1", "traceId": "00" }); point.exemplars.len()],
                "fieldOfALaterVersion": [{}, 1],
            });
            match point.value {
                Some(Number::Double(value)) => json["asDouble"] = double(value),
                Some(Number::Int(value)) => json["asInt"] = json!(value),
                None => {}
            }
            json
        })
        .collect();
    json!({
        "dataPoints": points,
        "aggregationTemporality": numbers.temporality,
        "isMonotonic": numbers.is_monotonic,
    })
}

fn doubles(values: &[f64]) -> Json {
    values.iter().map(|value| double(*value)).collect()
}

fn texts(values: &[u64]) -> Json {
    values
        .iter()
        .map(|value| json!(value.to_string()))
        .collect()
}

fn json_of_buckets(buckets: &Option<Buckets>) -> Json {
    let json = |buckets: &Buckets| json!({ "offset": buckets.offset, "bucketCounts": texts(&buckets.counts) });
    buckets.as_ref().map_or(Json::Null, json)
}

fn json_of_data(data: &Data) -> (&'static str, Json) {
    match data {
        Data::Gauge(numbers) => ("gauge", json_of_numbers(numbers)),
        Data::Sum(numbers) => ("sum", json_of_numbers(numbers)),
        Data::Histogram(histogram) => {
            let points = histogram.points.iter().map(|point| {
                json!({
                    "attributes": json_of_pairs(&point.attributes),
                    "timeUnixNano": point.time,
                    "count": point.count,
                    "sum": point.sum.map(double),
                    "bucketCounts": texts(&point.counts),
                    "explicitBounds": doubles(&point.bounds),
                    "flags": point.flags,
                })
            });
            let name = ["UNSPECIFIED", "DELTA", "CUMULATIVE"][histogram.temporality as usize];
            let name = format!("AGGREGATION_TEMPORALITY_{name}");
            let points: Vec<Json> = points.collect();
            (
                "histogram",
                json!({ "dataPoints": points, "aggregationTemporality": name }),
            )
        }
        Data::Exponential(exponential) => {
            let points = exponential.points.iter().map(|point| {
                json!({
                    "attributes": json_of_pairs(&point.attributes),
                    "timeUnixNano": point.time.to_string(),
                    "count": point.count.to_string(),
                    "scale": point.scale,
                    "zeroCount": point.zero_count.to_string(),
                    "zeroThreshold": double(point.zero_threshold),
                    "positive": json_of_buckets(&point.positive),
                    "negative": json_of_buckets(&point.negative),
                    "flags": point.flags,
                })
            });
            let points: Vec<Json> = points.collect();
            let temporality = exponential.temporality;
            let json = json!({ "dataPoints": points, "aggregationTemporality": temporality });
            ("exponentialHistogram", json)
        }
        Data::Summary(summary) => {
            let points = summary.points.iter().map(|point| {
                let quantiles = point.quantiles.iter().map(
                    |one| json!({ "quantile": double(one.quantile), "value": double(one.value) }),
                );
                json!({
                    "attributes": json_of_pairs(&point.attributes),
                    "timeUnixNano": point.time.to_string(),
                    "count": point.count.to_string(),
                    "sum": point.sum,
                    "quantileValues": quantiles.collect::<Vec<Json>>(),
                })
            });
            (
                "summary",
                json!({ "dataPoints": points.collect::<Vec<Json>>() }),
            )
        }
    }
}

fn json_of(request: &Request) -> Json {
    let metric = |metric: &Metric| {
        let mut json = json!({ "name": metric.name, "unit": metric.unit });
        if let Some(data) = &metric.data {
            let (name, data) = json_of_data(data);
            json[name] = data;
        }
        json
    };
    let resources = request.resources.iter().map(|resource| {
        let scopes = resource.scopes.iter().map(|scope| {
            let metrics: Vec<Json> = scope.metrics.iter().map(metric).collect();
            json!({ "scope": { "name": "library" }, "metrics": metrics })
        });
        let scopes: Vec<Json> = scopes.collect();
        let attributes = resource.resource.as_ref();
        let attributes = attributes.map(|one| json_of_pairs(&one.attributes));
        json!({ "resource": { "attributes": attributes }, "scopeMetrics": scopes })
    });
    json!({ "resourceMetrics": resources.collect::<Vec<Json>>() })
}

/// Replaces every NaN by one: JSON has only one.
fn one_nan(mut decoded: Decoded) -> Decoded {
    for (_, _, bits) in &mut decoded.rows {
        if f64::from_bits(*bits).is_nan() && *bits != STALE {
            *bits = f64::NAN.to_bits();
        }
    }
    decoded
}

proptest! {
    #[test]
    fn batches_of_any_size_have_the_same_rows(request in any_request(), max_rows in 1..9_usize) {
        let bytes = request.encode_to_vec();
        let whole = decode(&bytes, &["a"], usize::MAX).unwrap();
        prop_assert_eq!(&whole, &decode(&bytes, &["a"], max_rows).unwrap());
        let points: usize = request.resources.iter().flat_map(|one| &one.scopes)
            .flat_map(|scope| &scope.metrics)
            .map(|metric| match &metric.data {
                None => 0,
                Some(Data::Gauge(data) | Data::Sum(data)) => data.points.len(),
                Some(Data::Histogram(data)) => data.points.len(),
                Some(Data::Exponential(data)) => data.points.len(),
                Some(Data::Summary(data)) => data.points.len(),
            })
            .sum();
        prop_assert_eq!(whole.points, points as u64);
    }

    #[test]
    fn json_means_the_same_as_protocol_buffers(request in any_request()) {
        let json = serde_json::to_vec(&json_of(&request)).unwrap();
        let converted = from_json(&json, usize::MAX).unwrap();
        let of = |bytes: &[u8]| one_nan(decode(bytes, &[], 100).unwrap());
        // A stale marker as a value is any NaN in JSON.
        let has_stale = format!("{request:?}").contains("NaN");
        if !has_stale {
            prop_assert_eq!(of(&converted), of(&request.encode_to_vec()));
        }
        prop_assert!(matches!(from_json(&json, 1), Err(BadJson::TooLong) | Ok(_)));
    }

    #[test]
    fn numbers_are_those_that_prost_encoded(numbers in any_numbers()) {
        let expected: Vec<u64> = numbers.points.iter().filter(|point| {
            point.time <= i64::MAX as u64
                && (point.flags & 1 != 0 || point.value.is_some())
                && point.attributes.iter().all(|pair| names::put_label_name(pair.key.as_bytes(), &mut Vec::new()))
        }).map(|point| match point.value {
            _ if point.flags & 1 != 0 => STALE,
            Some(Number::Double(value)) => value.to_bits(),
            Some(Number::Int(value)) => (value as f64).to_bits(),
            None => unreachable!(),
        }).collect();
        let request = request(vec![], vec![metric("x", "", Data::Gauge(numbers.clone()))]);
        let mut batch = Batch::new();
        let (bytes, arena) = (request.encode_to_vec(), Arena::new());
        let mut decoder = MetricsDecoder::new(&bytes, NOW, &[]);
        prop_assert_eq!(decoder.fill(100, &arena, &mut batch), Ok(false));
        let found: Vec<u64> = batch.cells.iter().map(|cell| match cell.value {
            Value::F64(value) => value.to_bits(),
            _ => unreachable!(),
        }).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn labels_are_sorted_and_those_of_the_attributes(pairs in any_attributes()) {
        let point = number(pairs.clone(), 1, 1.0);
        let bytes = request(vec![], vec![metric("x", "", gauge(vec![point]))]).encode_to_vec();
        let (arena, mut batch) = (Arena::new(), Batch::new());
        let mut decoder = MetricsDecoder::new(&bytes, NOW, &[]);
        prop_assert_eq!(decoder.fill(10, &arena, &mut batch), Ok(false));
        let mut expected: Option<BTreeMap<String, usize>> = Some(BTreeMap::new());
        for pair in &pairs {
            let mut name = Vec::new();
            if !names::put_label_name(pair.key.as_bytes(), &mut name) {
                expected = None;
                break;
            }
            let is_empty = matches!(&pair.value.as_ref().unwrap().value, Some(Any::Text(text)) if text.is_empty())
                || matches!(&pair.value.as_ref().unwrap().value, Some(Any::Bytes(bytes)) if bytes.is_empty());
            if let Some(labels) = &mut expected {
                let label = labels.entry(String::from_utf8(name).unwrap()).or_default();
                // Values of one label are joined, with a semicolon at least.
                *label += usize::from(!is_empty) + 1;
            }
        }
        match expected {
            None => prop_assert!(batch.rows.is_empty()),
            Some(labels) => {
                match LabelNotation.source_key(batch.rows[0].name) {
                    Ok(key) => for (name, parts) in labels {
                        prop_assert_eq!(key.tag(&name).is_empty(), parts <= 1, "{}", name);
                    },
                    // The store takes no NUL and the like.
                    Err(error) => prop_assert!(!error.to_string().contains("sort"), "{}", error),
                }
            }
        }
    }

    #[test]
    fn damaged_requests_cause_no_panic(
        request in any_request(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let json = serde_json::to_vec(&json_of(&request)).unwrap();
        for mut bytes in [request.encode_to_vec(), json] {
            for (at, byte) in &damage {
                let len = bytes.len();
                if len > 0 {
                    bytes[at.index(len)] = *byte;
                }
            }
            for _ in 0..2 {
                let _ = decode(&bytes, &[], 3);
                if let Ok(converted) = from_json(&bytes, 1 << 20) {
                    prop_assert!(decode(&converted, &[], 3).is_ok());
                }
                bytes.truncate(cut.index(bytes.len() + 1));
            }
        }
    }

    #[test]
    fn any_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, &[], 5);
        let _ = from_json(&bytes, 1 << 20);
    }
}
