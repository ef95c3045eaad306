//! Lines of StatsD. No bytes cause a panic, and a metric has finite values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::Notation;
use seiner_wire::line::LineNotation;
use seiner_wire::statsd::{Line, MAX_VALUES, Value, decode_line};

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(Line::Metric(metric)) = decode_line(line) else {
            continue;
        };
        assert!((1..=MAX_VALUES).contains(&metric.values.len()));
        assert!(metric.weight >= 1.0 && metric.weight.is_finite());
        assert!(metric.time.is_none_or(|time| time > 0));
        for value in &metric.values {
            match value {
                Value::Number(number) | Value::Change(number) => assert!(number.is_finite()),
                Value::Member(member) => assert!(!member.is_empty()),
            }
        }
        let _ = LineNotation.source_key(&metric.name);
    }
});
