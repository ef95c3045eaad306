//! Names, labels and values of each type of metric.

use super::*;

#[test]
fn numbers_become_one_row_each() {
    let resource = vec![
        text("service.name", "shop"),
        text("service.namespace", "eu"),
        text("service.instance.id", "i-1"),
        text("host.name", "a"),
    ];
    let sum = |temporality, is_monotonic| {
        Data::Sum(Numbers {
            points: vec![NumberPoint {
                value: Some(Number::Int(-3)),
                time: 5,
                ..NumberPoint::default()
            }],
            temporality,
            is_monotonic,
        })
    };
    let attributes = vec![
        text("z.y", "1"),
        pair("A", Any::Bool(true)),
        pair("n", Any::Int(-7)),
        pair("d", Any::Double(0.5)),
        text("empty", ""),
    ];
    let metrics = vec![
        metric(
            "load",
            "1",
            gauge(vec![number(attributes, 9, 1.5), number(vec![], 0, 2.0)]),
        ),
        metric("requests", "", sum(2, true)),
        metric("queue", "{item}", sum(2, false)),
        metric("requests", "", sum(1, true)),
    ];
    let request = request(resource, metrics);
    assert_eq!(
        rows_of(&request),
        [
            "load_ratio,A=true,d=0.5,instance=i-1,job=eu/shop,n=-7,z_y=1 1.5 9",
            "load_ratio,instance=i-1,job=eu/shop 2 77",
            "requests_total,instance=i-1,job=eu/shop -3 5",
            "queue,instance=i-1,job=eu/shop -3 5",
            "requests_total,instance=i-1,job=eu/shop,temporality=delta -3 5",
            "target_info,host_name=a,instance=i-1,job=eu/shop 1 77",
        ]
    );
    let decoded = decode(&request.encode_to_vec(), &["host.name", "none"], 100).unwrap();
    let first = &shown(&decoded)[1];
    assert_eq!(
        first,
        "load_ratio,host_name=a,instance=i-1,job=eu/shop 2 77"
    );
    assert_eq!((decoded.points, decoded.ignored), (5, 0));
}

#[test]
fn labels_that_collide_have_the_rules_of_prometheus() {
    let attributes = vec![
        text("b_c", "2"),
        text("b.c", "1"),
        text("job", "mine"),
        text("host.name", "point"),
        text("__name__", "other"),
        text("le", "kept"),
    ];
    let resource = vec![text("service.name", "shop"), text("host.name", "resource")];
    let points = gauge(vec![number(attributes, 1, 1.0)]);
    let request = request(resource, vec![metric("x", "", points)]);
    let decoded = decode(&request.encode_to_vec(), &["host.name"], 100).unwrap();
    assert_eq!(
        shown(&decoded)[0],
        "x,b_c=1;2,host_name=point,job=shop,le=kept 1 1"
    );
}

#[test]
fn values_of_all_types_have_texts() {
    let list = |values: Vec<Any>| {
        let values = values
            .into_iter()
            .map(|value| AnyValue { value: Some(value) });
        Any::List(ArrayValue {
            values: values.collect(),
        })
    };
    let map = Any::Map(KeyValueList {
        values: vec![
            text("k\"", "v"),
            pair("n", Any::Int(1)),
            pair("e", list(vec![])),
        ],
    });
    for (value, expected) in [
        (Any::Double(1e21), "1000000000000000000000"),
        (Any::Double(f64::INFINITY), "+Inf"),
        (Any::Double(f64::NAN), "NaN"),
        (Any::Bytes(b"\x00\xff".to_vec()), "AP8="),
        (
            list(vec![
                Any::Text("a".to_string()),
                Any::Bool(false),
                Any::Double(0.5),
            ]),
            "[\"a\",false,0.5]",
        ),
        (map, "{\"k\\\"\":\"v\",\"n\":1,\"e\":[]}"),
        (
            list(vec![Any::Double(f64::NAN), Any::Bytes(vec![1])]),
            "[\"NaN\",\"AQ==\"]",
        ),
    ] {
        let point = number(vec![pair("a", value)], 1, 0.0);
        let request = request(vec![], vec![metric("x", "", gauge(vec![point]))]);
        let bytes = request.encode_to_vec();
        let arena = Arena::new();
        let mut batch = Batch::new();
        let mut decoder = MetricsDecoder::new(&bytes, NOW, &[]);
        decoder.fill(10, &arena, &mut batch).unwrap();
        let key = LabelNotation.source_key(batch.rows[0].name).unwrap();
        assert_eq!(key.tag("a"), expected);
    }
    let mut deep = Any::Int(1);
    for _ in 0..20 {
        deep = list(vec![deep]);
    }
    let point = number(vec![pair("a", deep)], 1, 0.0);
    let request = request(vec![], vec![metric("x", "", gauge(vec![point]))]);
    let decoded = decode(&request.encode_to_vec(), &[], 10).unwrap();
    assert!(
        decoded.rejections.listed[0]
            .reason
            .contains("inside each other")
    );
}

