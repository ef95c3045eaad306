//! Query, parsed from its address.

use crate::api_error::ApiError;
use seiner_model::{Interval, Selector, parse_duration, parse_moment};
use seiner_store::Query;
use seiner_wire::answer::{Format, TimeUnit};
use serde::Deserialize;

/// Parameters of a query, not parsed: every value is a text, so that every error comes from this module.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Parameters {
    /// Selector.
    pub select: Option<String>,
    /// Names of fields, separated by commas; empty for all.
    pub fields: Option<String>,
    /// Earliest time.
    pub from: Option<String>,
    /// Latest time.
    pub to: Option<String>,
    /// Length of a bucket, a duration.
    pub step: Option<String>,
    /// Maximum number of buckets.
    pub points: Option<String>,
    /// Names of aggregates, separated by commas.
    pub aggregate: Option<String>,
    /// Maximum number of series.
    pub limit: Option<String>,
    /// Notation: `json`, `csv` or `arrow`.
    pub format: Option<String>,
    /// Unit of times: `ns` or `ms`.
    pub times: Option<String>,
    /// `false` omits the last line of a truncated CSV answer.
    pub marker: Option<String>,
    /// `long` or `wide`.
    pub shape: Option<String>,
}

impl Parameters {
    /// Returns the names and texts of the given parameters, as in an address.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("marker", &self.marker),
            ("select", &self.select),
            ("fields", &self.fields),
            ("from", &self.from),
            ("to", &self.to),
            ("step", &self.step),
            ("points", &self.points),
            ("aggregate", &self.aggregate),
            ("limit", &self.limit),
            ("format", &self.format),
            ("times", &self.times),
            ("shape", &self.shape),
        ];
        all.into_iter()
            .filter_map(|(name, text)| Some((name, text.clone()?)))
            .collect()
    }
}

/// Aggregate of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Number of samples.
    Count,
    /// Sum.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Earliest sample.
    First,
    /// Latest sample.
    Last,
    /// Arithmetic mean.
    Mean,
}

impl Aggregate {
    const ALL: [(&'static str, Aggregate); 7] = [
        ("count", Aggregate::Count),
        ("sum", Aggregate::Sum),
        ("min", Aggregate::Min),
        ("max", Aggregate::Max),
        ("first", Aggregate::First),
        ("last", Aggregate::Last),
        ("mean", Aggregate::Mean),
    ];

    /// Returns the name in addresses and answers.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Shape of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Series by series: one value per row, with the name of its field.
    #[default]
    Long,
    /// Rows as they were written, with one column per tag and per field.
    Wide,
}

/// Query that can be run.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// Selection of samples.
    pub query: Query,
    /// Length of a bucket, ns; `None` for raw samples.
    pub step: Option<i64>,
    /// Aggregates of each bucket.
    pub aggregates: Vec<Aggregate>,
    /// Maximum number of series.
    pub limit: usize,
    /// Notation of the answer.
    pub format: Format,
    /// Notation of times.
    pub time_unit: TimeUnit,
    /// Shape of the answer. A wide answer has neither steps nor a limit.
    pub shape: Shape,
    /// True for the latest sample of each series only.
    pub latest: bool,
    /// True if a truncated CSV answer ends in a line that reports it.
    pub marker: bool,
    /// Notes on the interpretation of the address.
    pub notes: Vec<String>,
}

