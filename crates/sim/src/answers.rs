//! Comparison of the engine's answers with those of the oracle.

use crate::datum::Datum;
use crate::generator::{DRAWN, Generator};
use crate::samples::{Samples, Series, each, first_difference};
use seiner_engine::{Bucket, Engine, Error, Exact, Query, SeriesData, SeriesSummary, Step};
use seiner_model::{FieldType, Interval, Selector, SourceKey};
use seiner_platform::sim::Rng;
use std::collections::{BTreeMap, HashMap};

/// Result of a comparison that did not succeed.
pub(crate) enum CheckError {
    /// The engine returned an error.
    Failed(Error),
    /// The answer is wrong.
    Wrong(String),
}

impl From<Error> for CheckError {
    fn from(error: Error) -> CheckError {
        CheckError::Failed(error)
    }
}

/// Indices of sources in the generator, by key.
#[derive(Clone)]
pub(crate) struct SourceIndex(HashMap<SourceKey, u32>);

impl SourceIndex {
    pub(crate) fn of(generator: &Generator) -> SourceIndex {
        SourceIndex(
            generator
                .sources
                .iter()
                .enumerate()
                .map(|(at, member)| (member.key.clone(), at as u32))
                .collect(),
        )
    }

    pub(crate) fn series(&self, key: &SourceKey, field: &str) -> Result<Series, CheckError> {
        match (self.0.get(key), Generator::field(field)) {
            (Some(&source), Some(field)) => Ok((source, field)),
            _ => Err(CheckError::Wrong(format!("{key} {field:?} was never sent"))),
        }
    }

    fn note(&self, data: &SeriesData, samples: &mut Samples) -> Result<(), CheckError> {
        let series = self.series(&data.key, &data.field)?;
        if data.times.is_empty() || data.times.len() != data.values.len() {
            return Err(CheckError::Wrong(format!(
                "{series:?}: {} times, {} values",
                data.times.len(),
                data.values.len()
            )));
        }
        if !data.times.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(CheckError::Wrong(format!(
                "{series:?}: times do not ascend"
            )));
        }
        let values = (0..data.values.len()).map(|index| Datum::of(data.values.get(index)));
        if samples
            .insert(series, data.times.iter().copied().zip(values).collect())
            .is_some()
        {
            return Err(CheckError::Wrong(format!("{series:?} twice in one answer")));
        }
        Ok(())
    }
}

/// Returns the query for everything in the store.
pub(crate) fn everything() -> Query {
    Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    }
}

/// Returns the engine's answer to a query.
pub(crate) fn select(
    engine: &Engine,
    source_index: &SourceIndex,
    query: &Query,
) -> Result<Samples, CheckError> {
    let mut samples = Samples::new();
    let mut last_source = None;
    for data in engine.select(query)? {
        let data = data?;
        if last_source > Some(data.source) {
            return Err(CheckError::Wrong(format!(
                "{:?} after {last_source:?}",
                data.source
            )));
        }
        last_source = Some(data.source);
        source_index.note(&data, &mut samples)?;
    }
    Ok(samples)
}

/// Measurement of sources whose names are lost.
const LOST: &str = "seiner_lost_source";

