//! Requests against messages that `prost` encoded.

use super::notation::put_label;
use super::*;
use crate::line::Arena;
use proptest::prelude::*;
use prost::Message;
use seiner_model::{Batch, Notation, Value};

mod messages;

use messages::{v1, v2};

/// Sample of a decoded request: labels, time in ns, bits of the value.
type Decoded = (Vec<(String, String)>, i64, u64);

/// Decodes a request in batches of a size.
fn decode(
    version: Version,
    bytes: &[u8],
    max_rows: usize,
) -> Result<(Vec<Decoded>, Rejections, u64), Malformed> {
    let mut decoder = WriteDecoder::new(version, bytes)?;
    let mut samples = Vec::new();
    loop {
        let arena = Arena::new();
        let mut batch = Batch::new();
        let more = decoder.fill(max_rows, &arena, &mut batch)?;
        assert!(batch.rows.len() <= max_rows);
        for row in &batch.rows {
            let labels = notation::Labels::new(row.name);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let labels = labels.map(|label| label.map(|(name, value)| (text(name), text(value))));
            let Value::F64(value) = batch.cells_of(row)[0].value else {
                panic!("a value is no float");
            };
            samples.push((labels.collect::<Result<_, _>>()?, row.time, value.to_bits()));
        }
        if !more {
            return Ok((samples, decoder.rejections, decoder.ignored));
        }
    }
}

/// Value of any bits, stale markers and other NaN often.
fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        Just(f64::from_bits(0x7ff0_0000_0000_0002)),
        Just(0.0),
        -1e3..1e3,
    ]
}

/// Time that fits into ns, 0 often.
fn any_ms() -> impl Strategy<Value = i64> {
    let limit = i64::MAX / 1_000_000;
    prop_oneof![Just(0), -limit..=limit, Just(1_700_000_000_123)]
}

type Series = (Vec<(String, String)>, Vec<(i64, f64)>, u8, u8);

fn any_series() -> impl Strategy<Value = Vec<Series>> {
    let label = (".{0,8}", ".{0,200}");
    let series = (
        prop::collection::vec(label, 0..6),
        prop::collection::vec((any_ms(), any_value()), 0..9),
        0..3_u8,
        0..3_u8,
    );
    prop::collection::vec(series, 0..8)
}

/// Returns the samples that a request must contain.
fn expected(series: &[Series]) -> Vec<Decoded> {
    let each = series.iter().flat_map(|(labels, samples, ..)| {
        let labels = labels.clone();
        samples
            .iter()
            .map(move |(ms, value)| (labels.clone(), ms * 1_000_000, value.to_bits()))
    });
    each.collect()
}

fn version_1(series: &[Series]) -> Vec<u8> {
    let series = series
        .iter()
        .map(|(labels, samples, exemplars, histograms)| {
            let label = |(name, value): &(String, String)| v1::Label {
                name: name.clone(),
                value: value.clone(),
            };
            v1::TimeSeries {
                labels: labels.iter().map(label).collect(),
                samples: samples
                    .iter()
                    .map(|&(ms, value)| v1::Sample { value, ms })
                    .collect(),
                exemplars: vec![v1::Exemplar::default(); usize::from(*exemplars)],
                histograms: vec![v1::Histogram { sum: 1.5 }; usize::from(*histograms)],
            }
        });
    let request = v1::WriteRequest {
        series: series.collect(),
        metadata: Vec::new(),
    };
    request.encode_to_vec()
}

fn version_2(series: &[Series]) -> Vec<u8> {
    let mut symbols = vec![String::new()];
    let mut number = |text: &String| {
        symbols.push(text.clone());
        symbols.len() as u32 - 1
    };
    let series: Vec<v2::TimeSeries> = series
        .iter()
        .map(|(labels, samples, exemplars, histograms)| {
            let labels = labels.iter();
            v2::TimeSeries {
                labels_refs: labels
                    .flat_map(|(name, value)| [number(name), number(value)])
                    .collect(),
                samples: samples
                    .iter()
                    .map(|&(ms, value)| v2::Sample {
                        value,
                        ms,
                        start_ms: 7,
                    })
                    .collect(),
                histograms: vec![v1::Histogram { sum: 1.5 }; usize::from(*histograms)],
                exemplars: vec![v2::Exemplar::default(); usize::from(*exemplars)],
                metadata: Some(v2::Metadata::default()),
            }
        })
        .collect();
    v2::Request { symbols, series }.encode_to_vec()
}

proptest! {
    #[test]
    fn requests_are_decoded_as_prost_encoded_them(series in any_series(), max_rows in 1..20_usize) {
        let requests = [(Version::V1, version_1(&series)), (Version::V2, version_2(&series))];
        for (version, bytes) in requests {
            let (samples, rejections, ignored) = decode(version, &bytes, max_rows).unwrap();
            prop_assert_eq!(&samples, &expected(&series));
            let count = |of: fn(&Series) -> u8| series.iter().map(|one| u64::from(of(one))).sum::<u64>();
            prop_assert_eq!(rejections.histograms, count(|one| one.3));
            prop_assert_eq!(rejections.samples, rejections.histograms);
            prop_assert_eq!(ignored, count(|one| one.2));
        }
    }

    #[test]
    fn damaged_requests_cause_no_panic(
        series in any_series(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for (version, mut bytes) in [(Version::V1, version_1(&series)), (Version::V2, version_2(&series))] {
            for (at, byte) in &damage {
                if let Some(len) = bytes.len().checked_sub(1) {
                    bytes[at.index(len + 1)] = *byte;
                }
            }
            let _ = decode(version, &bytes, 3);
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = decode(version, &bytes, 3);
        }
    }

    #[test]
    fn any_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(Version::V1, &bytes, 5);
        let _ = decode(Version::V2, &bytes, 5);
        let _ = LabelNotation.source_key(&bytes);
    }
}