impl QueryPlan {
    /// Parses the parameters. `now` is in ns.
    ///
    /// # Errors
    /// 400 with the mistake and the correct form.
    pub fn read(parameters: &Parameters, now: i64) -> Result<QueryPlan, ApiError> {
        let Some(select) = &parameters.select else {
            return Err(ApiError::invalid(
                "select is missing; write select=cpu{host=\"a\"}, or select={} for all sources",
            ));
        };
        let fields = parameters
            .fields
            .as_deref()
            .filter(|fields| !fields.is_empty());
        let mut notes = Vec::new();
        let query = Query {
            selector: Selector::parse(select).map_err(ApiError::invalid)?,
            fields: fields.map(|fields| fields.split(',').map(str::to_string).collect()),
            interval: interval(parameters, now, &mut notes)?,
        };
        let step = step(parameters, query.interval)?;
        let aggregates = aggregates(parameters.aggregate.as_deref())?;
        if step.is_none() && parameters.aggregate.is_some() {
            return Err(ApiError::invalid(
                "aggregate needs steps; give step=10s, or points=1000",
            ));
        }
        let shape = shape(parameters)?;
        Ok(QueryPlan {
            query,
            step,
            aggregates,
            limit: number("limit", parameters.limit.as_deref())?.unwrap_or(usize::MAX),
            format: parameters
                .format
                .as_deref()
                .unwrap_or("json")
                .parse()
                .map_err(ApiError::invalid)?,
            time_unit: match parameters.times.as_deref() {
                None | Some("ns") => TimeUnit::Ns,
                Some("ms") => TimeUnit::Ms,
                Some(other) => {
                    return Err(ApiError::invalid(format!(
                        "times {other:?} is neither ns nor ms"
                    )));
                }
            },
            marker: match parameters.marker.as_deref() {
                None | Some("true") => true,
                Some("false") => false,
                Some(other) => {
                    return Err(ApiError::invalid(format!(
                        "marker {other:?} is neither true nor false"
                    )));
                }
            },
            shape,
            latest: false,
            notes,
        })
    }

    /// Parses the parameters of a query for the latest sample of each series. Without `from`, the interval has no begin.
    ///
    /// # Errors
    /// As [`QueryPlan::read`].
    pub fn read_latest(parameters: &Parameters, now: i64) -> Result<QueryPlan, ApiError> {
        let mut plan = QueryPlan::read(parameters, now)?;
        if parameters.from.is_none() {
            plan.query.interval.start = i64::MIN;
        }
        plan.latest = true;
        Ok(plan)
    }

    /// Parses the parameters of a query for the first and last time. Without `select`, all sources are selected.
    /// Without `from` or `to`, the interval is open at this end.
    ///
    /// # Errors
    /// As [`QueryPlan::read`].
    pub fn read_range(mut parameters: Parameters, now: i64) -> Result<QueryPlan, ApiError> {
        parameters.select.get_or_insert_with(String::new);
        parameters.from.get_or_insert_with(|| FIRST.to_string());
        parameters
            .to
            .get_or_insert_with(|| format!("{}ns", i64::MAX));
        QueryPlan::read(&parameters, now)
    }
}

fn shape(parameters: &Parameters) -> Result<Shape, ApiError> {
    match parameters.shape.as_deref() {
        None | Some("long") => return Ok(Shape::Long),
        Some("wide") => {}
        Some(other) => {
            return Err(ApiError::invalid(format!(
                "shape {other:?} is neither long nor wide"
            )));
        }
    }
    if parameters.step.is_some() || parameters.points.is_some() {
        return Err(ApiError::invalid(
            "shape=wide returns rows as they were written; leave out step and points, or write shape=long",
        ));
    }
    if parameters.limit.is_some() {
        return Err(ApiError::invalid(
            "limit counts series, which shape=wide does not have; narrow select= or the interval",
        ));
    }
    Ok(Shape::Wide)
}

/// Parses a time. Adds a note to `notes` if a bare number was not read as nanoseconds.
///
/// # Errors
/// 400 with the forms of times.
pub fn time(name: &str, text: &str, now: i64, notes: &mut Vec<String>) -> Result<i64, ApiError> {
    let text = text.trim();
    let read = parse_moment(text, now).or_else(|error| {
        // A plus is rarely written as %2B. A last space in the place of the plus is one.
        let (before, after) = text.rsplit_once(' ').ok_or_else(|| error.clone())?;
        parse_moment(&format!("{before}+{after}"), now).map_err(|_| error)
    });
    let moment = read.map_err(|error| ApiError::invalid(format!("{name}: {error}")))?;
    notes.extend(moment.note.map(|note| format!("{name}={note}")));
    Ok(moment.ns)
}