/// Returns the samples that a damaged store still returns under correct names, and the number of
/// errors that it reported.
pub(crate) fn select_remains(
    engine: &Engine,
    source_index: &SourceIndex,
) -> Result<(Samples, usize), CheckError> {
    let (mut samples, mut errors) = (Samples::new(), 0);
    for data in engine.select(&everything())? {
        match data {
            Ok(data) if data.key.measurement() == LOST => {}
            Ok(data) => source_index.note(&data, &mut samples)?,
            Err(Error::Damage { .. }) => errors += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((samples, errors))
}

/// Draws a random query for some series and some interval.
pub(crate) fn draw_query(rng: &mut Rng, generator: &Generator, live: &Samples) -> Query {
    let times: Vec<i64> = each(live).map(|(_, time, _)| time).collect();
    let mut time = || match rng.below(8) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => 0,
        _ if times.is_empty() => 0,
        near => rng.pick(&times).saturating_add(near as i64 - 5),
    };
    let (a, b) = (time(), time());
    let interval = match rng.below(10) {
        0 => Interval::new(a.max(b), a.min(b)),
        1..4 => Interval::ALL,
        _ => Interval::new(a.min(b), a.max(b)),
    };
    let fields = rng.chance(1, 3).then(|| {
        let mut fields: Vec<String> = (0..DRAWN as u32)
            .map(|field| Generator::field_name(field).to_string())
            .collect();
        fields.retain(|_| rng.chance(1, 3));
        fields
    });
    Query {
        selector: generator.selector(rng),
        fields,
        interval,
    }
}

/// Returns the oracle's answer to a query.
fn expected(query: &Query, generator: &Generator, live: &Samples) -> Samples {
    let wanted = |series: &Series| {
        query
            .selector
            .holds(&generator.sources[series.0 as usize].key)
            && query.fields.as_ref().is_none_or(|fields| {
                fields
                    .iter()
                    .any(|field| field == Generator::field_name(series.1))
            })
    };
    let within = |samples: &BTreeMap<i64, Datum>| -> BTreeMap<i64, Datum> {
        samples
            .iter()
            .filter(|(time, _)| query.interval.contains(**time))
            .map(|(&t, d)| (t, d.clone()))
            .collect()
    };
    live.iter()
        .filter(|(series, _)| wanted(series))
        .map(|(&series, samples)| (series, within(samples)))
        .filter(|(_, samples)| !samples.is_empty())
        .collect()
}

/// Compares a selection bit by bit.
pub(crate) fn check_select(
    engine: &Engine,
    source_index: &SourceIndex,
    query: &Query,
    generator: &Generator,
    live: &Samples,
) -> Result<(), CheckError> {
    let found = select(engine, source_index, query)?;
    match first_difference(&expected(query, generator, live), &found) {
        None => Ok(()),
        Some(difference) => Err(CheckError::Wrong(format!("select {query:?}: {difference}"))),
    }
}

/// Compares aggregates: sums within rounding, all others exactly.
pub(crate) fn check_aggregate(
    engine: &Engine,
    source_index: &SourceIndex,
    query: &Query,
    step: Step,
    generator: &Generator,
    live: &Samples,
) -> Result<(), CheckError> {
    let mut found: BTreeMap<Series, SeriesSummary> = BTreeMap::new();
    for summary in engine.aggregate(query, step)? {
        let summary = summary?;
        let series = source_index.series(&summary.key, &summary.field)?;
        if found.insert(series, summary).is_some() {
            return Err(CheckError::Wrong(format!("aggregate: {series:?} twice")));
        }
    }
    let expected = expected(query, generator, live);
    let wrong = |what: String| {
        Err(CheckError::Wrong(format!(
            "aggregate {query:?} {step:?}: {what}"
        )))
    };
    if !found.keys().eq(expected.keys()) {
        return wrong(format!(
            "series {:?}, expected {:?}",
            found.keys(),
            expected.keys()
        ));
    }
    for (series, samples) in &expected {
        let summary = &found[series];
        let buckets = buckets_of(samples, step);
        if summary.buckets.len() != buckets.len() {
            return wrong(format!(
                "{series:?}: {} buckets, expected {}",
                summary.buckets.len(),
                buckets.len()
            ));
        }
        for (bucket, (start, samples)) in summary.buckets.iter().zip(&buckets) {
            if let Err(what) = check_bucket(bucket, *start, samples, summary.field_type) {
                return wrong(format!("{series:?}, bucket {start}: {what}"));
            }
        }
    }
    Ok(())
}

type Run<'a> = Vec<(i64, &'a Datum)>;

