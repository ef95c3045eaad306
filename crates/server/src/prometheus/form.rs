//! Parameters of a request, in its address or in a form in its body.

use crate::api_error::ApiError;
use crate::ingest_stream::IngestStream;
use axum::body::Body;
use axum::http::Uri;
use seiner_model::{Interval, parse_date, parse_units};
use seiner_promql::{Matcher, parse_seconds, parse_selector};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
/// Times by which clients of Prometheus mean the begin and the end of all times.
const LEAST: &str = "-292273086-05-16T16:47:06Z";
const GREATEST: &str = "+292277025-08-18T07:12:54.999999999Z";
const GREATEST_WITHOUT_SIGN: &str = "292277025-08-18T07:12:54.999999999Z";
/// Default and maximum duration of a query.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Parameters in their order.
#[derive(Debug)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the parameters of an address and of a body.
    ///
    /// # Errors
    /// If the body is too long or too slow.
    pub async fn read(uri: &Uri, body: Body) -> Result<Form, ApiError> {
        let mut form = Form::of(uri);
        let body = IngestStream::new(body).statement().await?;
        form.0.extend(form_urlencoded::parse(&body).into_owned());
        Ok(form)
    }

    /// Returns the parameters of an address.
    pub fn of(uri: &Uri) -> Form {
        let query = uri.query().unwrap_or_default().as_bytes();
        Form(form_urlencoded::parse(query).into_owned().collect())
    }

    /// Returns the first value of a parameter. An empty value counts as none.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns a parameter that must be given.
    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name)
            .ok_or_else(|| invalid(name, "the parameter is missing"))
    }

    /// Returns a time in ns.
    pub fn time(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name)
            .map(|text| time(text).map_err(|error| invalid(name, error)))
            .transpose()
    }

    /// Returns a duration in ns: a number of seconds, or a text such as `5m`.
    pub fn duration(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let read = |text: &str| {
            let ns = parse_seconds(text).map(|seconds| (seconds * SECOND as f64).round());
            let ns = ns.filter(|ns| ns.abs() < i64::MAX as f64);
            ns.map(|ns| ns as i64)
                .ok_or_else(|| invalid(name, format!("cannot parse {text:?} to a valid duration")))
        };
        self.get(name).map(read).transpose()
    }

    /// Returns the maximum number of results; `None` for no maximum.
    pub fn limit(&self) -> Result<Option<usize>, ApiError> {
        let read = |text: &str| {
            text.parse::<usize>()
                .map_err(|_| invalid("limit", "limit must be non-negative"))
        };
        let limit = self.get("limit").map(read).transpose()?;
        Ok(limit.filter(|limit| *limit > 0))
    }

    /// Returns the time after which the query ends.
    pub fn timeout(&self) -> Result<Duration, ApiError> {
        let given = self.duration("timeout")?;
        Ok(given
            .map_or(TIMEOUT, |ns| Duration::from_nanos(ns.max(0) as u64))
            .min(TIMEOUT))
    }

    /// Returns the interval of `start` and `end`; `None` if neither is given.
    pub fn interval(&self) -> Result<Option<Interval>, ApiError> {
        let (start, end) = (self.time("start")?, self.time("end")?);
        if let (None, None) = (start, end) {
            return Ok(None);
        }
        let interval = Interval::new(start.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX));
        match interval.is_empty() {
            true => Err(invalid(
                "end",
                "end timestamp must not be before start time",
            )),
            false => Ok(Some(interval)),
        }
    }

    /// Returns the selectors of `match[]`.
    pub fn selectors(&self) -> Result<Vec<Vec<Matcher>>, ApiError> {
        let texts = self.0.iter().filter(|(name, _)| name == "match[]");
        let read = |(name, text): &(String, String)| {
            parse_selector(text).map_err(|error| invalid(name, error))
        };
        texts.map(read).collect()
    }
}

/// Creates the error of a parameter.
pub fn invalid(name: &str, error: impl ToString) -> ApiError {
    ApiError::invalid(format!(
        "invalid parameter \"{name}\": {}",
        error.to_string()
    ))
}

/// Parses seconds since 1970, or a date as in RFC 3339, into ns.
fn time(text: &str) -> Result<i64, String> {
    match text {
        LEAST => return Ok(i64::MIN),
        GREATEST | GREATEST_WITHOUT_SIGN => return Ok(i64::MAX),
        _ => {}
    }
    let exact = parse_units(text, SECOND).or_else(|| parse_date(text));
    let float = || {
        text.parse::<f64>()
            .ok()
            .map(|seconds| seconds * SECOND as f64)
    };
    exact
        .or_else(|| {
            float()
                .filter(|ns| ns.abs() < i64::MAX as f64)
                .map(|ns| ns as i64)
        })
        .ok_or_else(|| format!("cannot parse {text:?} to a valid timestamp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(query: &str) -> Form {
        Form::of(&format!("/?{query}").parse().unwrap())
    }

    #[test]
    fn times_and_durations_have_two_forms() {
        let form = form("a=1435781430.781&b=2015-07-01T20:10:30.781Z&c=5m&d=0.5&e=1e3&f=x&g=");
        let ns = 1_435_781_430_781_000_000;
        assert_eq!(form.time("a").unwrap(), Some(ns));
        assert_eq!(form.time("b").unwrap(), Some(ns));
        assert_eq!(form.time("e").unwrap(), Some(1_000 * SECOND));
        assert_eq!(form.time("g").unwrap(), None);
        assert_eq!(form.duration("c").unwrap(), Some(300 * SECOND));
        assert_eq!(form.duration("d").unwrap(), Some(SECOND / 2));
        for bad in [form.time("f"), form.duration("f")] {
            assert!(
                bad.unwrap_err()
                    .to_string()
                    .starts_with("invalid parameter \"f\"")
            );
        }
    }

    #[test]
    fn times_beyond_all_times_are_known() {
        let form = form("start=-292273086-05-16T16:47:06Z&end=292277025-08-18T07:12:54.999999999Z");
        assert_eq!(form.interval().unwrap(), Some(Interval::ALL));
    }

    #[test]
    fn selectors_are_repeated() {
        let form = form("match[]=up&match%5B%5D=%7Ba%3D~%22b.*%22%7D");
        assert_eq!(form.selectors().unwrap().len(), 2);
        assert!(self::form("match[]=up[5m]").selectors().is_err());
        assert!(self::form("match[]={}").selectors().is_err());
    }
}
