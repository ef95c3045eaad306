//! Tests of texts and of names of series.

use super::*;
use crate::remote_write::LabelNotation;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use seiner_model::{Notation, SourceKey};
use std::sync::atomic::AtomicU64;

fn items(text: &str, form: Form) -> Result<Vec<Item<'_>>, BadText> {
    Exposition::new(text.as_bytes(), form)?.collect()
}

fn sample<'t>(
    metric: &'t str,
    labels: &[(&'t str, &'t str)],
    value: f64,
    time: Option<i64>,
) -> Item<'t> {
    let labels = labels
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    Item::Sample(Sample {
        metric: metric.into(),
        labels: labels.collect(),
        value,
        time,
        has_exemplar: false,
    })
}

#[test]
fn the_example_of_the_documentation_is_read() {
    let text = r#"
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
  something_weird{problem="division by zero"} +Inf -3982045
x { a = "1" , } -Inf
"#;
    let found = items(text, Form::Prometheus).unwrap();
    let ms = 1_000_000;
    let expected = [
        Item::Help(
            "http_requests_total",
            "The total number of HTTP requests.".into(),
        ),
        Item::Type("http_requests_total", "counter"),
        sample(
            "http_requests_total",
            &[("method", "post"), ("code", "200")],
            1027.0,
            Some(1_395_066_363_000 * ms),
        ),
        sample(
            "msdos_file_access_time_seconds",
            &[
                ("path", "C:\\DIR\\FILE.TXT"),
                ("error", "Cannot find file:\n\"FILE.TXT\""),
            ],
            1.458_255_915e9,
            None,
        ),
        sample("metric_without_timestamp_and_labels", &[], 12.47, None),
        sample(
            "something_weird",
            &[("problem", "division by zero")],
            f64::INFINITY,
            Some(-3_982_045 * ms),
        ),
        sample("x", &[("a", "1")], f64::NEG_INFINITY, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn openmetrics_has_exemplars_units_and_an_end() {
    let text = "# TYPE a info\n# UNIT b_seconds seconds\n# HELP b_seconds a \\\"b\\\"\n\
                b_seconds_bucket{le=\"1\"} 8 1.5 # {trace=\"x\"} 0.6 1.2\nc 1 # {} 1\n\
                {\"d.e\",\"f.g\"=\"1\"} 2\n# EOF\n";
    let found = items(text, Form::OpenMetrics).unwrap();
    assert_eq!(found.len(), 6);
    assert_eq!(found[1], Item::Unit("b_seconds", "seconds"));
    assert_eq!(found[2], Item::Help("b_seconds", "a \"b\"".into()));
    let Item::Sample(bucket) = &found[3] else {
        panic!("{:?}", found[3]);
    };
    assert_eq!(
        (bucket.time, bucket.has_exemplar),
        (Some(1_500_000_000), true)
    );
    assert_eq!(found[5], sample("d.e", &[("f.g", "1")], 2.0, None));
    for cut in [&text[..text.len() - 6], ""] {
        let error = items(cut, Form::OpenMetrics).unwrap_err();
        assert!(error.reason.contains("# EOF"), "{error}");
    }
    assert!(items("# EOF\na 1\n", Form::OpenMetrics).is_err());
}

#[test]
fn errors_name_the_line() {
    for (text, reason) in [
        ("a", "is not a number"),
        ("a x", "\"x\" is not a number"),
        ("a 1 2 3", "\"3\" follows"),
        ("a 1 1.5", "whole number of ms"),
        ("a 1 9223372036855", "1677"),
        ("a{b} 1", "label b has no value"),
        ("a{b=\"c} 1", "no closing quote"),
        ("a{b=\"c\" 1", "no closing brace"),
        ("a{b=c} 1", "has no quotes"),
        ("a{1=\"c\"} 1", "name of a label"),
        ("{b=\"c\"} 1", "no name of a metric"),
        ("<html>", "name of a metric"),
        ("1a 1", "name of a metric"),
        ("# TYPE a colour", "not a type"),
    ] {
        let text = format!("ok 1\n{text}\nnever 1\n");
        let error = items(&text, Form::Prometheus).unwrap_err();
        assert_eq!(error.line, 2, "{text}");
        assert!(error.reason.contains(reason), "{text}: {error}");
    }
    let error = Exposition::new(b"a 1\n\nb\xff 1", Form::Prometheus).unwrap_err();
    assert_eq!(error.line, 3);
}

#[test]
fn every_nan_is_the_same_and_none_is_a_stale_marker() {
    for text in ["a NaN\n", "a -nan\n"] {
        let found = items(text, Form::Prometheus).unwrap();
        let Item::Sample(sample) = &found[0] else {
            panic!("{found:?}");
        };
        assert_eq!(sample.value.to_bits(), 0x7ff8_0000_0000_0001);
    }
}

fn key(honor_labels: bool, target: &[(&str, &str)], text: &str) -> SourceKey {
    let target = target
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let labels = TargetLabels::new(target, honor_labels);
    let found = items(text, Form::Prometheus).unwrap();
    let [Item::Sample(sample)] = &found[..] else {
        panic!("{found:?}");
    };
    let mut name = Vec::new();
    labels.put_name(sample, &mut name);
    LabelNotation.source_key(&name).unwrap()
}

#[test]
fn clashing_labels_are_renamed_or_honored() {
    let target = [("job", "node"), ("instance", "a:1"), ("none", "")];
    let of = |tags: &[(&str, &str)]| SourceKey::new("m", tags.iter().copied()).unwrap();
    assert_eq!(
        key(
            false,
            &target,
            "m{job=\"x\",a=\"\",exported_instance=\"y\",instance=\"z\"} 1"
        ),
        of(&[
            ("job", "node"),
            ("exported_job", "x"),
            ("instance", "a:1"),
            ("exported_instance", "y"),
            ("exported_exported_instance", "z"),
        ])
    );
    // An empty label of the sample removes the target's label.
    assert_eq!(
        key(true, &target, "m{job=\"x\",instance=\"\"} 1"),
        of(&[("job", "x")])
    );
    assert_eq!(
        key(false, &target, "m{job=\"\"} 1"),
        of(&[("job", "node"), ("instance", "a:1")])
    );
    let mut name = Vec::new();
    TargetLabels::new([("job".into(), "node".into())], true).put_own_name("up", &mut name);
    let expected = SourceKey::new("up", [("job", "node")]).unwrap();
    assert_eq!(LabelNotation.source_key(&name).unwrap(), expected);
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    first: String,
    second: String,
}

proptest! {
    #[test]
    fn texts_of_prometheus_client_return_label_for_label(
        metric in "[a-z_][a-z0-9_]{0,8}",
        help in "[a-z][a-z ]{0,8}[a-z]",
        first in "[ -~\n]{0,8}",
        second in any::<String>(),
        value in any::<f64>(),
    ) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        let labels = Labels { first: first.clone(), second: second.clone() };
        family.get_or_create(&labels).set(value);
        let mut registry = Registry::default();
        registry.register(&metric, help.clone(), family);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let found = items(&text, Form::OpenMetrics).unwrap();
        prop_assert_eq!(found.len(), 3);
        prop_assert_eq!(&found[0], &Item::Help(&metric, format!("{help}.").into()));
        prop_assert_eq!(&found[1], &Item::Type(&metric, "gauge"));
        let Item::Sample(sample) = &found[2] else { panic!() };
        prop_assert_eq!(&sample.metric, &metric);
        let found: Vec<&str> = sample.labels.iter().map(|(_, value)| &**value).collect();
        prop_assert_eq!(found, [&first[..], &second[..]]);
        prop_assert!(sample.value == value || value.is_nan() && sample.value.is_nan());
    }

    #[test]
    fn no_text_causes_a_panic(text in "[a-z{}=\"\\\\,# \t\n0-9.]{0,60}") {
        let _ = items(&text, Form::Prometheus);
        let _ = items(&text, Form::OpenMetrics);
    }
}