fn interval(
    parameters: &Parameters,
    now: i64,
    notes: &mut Vec<String>,
) -> Result<Interval, ApiError> {
    let (from, to) = (&parameters.from, &parameters.to);
    let start = match from.as_deref().unwrap_or("-1h") {
        FIRST => i64::MIN,
        text => time("from", text, now, notes)?,
    };
    let interval = Interval::new(
        start,
        time("to", to.as_deref().unwrap_or("now"), now, notes)?,
    );
    if interval.is_empty() {
        return Err(ApiError::invalid(format!(
            "from ({}) is after to ({})",
            interval.start, interval.end
        )));
    }
    Ok(interval)
}

fn step(parameters: &Parameters, interval: Interval) -> Result<Option<i64>, ApiError> {
    match (&parameters.step, &parameters.points) {
        (Some(_), Some(_)) => Err(ApiError::invalid(
            "step and points contradict each other; give one",
        )),
        (None, None) => Ok(None),
        (Some(step), None) => match parse_duration(step).map_err(ApiError::invalid)? {
            0 => Err(ApiError::invalid("step must be at least 1ns")),
            step => Ok(Some(step)),
        },
        (None, Some(_)) if parameters.from.as_deref() == Some(FIRST) => Err(ApiError::invalid(
            "points needs a time; give from=2026-11-01 (`seiner ls` shows the first sample), or step=10m",
        )),
        (None, Some(points)) => match number("points", Some(points))? {
            None | Some(0) => Err(ApiError::invalid("points must be at least 1")),
            Some(points) => Ok(Some(round_step(interval, points))),
        },
    }
}

fn aggregates(list: Option<&str>) -> Result<Vec<Aggregate>, ApiError> {
    let one = |name: &str| {
        let found = Aggregate::ALL
            .iter()
            .find(|(known, _)| *known == name.trim());
        found.map(|(_, aggregate)| *aggregate).ok_or_else(|| {
            ApiError::invalid(format!(
                "aggregate {name:?} is none of count, sum, min, max, first, last, mean"
            ))
        })
    };
    list.unwrap_or("mean").split(',').map(one).collect()
}

fn number(name: &str, text: Option<&str>) -> Result<Option<usize>, ApiError> {
    let read = |text: &str| {
        text.parse()
            .map_err(|_| ApiError::invalid(format!("{name}={text}: give a whole number")))
    };
    text.map(read).transpose()
}

/// Word for the time of the first sample.
const FIRST: &str = "first";

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Round steps within a decade of nanoseconds, a minute, an hour, a day, and above.
const ROUND: [(i64, &[i64]); 8] = [
    (1, &[1, 2, 5, 10, 20, 50, 100, 200, 500]),
    (1_000, &[1, 2, 5, 10, 20, 50, 100, 200, 500]),
    (1_000_000, &[1, 2, 5, 10, 20, 50, 100, 200, 500]),
    (SECOND, &[1, 2, 5, 10, 15, 30]),
    (60 * SECOND, &[1, 2, 5, 10, 15, 30]),
    (3600 * SECOND, &[1, 2, 3, 6, 12]),
    (DAY, &[1, 2, 7, 14, 30, 91, 182]),
    (365 * DAY, &[1, 2, 5, 10, 20, 50, 100, 200]),
];

