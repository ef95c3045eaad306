//! Aggregates and time ranges of queries.

use super::*;

/// Aggregates are exact although blocks store aggregates as f64, which rounds integers from 2^53 on
/// and sums of smaller integers.
#[test]
fn aggregates_of_integers_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    // Blocks with stored aggregates have at least 256 rows.
    let options = Options {
        block_bytes: 32 << 10,
        ..small()
    };
    let engine = Engine::open_directory(dir.path(), options).unwrap();
    let source = SourceKey::new("m", [("s", "1")]).unwrap();
    let source = engine.register(&source).unwrap();
    let rows = 3000_i64;
    // Values around 2^53, in the range of rounded sums, far below that range, and at the ends of the types.
    let signed = |row: i64| match row / 500 {
        0 => (1 << 53) + row,
        1 => -(1 << 53) - row,
        2 => (1 << 45) + row,
        3 => row,
        4 => i64::MAX - row % 3,
        _ => i64::MIN + row % 3,
    };
    let unsigned = |row: i64| match row / 1000 {
        0 => u64::MAX - row as u64,
        1 => row as u64,
        _ => 1 << 63 | row as u64,
    };
    for part in 0..6 {
        let own: Vec<i64> = (part * 500..(part + 1) * 500).collect();
        let field = |values| FieldColumn {
            present: None,
            values,
        };
        let columns = Columns {
            fields: vec![
                field(Column::I64(own.iter().map(|&row| signed(row)).collect())),
                field(Column::U64(own.iter().map(|&row| unsigned(row)).collect())),
            ],
            times: own,
        };
        let receipt = engine.append_columns(source, &["i", "u"], &columns);
        assert_eq!(receipt.unwrap().rows, 500);
        // The last part stays in a buffer.
        if part < 5 {
            engine.flush().unwrap();
        }
    }
    for step in [500, 1000, 7, rows] {
        let found = engine.aggregate(&all("m"), Step::Every(step)).unwrap();
        for series in found {
            let series = series.unwrap();
            let value = |row: i64| match &*series.field {
                "i" => i128::from(signed(row)),
                _ => i128::from(unsigned(row)),
            };
            let mut starts = 0;
            for bucket in &series.buckets {
                let inside = bucket.start..rows.min(bucket.start + step);
                let values: Vec<i128> = inside.map(value).collect();
                let expected = Exact {
                    sum: values.iter().sum(),
                    min: *values.iter().min().unwrap(),
                    max: *values.iter().max().unwrap(),
                    first: values[0],
                    last: values[values.len() - 1],
                };
                assert_eq!(bucket.exact, Some(expected), "{} {step}", series.field);
                let mean = expected.sum as f64 / values.len() as f64;
                assert_eq!(bucket.mean(), mean);
                starts += 1;
            }
            assert_eq!(starts, (rows + step - 1) / step);
        }
    }
}

#[test]
fn aggregates_agree_with_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    write(&engine, "m,s=1", walk(5000));
    engine.flush().unwrap();
    write(&engine, "m,s=1", walk(6000).skip(5000));
    for (late, step) in [
        (false, 1_000_000_000_000),
        (false, 60_000_000_000),
        (false, i64::MAX),
        (true, 1_000_000_000_000),
    ] {
        if late {
            write(
                &engine,
                "m,s=1",
                [(15_000_000_000, 99.0), (30_000_000_000_000, -4.0)].into_iter(),
            );
        }
        let samples = read(&engine, "m");
        let summary = engine
            .aggregate(&all("m"), Step::Every(step))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let mut at = 0;
        for bucket in summary.buckets {
            let inside: Vec<&(i64, f64)> = samples
                .iter()
                .filter(|(time, _)| time.div_euclid(step) * step == bucket.start)
                .collect();
            assert_eq!(bucket.count as usize, inside.len());
            assert!((bucket.sum - inside.iter().map(|(_, value)| value).sum::<f64>()).abs() < 1e-6);
            assert_eq!(
                bucket.min,
                inside
                    .iter()
                    .map(|(_, value)| *value)
                    .fold(f64::NAN, f64::min)
            );
            assert_eq!(
                bucket.max,
                inside
                    .iter()
                    .map(|(_, value)| *value)
                    .fold(f64::NAN, f64::max)
            );
            assert_eq!(
                (&bucket.first, &bucket.last),
                (inside[0], inside[inside.len() - 1])
            );
            at += inside.len();
        }
        assert_eq!(at, samples.len());
        let whole: Vec<_> = engine
            .aggregate(&all("m"), Step::Whole)
            .unwrap()
            .map(|series| series.unwrap().buckets)
            .collect();
        assert_eq!(
            (whole.len(), whole[0].len(), whole[0][0].count as usize),
            (1, 1, samples.len())
        );
    }
    let interval = Interval::new(95_000_000_000, 205_000_000_000);
    let some = engine
        .aggregate(
            &Query {
                interval,
                ..all("m")
            },
            Step::Whole,
        )
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (some.buckets[0].count, some.buckets[0].first.0),
        (11, 100_000_000_000)
    );
    assert!(engine.aggregate(&all("m"), Step::Every(0)).is_err());
}

#[test]
fn the_time_range_of_a_query_covers_sealed_and_open_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    write(&engine, "m,s=1", (5..300).map(|time| (time, 1.0)));
    engine.flush().unwrap();
    write(&engine, "m,s=1", [(-7, 1.0)].into_iter());
    write(&engine, "m,s=2", [(900, 1.0)].into_iter());
    let range = |text: &str, sources| engine.time_range(&all(text), sources);
    assert_eq!(range("m", 16), Some(Interval::new(-7, 900)));
    assert_eq!(
        range("m", 1),
        Some(Interval::new(-7, 299)),
        "only the given number of sources is read"
    );
    assert_eq!(range("m{s=2}", 16), Some(Interval::new(900, 900)));
    assert_eq!(range("nothing", 16), None);
    let unknown = Query {
        fields: Some(vec!["none".to_string()]),
        ..all("m")
    };
    assert_eq!(engine.time_range(&unknown, 16), None);
    let selector = Selector::parse("m{s=2}").unwrap();
    engine.delete(&selector, Interval::ALL).unwrap();
    assert_eq!(
        range("m", 16),
        Some(Interval::new(-7, 299)),
        "the other source was deleted"
    );
}