fn buckets_of(samples: &BTreeMap<i64, Datum>, step: Step) -> Vec<(i64, Run<'_>)> {
    let mut buckets: Vec<(i64, Run<'_>)> = Vec::new();
    for (&time, datum) in samples {
        let start = match step {
            Step::Whole => buckets.first().map_or(time, |bucket| bucket.0),
            // The bucket that contains the first possible time may begin before it.
            Step::Every(ns) => time.div_euclid(ns).checked_mul(ns).unwrap_or(i64::MIN),
        };
        match buckets.last_mut() {
            Some((last, run)) if *last == start => run.push((time, datum)),
            _ => buckets.push((start, vec![(time, datum)])),
        }
    }
    buckets
}

fn check_bucket(
    bucket: &Bucket,
    start: i64,
    run: &Run<'_>,
    field_type: FieldType,
) -> Result<(), String> {
    let numbers: Vec<f64> = run.iter().map(|(_, datum)| datum.number()).collect();
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let check = |what: &str, holds: bool| {
        if holds {
            Ok(())
        } else {
            Err(format!(
                "{what}: {bucket:?} of {:?}",
                &run[..run.len().min(20)]
            ))
        }
    };
    check("start", bucket.start == start)?;
    check("count", bucket.count == run.len() as u64)?;
    check("type", field_type == run[0].1.field_type())?;
    check("exact", bucket.exact == exact_of(run))?;
    let ends = [
        (bucket.first, run[0].0, numbers[0]),
        (
            bucket.last,
            run[run.len() - 1].0,
            numbers[numbers.len() - 1],
        ),
    ];
    for ((time, value), expected_time, expected) in ends {
        check(
            "first or last",
            time == expected_time && same(value, expected),
        )?;
    }
    check(
        "min",
        same(bucket.min, numbers.iter().copied().fold(f64::NAN, f64::min)),
    )?;
    check(
        "max",
        same(bucket.max, numbers.iter().copied().fold(f64::NAN, f64::max)),
    )?;
    let sum: f64 = numbers.iter().sum();
    let size: f64 = numbers.iter().map(|number| number.abs()).sum();
    if size.is_finite() {
        check("sum", (bucket.sum - sum).abs() <= 1e-9 * size)?;
        check(
            "mean",
            (bucket.mean() - sum / numbers.len() as f64).abs() <= 1e-9 * size,
        )?;
    } else if numbers.iter().any(|number| number.is_nan()) {
        check("sum", bucket.sum.is_nan())?;
    }
    Ok(())
}

/// Returns the exact figures if all values are integers.
fn exact_of(run: &Run<'_>) -> Option<Exact> {
    let integer = |(_, datum): &(i64, &Datum)| match datum {
        Datum::I64(value) => Some(i128::from(*value)),
        Datum::U64(value) => Some(i128::from(*value)),
        _ => None,
    };
    let values: Vec<i128> = run.iter().map(integer).collect::<Option<_>>()?;
    Some(Exact {
        sum: values.iter().sum(),
        min: *values.iter().min()?,
        max: *values.iter().max()?,
        first: *values.first()?,
        last: *values.last()?,
    })
}

/// Compares the engine's list of sources: at least those with samples, at most those ever sent.
pub(crate) fn check_catalog(
    engine: &Engine,
    source_index: &SourceIndex,
    selector: &Selector,
    generator: &Generator,
    live: &Samples,
) -> Result<(), CheckError> {
    let wrong = |what: String| {
        Err(CheckError::Wrong(format!(
            "catalog of {selector:?}: {what}"
        )))
    };
    let mut listed = Vec::new();
    for id in engine.sources(selector)? {
        match engine
            .source_key(id)?
            .as_ref()
            .map(|key| (source_index.0.get(key), selector.holds(key)))
        {
            Some((Some(&source), true)) => listed.push(source),
            other => return wrong(format!("{id:?} is {other:?}")),
        }
    }
    let holds = |source: u32| selector.holds(&generator.sources[source as usize].key);
    let fields = engine.fields(selector)?;
    for series in live.keys().filter(|series| holds(series.0)) {
        let key = &generator.sources[series.0 as usize].key;
        let name = Generator::field_name(series.1);
        if !listed.contains(&series.0) {
            return wrong(format!("{key} is missing from the sources"));
        }
        if !fields.iter().any(|(field, _)| field == name) {
            return wrong(format!("{name} is missing from the fields"));
        }
        if !engine
            .measurements()?
            .iter()
            .any(|measurement| measurement == key.measurement())
        {
            return wrong(format!(
                "{} is missing from the measurements",
                key.measurement()
            ));
        }
        if !engine
            .tag_values(selector, "host", usize::MAX)?
            .iter()
            .any(|value| value == key.tag("host"))
        {
            return wrong(format!(
                "{} is missing from the values of host",
                key.tag("host")
            ));
        }
        if !engine.tag_names(selector)?.iter().any(|tag| tag == "host") {
            return wrong("host is missing from the tags".to_string());
        }
    }
    listed.sort_unstable();
    if listed.windows(2).any(|pair| pair[0] == pair[1]) {
        return wrong(format!("a source twice: {listed:?}"));
    }
    Ok(())
}
