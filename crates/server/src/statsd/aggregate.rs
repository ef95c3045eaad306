//! Metrics of the present interval in memory.

use super::times::{FIELDS, Times};
use seiner_wire::statsd::{Kind, Metric, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes that a metric takes besides its name and its values, approximately.
const METRIC_BYTES: usize = 256;
/// Bytes that a member of a set takes besides its text, approximately.
const MEMBER_BYTES: usize = 48;
/// Bytes that a value with a time takes, approximately.
const TIMED_BYTES: usize = 32;
/// Time in ns without a value after which a gauge is forgotten.
const FORGET: i64 = 3_600_000_000_000;
/// Field of metrics with one value.
const VALUE: &str = "value";

/// Metrics by their names.
pub struct Aggregator {
    metrics: HashMap<Box<[u8]>, State>,
    /// Values of counters and gauges that stated a time in ns.
    timed: HashMap<Box<[u8]>, BTreeMap<i64, f64>>,
    /// Bytes of all metrics.
    bytes: usize,
    limit: usize,
}

/// Values of a metric.
enum State {
    Counter(f64),
    Gauge {
        value: f64,
        /// True if a value arrived in this interval.
        is_new: bool,
        /// Time in ns of the last row.
        stored: i64,
    },
    /// In a box, because most metrics are counters or gauges.
    Times(Box<Times>),
    Set(HashSet<Box<str>>),
}

/// Row of a metric.
#[derive(Debug, PartialEq)]
pub struct Aggregated {
    /// Name of the source.
    pub name: Box<[u8]>,
    /// Time in ns: the end of the interval, or the one that the client stated.
    pub time: i64,
    /// Fields with their values.
    pub fields: Vec<(&'static str, f64)>,
}

impl Aggregator {
    /// Creates an empty list with a limit in bytes.
    pub fn new(limit: usize) -> Aggregator {
        Aggregator {
            metrics: HashMap::new(),
            timed: HashMap::new(),
            bytes: 0,
            limit,
        }
    }

    /// Returns the number of metrics and of their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.metrics.len() + self.timed.len(), self.bytes)
    }

    /// Adds the values of a line, all or none.
    ///
    /// # Errors
    /// If they need more memory than is left: the limit.
    pub fn accept(&mut self, metric: &Metric<'_>) -> Result<(), usize> {
        if let Some(time) = metric.time {
            return self.accept_timed(metric, time);
        }
        let known = self.metrics.get(&*metric.name);
        let values = match known {
            Some(state) => state.growth(&metric.values),
            None => State::new(metric.kind).growth(&metric.values) + entry_bytes(&metric.name),
        };
        if self.bytes + values > self.limit {
            return Err(self.limit);
        }
        self.bytes += values;
        if known.is_none() {
            let name = metric.name.clone().into_boxed_slice();
            self.metrics.insert(name, State::new(metric.kind));
        }
        if let Some(state) = self.metrics.get_mut(&*metric.name) {
            for value in &metric.values {
                state.add(*value, metric.weight);
            }
        }
        Ok(())
    }

    /// Adds values with a time. Those of a counter with equal times are added up. The last one of a gauge counts.
    fn accept_timed(&mut self, metric: &Metric<'_>, time: i64) -> Result<(), usize> {
        let known = self.timed.get(&*metric.name);
        let mut added = known.map_or_else(|| entry_bytes(&metric.name), |_| 0);
        if known.is_none_or(|values| !values.contains_key(&time)) {
            added += TIMED_BYTES;
        }
        if self.bytes + added > self.limit {
            return Err(self.limit);
        }
        self.bytes += added;
        if known.is_none() {
            let name = metric.name.clone().into_boxed_slice();
            self.timed.insert(name, BTreeMap::new());
        }
        let Some(values) = self.timed.get_mut(&*metric.name) else {
            return Ok(());
        };
        let sum = values.entry(time).or_insert(0.0);
        for value in &metric.values {
            match (metric.kind, value) {
                (Kind::Counter, Value::Number(number)) => *sum += number * metric.weight,
                (_, Value::Number(number)) => *sum = *number,
                // The decoder gives a time to numbers only.
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the interval at a time in ns. Returns its rows, in no order. Only gauges stay.
    pub fn take(&mut self, time: i64) -> Vec<Aggregated> {
        let mut rows = Vec::new();
        let mut gauges = HashMap::new();
        for (name, state) in std::mem::take(&mut self.metrics) {
            let fields = match state {
                State::Counter(sum) => vec![(VALUE, sum)],
                State::Set(members) => vec![(VALUE, members.len() as f64)],
                State::Times(times) => FIELDS.into_iter().zip(times.fields()).collect(),
                State::Gauge {
                    value,
                    is_new,
                    stored,
                } => {
                    if is_new || time.saturating_sub(stored) < FORGET {
                        let kept = State::Gauge {
                            value,
                            is_new: false,
                            stored: if is_new { time } else { stored },
                        };
                        gauges.insert(name.clone(), kept);
                    }
                    if !is_new {
                        continue;
                    }
                    vec![(VALUE, value)]
                }
            };
            rows.push(Aggregated { name, time, fields });
        }
        for (name, values) in std::mem::take(&mut self.timed) {
            rows.extend(values.into_iter().map(|(time, value)| Aggregated {
                name: name.clone(),
                time,
                fields: vec![(VALUE, value)],
            }));
        }
        self.bytes = gauges.keys().map(|name| entry_bytes(name)).sum();
        self.metrics = gauges;
        rows
    }
}

impl State {
    fn new(kind: Kind) -> State {
        match kind {
            Kind::Counter => State::Counter(0.0),
            Kind::Gauge => State::Gauge {
                value: 0.0,
                is_new: false,
                stored: 0,
            },
            Kind::Timing | Kind::Histogram | Kind::Distribution => {
                State::Times(Box::new(Times::new()))
            }
            Kind::Set => State::Set(HashSet::new()),
        }
    }

    /// Returns the bytes by which values grow the metric.
    fn growth(&self, values: &[Value<'_>]) -> usize {
        match self {
            State::Counter(_) | State::Gauge { .. } => 0,
            State::Times(times) => times.growth(values.len()),
            State::Set(members) => {
                let new = values.iter().filter_map(|value| match value {
                    Value::Member(member) if !members.contains(*member) => Some(member.len()),
                    _ => None,
                });
                new.map(|len| len + MEMBER_BYTES).sum()
            }
        }
    }

    fn add(&mut self, given: Value<'_>, weight: f64) {
        match (self, given) {
            (State::Counter(sum), Value::Number(number)) => *sum += number * weight,
            (State::Gauge { value, is_new, .. }, Value::Number(number)) => {
                (*value, *is_new) = (number, true);
            }
            (State::Gauge { value, is_new, .. }, Value::Change(change)) => {
                (*value, *is_new) = (*value + change, true);
            }
            (State::Times(times), Value::Number(number)) => times.add(number, weight),
            (State::Set(members), Value::Member(member)) => {
                members.insert(member.into());
            }
            // The name contains the type, and the decoder gives each type its values.
            _ => {}
        }
    }
}

fn entry_bytes(name: &[u8]) -> usize {
    name.len() + METRIC_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_wire::statsd::{Line, decode_line};

    fn add(aggregator: &mut Aggregator, line: &str) -> Result<(), usize> {
        match decode_line(line.as_bytes()) {
            Ok(Line::Metric(metric)) => aggregator.accept(&metric),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Returns the rows of an interval as texts, sorted.
    fn rows(aggregator: &mut Aggregator, time: i64) -> Vec<String> {
        let rows = aggregator.take(time).into_iter().map(|row| {
            let name = String::from_utf8(row.name.into()).unwrap();
            let values = row
                .fields
                .iter()
                .map(|(field, value)| format!(" {field}={value}"));
            name + &values.collect::<String>()
        });
        let mut rows: Vec<String> = rows.collect();
        rows.sort();
        rows
    }

    #[test]
    fn values_of_an_interval_are_one_row() {
        let mut aggregator = Aggregator::new(1 << 20);
        for line in [
            "a:1|c",
            "a:2|c|@0.5",
            "a:1|g",
            "g:5|g",
            "g:+2|g",
            "g:-4|g",
            "s:x|s",
            "s:y|s",
            "s:x|s",
            "t:1:3|ms",
            "t:1|h",
        ] {
            add(&mut aggregator, line).unwrap();
        }
        let expected = [
            "a,metric_type=counter value=5",
            "a,metric_type=gauge value=1",
            "g,metric_type=gauge value=3",
            "s,metric_type=set value=2",
            "t,metric_type=histogram count=1 mean=1 upper=1 lower=1 stddev=0 sum=1 90_percentile=1",
            "t,metric_type=timing count=2 mean=2 upper=3 lower=1 stddev=1 sum=4 90_percentile=3",
        ];
        assert_eq!(rows(&mut aggregator, 1), expected);
        assert!(rows(&mut aggregator, 2).is_empty());
    }

    #[test]
    fn gauges_stay_for_changes_and_are_forgotten_later() {
        let mut aggregator = Aggregator::new(1 << 20);
        add(&mut aggregator, "g:5|g").unwrap();
        assert_eq!(rows(&mut aggregator, 1), ["g,metric_type=gauge value=5"]);
        add(&mut aggregator, "g:+1|g").unwrap();
        assert_eq!(rows(&mut aggregator, 2), ["g,metric_type=gauge value=6"]);
        assert!(rows(&mut aggregator, FORGET).is_empty());
        assert_eq!(aggregator.size().0, 1);
        assert!(rows(&mut aggregator, FORGET + 2).is_empty());
        assert_eq!(aggregator.size(), (0, 0));
    }

    #[test]
    fn values_with_a_time_are_rows_of_their_own() {
        let mut aggregator = Aggregator::new(1 << 20);
        for line in [
            "a:1|c",
            "a:2|c|T2000000000",
            "a:3:4|c|@0.5|T2000000000",
            "a:5|c|T2000000001",
            "g:1|g|T2000000000",
            "g:2|g|T2000000000",
        ] {
            add(&mut aggregator, line).unwrap();
        }
        assert_eq!(aggregator.size().0, 3);
        let mut found: Vec<_> = aggregator.take(7).into_iter().collect();
        found.sort_by(|a, b| (&a.name, a.time).cmp(&(&b.name, b.time)));
        let found: Vec<(i64, f64)> = found
            .iter()
            .map(|row| (row.time, row.fields[0].1))
            .collect();
        let (first, second) = (2_000_000_000_000_000_000, 2_000_000_001_000_000_000);
        assert_eq!(
            found,
            [(7, 1.0), (first, 16.0), (second, 5.0), (first, 2.0)]
        );
        assert_eq!(aggregator.size(), (0, 0));
    }

    #[test]
    fn memory_is_limited_for_names_values_and_members() {
        for line in [
            "m{}:1|c",
            "t:{}|ms|#a:{}",
            "s:{}|s",
            "g{}:1|g",
            "m:1|c|T20000{}",
        ] {
            let mut aggregator = Aggregator::new(20_000);
            let of = |n: usize| line.replace("{}", &format!("{n:05}"));
            let accepted = (0..1000).take_while(|n| add(&mut aggregator, &of(*n)).is_ok());
            let accepted = accepted.count();
            assert!((10..1000).contains(&accepted), "{line}: {accepted}");
            assert_eq!(add(&mut aggregator, &of(1000)), Err(20_000));
            // Known metrics still count.
            if line.ends_with("|c") {
                assert_eq!(add(&mut aggregator, &of(0)), Ok(()));
            }
            assert!(aggregator.size().1 <= 20_000);
            aggregator.take(1);
            assert_eq!(aggregator.size().1 > 0, line.ends_with("|g"), "{line}");
        }
    }
}