#[test]
fn histograms_become_cumulative_buckets() {
    let point = HistogramPoint {
        time: 5,
        count: 6,
        sum: Some(12.5),
        counts: vec![1, 2, 3],
        bounds: vec![0.005, 10.0],
        attributes: vec![text("z", "1"), text("a", "2"), text("le", "lost")],
        ..HistogramPoint::default()
    };
    let bare = HistogramPoint {
        time: 6,
        count: 4,
        ..HistogramPoint::default()
    };
    let data = Data::Histogram(Histogram {
        points: vec![point, bare],
        temporality: 2,
    });
    assert_eq!(
        rows_of(&request(vec![], vec![metric("delay", "s", data)])),
        [
            "delay_seconds_sum,a=2,z=1 12.5 5",
            "delay_seconds_count,a=2,z=1 6 5",
            "delay_seconds_bucket,a=2,le=0.005,z=1 1 5",
            "delay_seconds_bucket,a=2,le=10,z=1 3 5",
            "delay_seconds_bucket,a=2,le=+Inf,z=1 6 5",
            "delay_seconds_count 4 6",
            "delay_seconds_bucket,le=+Inf 4 6",
        ]
    );
}

#[test]
fn exponential_histograms_become_buckets_with_the_same_bounds() {
    let point = ExponentialPoint {
        time: 5,
        count: 21,
        sum: Some(1.0),
        scale: 0,
        zero_count: 4,
        zero_threshold: 0.25,
        positive: Some(Buckets {
            offset: 1,
            counts: vec![5, 0, 6],
        }),
        negative: Some(Buckets {
            offset: 0,
            counts: vec![2, 4],
        }),
        ..ExponentialPoint::default()
    };
    let plain = ExponentialPoint {
        time: 6,
        count: 3,
        scale: 1,
        positive: Some(Buckets {
            offset: -2,
            counts: vec![3],
        }),
        ..ExponentialPoint::default()
    };
    let data = Data::Exponential(Exponential {
        points: vec![point, plain],
        temporality: 1,
    });
    assert_eq!(
        rows_of(&request(vec![], vec![metric("x", "", data)])),
        [
            "x_sum,temporality=delta 1 5",
            "x_count,temporality=delta 21 5",
            "x_bucket,le=-4,temporality=delta 0 5",
            "x_bucket,le=-2,temporality=delta 4 5",
            "x_bucket,le=-1,temporality=delta 6 5",
            "x_bucket,le=0.25,temporality=delta 10 5",
            "x_bucket,le=2,temporality=delta 10 5",
            "x_bucket,le=4,temporality=delta 15 5",
            "x_bucket,le=8,temporality=delta 15 5",
            "x_bucket,le=16,temporality=delta 21 5",
            "x_bucket,le=+Inf,temporality=delta 21 5",
            "x_count,temporality=delta 3 6",
            "x_bucket,le=0.5,temporality=delta 0 6",
            &format!("x_bucket,le={},temporality=delta 3 6", (-0.5_f64).exp2()),
            "x_bucket,le=+Inf,temporality=delta 3 6",
        ]
    );
}

#[test]
fn summaries_become_quantiles() {
    let quantile = |quantile, value| Quantile { quantile, value };
    let point = SummaryPoint {
        time: 5,
        count: 2,
        sum: 3.5,
        quantiles: vec![quantile(0.5, 1.0), quantile(0.99, 2.0)],
        ..SummaryPoint::default()
    };
    let data = Data::Summary(Summary {
        points: vec![point],
    });
    assert_eq!(
        rows_of(&request(vec![], vec![metric("x", "", data)])),
        [
            "x_sum 3.5 5",
            "x_count 2 5",
            "x,quantile=0.5 1 5",
            "x,quantile=0.99 2 5"
        ]
    );
}

#[test]
fn points_without_a_value_end_their_series() {
    let stale = NumberPoint {
        time: 5,
        flags: 1,
        ..NumberPoint::default()
    };
    let histogram = HistogramPoint {
        time: 5,
        flags: 1,
        ..HistogramPoint::default()
    };
    let histogram = Data::Histogram(Histogram {
        points: vec![histogram],
        temporality: 2,
    });
    let metrics = vec![
        metric("x", "", gauge(vec![stale])),
        metric("h", "", histogram),
    ];
    let decoded = decode(&request(vec![], metrics).encode_to_vec(), &[], 10).unwrap();
    let names: Vec<&str> = decoded.rows.iter().map(|row| &*row.0).collect();
    assert_eq!(names, ["x", "h_sum", "h_count", "h_bucket,le=+Inf"]);
    assert!(decoded.rows.iter().all(|row| row.2 == STALE));
}