/// Returns the shortest round step that divides the interval into at most `points` buckets, or the longest
/// round step if none does.
fn round_step(interval: Interval, points: usize) -> i64 {
    let buckets = |step: i64| {
        i128::from(interval.end.div_euclid(step)) - i128::from(interval.start.div_euclid(step)) + 1
    };
    let mut steps = ROUND
        .iter()
        .flat_map(|(unit, counts)| counts.iter().map(move |count| unit * count));
    steps
        .find(|step| buckets(*step) <= points as i128)
        .unwrap_or(200 * 365 * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl FnOnce(&mut Parameters)) -> Result<QueryPlan, ApiError> {
        let mut parameters = Parameters {
            select: Some("cpu".into()),
            ..Parameters::default()
        };
        change(&mut parameters);
        QueryPlan::read(&parameters, 10_000 * SECOND)
    }

    #[test]
    fn defaults() {
        let plan = read(|_| {}).unwrap();
        assert_eq!(
            plan.query.interval,
            Interval::new(6_400 * SECOND, 10_000 * SECOND)
        );
        assert_eq!(
            (plan.step, plan.limit, plan.format, plan.time_unit),
            (None, usize::MAX, Format::Json, TimeUnit::Ns)
        );
    }

    #[test]
    fn steps_are_round_and_buckets_at_most_as_many_as_points() {
        for (seconds, points, step) in [
            (3600, 1000, 5),
            (3600, 3601, 1),
            (60, 7, 10),
            (86_400 * 365, 1000, 43_200),
        ] {
            let interval = Interval::new(0, seconds * SECOND);
            assert_eq!(
                round_step(interval, points),
                step * SECOND,
                "{seconds} s, {points} points"
            );
        }
        assert_eq!(round_step(Interval::new(0, 999), 1000), 1);
        assert_eq!(round_step(Interval::new(5, 1005), 1000), 2);
        // Two buckets at least, because zero lies between them.
        assert_eq!(round_step(Interval::ALL, 1), 200 * 365 * DAY);
        assert!(round_step(Interval::ALL, 600) <= 2 * 365 * DAY);
    }

    #[test]
    fn steps_are_ascending() {
        let steps: Vec<i64> = ROUND
            .iter()
            .flat_map(|(unit, counts)| counts.iter().map(move |count| unit * count))
            .collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn invalid_query_parameters_are_rejected() {
        assert!(QueryPlan::read(&Parameters::default(), 0).is_err());
        for change in [
            (|p| p.select = Some("cpu{".into())) as fn(&mut Parameters),
            |p| p.from = Some("yesterday".into()),
            |p| (p.from, p.points) = (Some("first".into()), Some("100".into())),
            |p| p.from = Some("now+1h".into()),
            |p| p.step = Some("0s".into()),
            |p| p.points = Some("0".into()),
            |p| p.points = Some("many".into()),
            |p| (p.step, p.points) = (Some("1s".into()), Some("5".into())),
            |p| p.aggregate = Some("mean".into()),
            |p| (p.step, p.aggregate) = (Some("1s".into()), Some("median".into())),
            |p| p.limit = Some("-1".into()),
            |p| p.format = Some("xml".into()),
            |p| p.times = Some("s".into()),
            |p| p.marker = Some("1".into()),
            |p| p.shape = Some("tall".into()),
            |p| (p.shape, p.step) = (Some("wide".into()), Some("1s".into())),
            |p| (p.shape, p.limit) = (Some("wide".into()), Some("5".into())),
        ] {
            assert!(read(change).is_err());
        }
    }

    #[test]
    fn dates_and_bare_numbers_are_parsed() {
        let plan = read(|p| {
            p.from = Some("2026-11-23 04:40:00".into());
            // A plus that arrived as a space.
            p.to = Some("2026-11-23T05:40:00 00:30".into());
        })
        .unwrap();
        let (from, to) = (1_795_408_800, 1_795_410_600);
        assert_eq!(
            plan.query.interval,
            Interval::new(from * SECOND, to * SECOND)
        );
        assert_eq!(plan.notes, Vec::<String>::new());
        let plan = read(|p| {
            p.from = Some("1795408800".into());
            p.to = Some("1795410600000000000".into());
        })
        .unwrap();
        assert_eq!(
            plan.query.interval,
            Interval::new(from * SECOND, to * SECOND)
        );
        assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
        assert!(plan.notes[0].starts_with("from=1795408800 was read as seconds"));
        let plan = read(|p| p.from = Some("first".into())).unwrap();
        assert_eq!(plan.query.interval.start, i64::MIN);
        let error = read(|p| p.from = Some("2026-11-23 04h40".into())).unwrap_err();
        assert!(
            error.to_string().contains("\"2026-11-23 04h40\""),
            "{error}"
        );
    }

    #[test]
    fn names_of_aggregates_match_their_table() {
        for (name, aggregate) in Aggregate::ALL {
            assert_eq!(aggregate.name(), name);
        }
    }
}