fn one(labels: &[(&str, &str)], ms: i64, value: f64) -> Series {
    let text = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    (labels.iter().map(text).collect(), vec![(ms, value)], 0, 0)
}

#[test]
fn both_versions_name_a_series_equally() {
    let series = [one(&[("__name__", "up"), ("job", "a")], 1, 2.0)];
    let mut names = Vec::new();
    for (version, bytes) in [
        (Version::V1, version_1(&series)),
        (Version::V2, version_2(&series)),
    ] {
        let arena = Arena::new();
        let mut batch = Batch::new();
        let mut decoder = WriteDecoder::new(version, &bytes).unwrap();
        assert_eq!(decoder.fill(10, &arena, &mut batch), Ok(false));
        names.push(batch.rows[0].name.to_vec());
    }
    assert_eq!(names[0], names[1]);
    let mut built = Vec::new();
    put_label(b"__name__", b"up", &mut built);
    put_label(b"job", b"a", &mut built);
    assert_eq!(names[0], built);
}

#[test]
fn labels_around_the_samples_belong_to_one_name() {
    let label = |name: &str, value: &str| {
        let label = v1::Label {
            name: name.to_string(),
            value: value.to_string(),
        };
        let series = v1::TimeSeries {
            labels: vec![label],
            ..Default::default()
        };
        series.encode_to_vec()
    };
    let sample = v1::TimeSeries {
        samples: vec![v1::Sample { value: 5.0, ms: 1 }],
        ..Default::default()
    };
    let sample = sample.encode_to_vec();
    let message = [label("__name__", "up"), sample, label("job", "a")].concat();
    let request = [&[0x0a, message.len() as u8][..], &message].concat();
    let (samples, ..) = decode(Version::V1, &request, 10).unwrap();
    let whole = [one(&[("__name__", "up"), ("job", "a")], 1, 5.0)];
    assert_eq!(samples, expected(&whole));
}

#[test]
fn times_that_do_not_fit_are_rejected_alone() {
    let mut series = one(&[("__name__", "up")], i64::MAX, 1.0);
    series.1.push((1_000, 2.0));
    for (version, bytes) in [
        (Version::V1, version_1(std::slice::from_ref(&series))),
        (Version::V2, version_2(std::slice::from_ref(&series))),
    ] {
        let (samples, rejections, _) = decode(version, &bytes, 10).unwrap();
        assert_eq!(samples.len(), 1);
        assert_eq!((rejections.samples, rejections.histograms), (1, 0));
        assert_eq!(rejections.listed[0].name, "up");
    }
}

#[test]
fn references_to_nowhere_reject_their_series_alone() {
    let sample = v2::Sample {
        value: 1.0,
        ms: 1,
        start_ms: 0,
    };
    let series = |labels_refs| v2::TimeSeries {
        labels_refs,
        samples: vec![sample],
        ..Default::default()
    };
    let request = v2::Request {
        symbols: ["", "__name__", "up"].map(str::to_string).to_vec(),
        series: vec![series(vec![1, 3]), series(vec![1]), series(vec![1, 2])],
    };
    let (samples, rejections, _) = decode(Version::V2, &request.encode_to_vec(), 10).unwrap();
    assert_eq!(samples.len(), 1);
    let listed: Vec<u64> = rejections.listed.iter().map(|one| one.series).collect();
    assert_eq!((rejections.samples, listed), (2, vec![1, 2]));
}

#[test]
fn metadata_are_found_once_per_metric() {
    let metadata = v1::MetricMetadata {
        kind: 1,
        family: "requests_total".to_string(),
        help: "Requests".to_string(),
        unit: "requests".to_string(),
    };
    let request = v1::WriteRequest {
        series: Vec::new(),
        metadata: vec![metadata],
    };
    let second = v2::TimeSeries {
        labels_refs: vec![1, 2],
        metadata: Some(v2::Metadata {
            kind: 3,
            help_ref: 3,
            unit_ref: 0,
        }),
        ..Default::default()
    };
    let request_2 = v2::Request {
        symbols: ["", "__name__", "delay_bucket", "Delay"]
            .map(str::to_string)
            .to_vec(),
        series: vec![second.clone(), second],
    };
    let read = |version, bytes: Vec<u8>| {
        let arena = Arena::new();
        let mut decoder = WriteDecoder::new(version, &bytes).unwrap();
        decoder.fill(10, &arena, &mut Batch::new()).unwrap();
        let texts = decoder.metadata.iter().map(|one| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(one.family), one.kind, text(one.help), text(one.unit))
        });
        texts.collect::<Vec<_>>()
    };
    let text = str::to_string;
    assert_eq!(
        read(Version::V1, request.encode_to_vec()),
        [(
            text("requests_total"),
            "counter",
            text("Requests"),
            text("requests")
        )]
    );
    assert_eq!(
        read(Version::V2, request_2.encode_to_vec()),
        [(text("delay"), "histogram", text("Delay"), text(""))]
    );
}