#[test]
fn rejected_points_leave_the_rest() {
    let histogram = |counts: Vec<u64>, bounds: Vec<f64>| HistogramPoint {
        counts,
        bounds,
        ..HistogramPoint::default()
    };
    let exponential = |scale, zero_threshold| ExponentialPoint {
        scale,
        zero_threshold,
        ..ExponentialPoint::default()
    };
    let sum = |temporality| {
        Data::Sum(Numbers {
            points: vec![number(vec![], 1, 1.0); 2],
            temporality,
            is_monotonic: false,
        })
    };
    let points = vec![
        number(vec![], u64::MAX, 1.0),
        NumberPoint::default(),
        number(vec![text("", "x")], 1, 1.0),
        number(vec![text("a", &"x".repeat(70_000))], 1, 1.0),
        number(vec![], 1, 1.0),
    ];
    let metrics = vec![
        metric("x", "", gauge(points)),
        metric("...", "", gauge(vec![number(vec![], 1, 1.0); 3])),
        metric("unstated", "", sum(0)),
        metric(
            "h",
            "",
            Data::Histogram(Histogram {
                points: vec![
                    histogram(vec![1], vec![1.0]),
                    histogram(vec![1, 1, 1], vec![2.0, 1.0]),
                    histogram(vec![1; 5000], vec![]),
                ],
                temporality: 2,
            }),
        ),
        metric(
            "e",
            "",
            Data::Exponential(Exponential {
                points: vec![exponential(40, 0.0), exponential(0, -1.0)],
                temporality: 2,
            }),
        ),
        Metric {
            name: "unknown".to_string(),
            ..Metric::default()
        },
        metric("last", "", sum(2)),
    ];
    let decoded = decode(&request(vec![], metrics).encode_to_vec(), &[], 100).unwrap();
    assert_eq!(shown(&decoded), ["x 1 1", "last 1 1", "last 1 1"]);
    assert_eq!((decoded.points, decoded.ignored), (17, 1));
    let listed = decoded.rejections.listed.iter();
    let listed: Vec<_> = listed
        .map(|one| {
            (
                one.series,
                &*one.name,
                one.samples,
                one.reason.split([';', ',']).next(),
            )
        })
        .collect();
    for (one, (series, name, samples, reason)) in listed.iter().zip([
        (1, "x", 1, "its time is after the year 2262"),
        (1, "x", 1, "it has no value"),
        (
            1,
            "x",
            1,
            "an attribute has a key without a letter or digit",
        ),
        (1, "x", 1, "its labels have more than 64 KiB"),
        (2, "...", 3, "its name has no letter or digit"),
        (3, "unstated", 2, "its temporality is not stated"),
        (
            4,
            "h",
            1,
            "the number of its bucket counts is not one more than that of its bounds",
        ),
        (4, "h", 1, "its bounds do not increase"),
        (4, "h", 1, "it has more than 4096 buckets or quantiles"),
        (5, "e", 1, "its scale is outside of -11 to 32"),
        (5, "e", 1, "its zero threshold is negative or not a number"),
    ]) {
        assert_eq!(*one, (series, name, samples, Some(reason)));
    }
    assert_eq!(listed.len(), 11);
    assert_eq!(decoded.rejections.samples, 14);
}

#[test]
fn metadata_state_type_help_and_unit() {
    let sum = |temporality| {
        Data::Sum(Numbers {
            temporality,
            is_monotonic: true,
            ..Numbers::default()
        })
    };
    let metrics = vec![
        metric("a", "By/s", gauge(vec![])),
        metric("b", "", sum(2)),
        metric("c", "", sum(1)),
    ];
    let bytes = request(vec![], metrics).encode_to_vec();
    let mut decoder = MetricsDecoder::new(&bytes, NOW, &[]);
    assert_eq!(
        decoder.fill(10, &Arena::new(), &mut Batch::new()),
        Ok(false)
    );
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let list = decoder.metadata();
    let list: Vec<_> = list
        .iter()
        .map(|one| (text(one.family), one.kind, text(one.help), text(one.unit)))
        .collect();
    let expected = [
        ("a_bytes_per_second", "gauge", "bytes_per_second"),
        ("b_total", "counter", ""),
        ("c_total", "unknown", ""),
    ];
    let expected = expected.map(|(family, kind, unit)| {
        let [family, unit] = [family, unit].map(str::to_string);
        (family, kind, "Help".to_string(), unit)
    });
    assert_eq!(list, expected);
}

#[test]
fn a_resource_may_follow_its_metrics() {
    let full = request(
        vec![text("service.name", "s")],
        vec![metric("x", "", gauge(vec![number(vec![], 1, 2.0)]))],
    );
    let resource = ResourceMetrics {
        resource: full.resources[0].resource.clone(),
        ..ResourceMetrics::default()
    };
    let scopes = ResourceMetrics {
        scopes: full.resources[0].scopes.clone(),
        ..ResourceMetrics::default()
    };
    let message = [scopes.encode_to_vec(), resource.encode_to_vec()].concat();
    let bytes = [&[0x0a, message.len() as u8][..], &message].concat();
    let decoded = decode(&bytes, &[], 10).unwrap();
    assert_eq!(shown(&decoded), ["x,job=s 2 1"]);
}
