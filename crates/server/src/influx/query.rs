//! `/query` of InfluxDB 1: statements in InfluxQL.

use super::csv::CsvAnswer;
use super::json::{Notation, write_error, write_result};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::now;
use crate::ingest_stream::IngestStream;
use crate::prometheus;
use crate::response_stream;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use seiner_influxql::{Cell, Databases, Limits, parse, run};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Maximum duration of all statements of a request.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Rows of a part of an answer, unless the client says otherwise.
const CHUNK_ROWS: usize = 10_000;
/// Version that clients see.
const VERSION: HeaderName = HeaderName::from_static("x-influxdb-version");

/// Answers statements. The statements come from the address or from the form in the body.
pub async fn query(
    State(app): State<Arc<AppState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let form = form(&uri, body).await?;
    let get = |name: &str| form.get(name).map(String::as_str);
    let text = get("q").filter(|text| !text.is_empty()).ok_or_else(|| {
        ApiError::invalid("missing required parameter \"q\": a statement in InfluxQL")
    })?;
    let parameters = parameters(get("params"))?;
    let notation = notation(&form)?;
    let is_csv = wants_csv(&headers);
    let statements = parse(text, &parameters).map_err(ApiError::invalid)?;
    let permit = app.queries.acquire()?;
    app.traffic.queries.fetch_add(1, Relaxed);
    let limits = prometheus::limits(&app);
    let limits = Limits {
        bytes: limits.bytes,
        bytes_rule: limits.bytes_rule,
    };
    let databases = Databases {
        tag: app.settings.database_tag.clone(),
        chosen: get("db").unwrap_or_default().to_string(),
    };
    let store = app.store.clone();
    let body = response_stream::body(move |out| {
        let _permit = permit;
        let stopper = prometheus::stopper(out.is_over(), TIMEOUT);
        let now = now();
        let mut csv = is_csv.then(CsvAnswer::default);
        let is_joined = !notation.is_chunked() && !is_csv;
        if is_joined {
            out.write_all(b"{\"results\":[")?;
        }
        for (number, statement) in statements.iter().enumerate() {
            if number > 0 && is_joined {
                out.write_all(b",")?;
            }
            let (limits, stopper) = (limits.clone(), stopper.clone());
            let answer = run(&*store, statement, now, &databases, limits, stopper);
            match (answer, &mut csv) {
                (Ok(answer), Some(csv)) => csv.result(out, &answer, &notation)?,
                (Err(error), Some(csv)) => csv.error(out, &error.to_string())?,
                (Ok(answer), None) => write_result(out, number, &answer, &notation)?,
                (Err(error), None) => write_error(out, number, &error.to_string(), &notation)?,
            }
        }
        if is_joined {
            out.write_all(b"]}\n")?;
        }
        Ok(())
    });
    let media_type = if is_csv {
        "text/csv"
    } else {
        "application/json"
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (
            VERSION,
            HeaderValue::from_static(crate::http::INFLUX_VERSION),
        ),
    ];
    Ok((headers, body.await?).into_response())
}

/// Returns whether the client asks for CSV. As in InfluxDB, the order of several types and their weights do not count.
fn wants_csv(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    let mut types = accepted.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    types.any(|one| {
        let name = one.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name.trim_ascii(), b"application/csv" | b"text/csv")
    })
}

/// Reads the parameters of an address and of a form. The address wins.
async fn form(uri: &Uri, body: Body) -> Result<BTreeMap<String, String>, ApiError> {
    let body = IngestStream::new(body).statement().await?;
    let mut form: BTreeMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let address = uri.query().unwrap_or_default().as_bytes();
    form.extend(form_urlencoded::parse(address).into_owned());
    Ok(form)
}

/// Reads the values of names such as `$host`: an object in JSON with numbers, texts and truth values.
fn parameters(text: Option<&str>) -> Result<BTreeMap<String, Cell>, ApiError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(BTreeMap::new());
    };
    let invalid = |reason: &dyn std::fmt::Display| {
        ApiError::invalid(format!(
            "params is an object in JSON with numbers, texts and truth values: {reason}"
        ))
    };
    let values: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| invalid(&error))?;
    let mut parameters = BTreeMap::new();
    for (name, value) in values {
        let cell = match &value {
            serde_json::Value::Bool(value) => Some(Cell::Bool(*value)),
            serde_json::Value::String(text) => Some(Cell::Text(text.as_str().into())),
            serde_json::Value::Number(number) => number
                .as_i64()
                .map(Cell::Integer)
                .or_else(|| number.as_f64().map(Cell::Float)),
            _ => None,
        };
        let cell = cell.ok_or_else(|| invalid(&format!("{name} is {value}")))?;
        parameters.insert(name, cell);
    }
    Ok(parameters)
}

fn notation(form: &BTreeMap<String, String>) -> Result<Notation, ApiError> {
    let epoch = form.get("epoch").map(String::as_str).unwrap_or_default();
    let unit_ns = match epoch {
        "" | "rfc3339" => None,
        "n" | "ns" => Some(1),
        "u" | "us" | "µ" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        other => {
            return Err(ApiError::invalid(format!(
                "epoch {other:?} is none of ns, u, ms, s, m, h"
            )));
        }
    };
    let is_chunked = form.get("chunked").is_some_and(|text| text == "true");
    let rows = match form.get("chunk_size") {
        None => Ok(CHUNK_ROWS),
        Some(text) => text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| {
            ApiError::invalid(format!("chunk_size={text}: give a number of rows from 1"))
        }),
    };
    let rows = rows?;
    Ok(Notation {
        unit_ns,
        chunk_rows: is_chunked.then_some(rows),
        zone: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_types_of_json() {
        let parameters = parameters(Some(r#"{"a":1,"b":1.5,"c":"x","d":true}"#)).unwrap();
        let cells: Vec<&Cell> = parameters.values().collect();
        assert_eq!(
            cells,
            [
                &Cell::Integer(1),
                &Cell::Float(1.5),
                &Cell::Text("x".into()),
                &Cell::Bool(true)
            ]
        );
        for wrong in ["[1]", "{\"a\":null}", "{"] {
            let error = super::parameters(Some(wrong)).unwrap_err();
            assert!(
                error.to_string().starts_with("params is an object"),
                "{error}"
            );
        }
    }

    #[test]
    fn csv_is_chosen_by_accept() {
        for (accept, expected) in [
            ("application/csv", true),
            ("application/json, text/csv; q=0.9", true),
            ("*/*", false),
            ("application/json", false),
        ] {
            let value = HeaderValue::from_static(accept);
            let headers = HeaderMap::from_iter([(header::ACCEPT, value)]);
            assert_eq!(wants_csv(&headers), expected, "{accept}");
        }
        assert!(!wants_csv(&HeaderMap::new()));
    }

    #[test]
    fn notations_are_checked() {
        let read = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()));
            notation(&pairs.collect())
        };
        assert_eq!(read(&[("epoch", "ms")]).unwrap().unit_ns, Some(1_000_000));
        let chunked = read(&[("chunked", "true"), ("chunk_size", "5")]).unwrap();
        assert_eq!(chunked.chunk_rows, Some(5));
        assert_eq!(read(&[("chunk_size", "5")]).unwrap().chunk_rows, None);
        assert!(read(&[("epoch", "d")]).is_err());
        assert!(read(&[("chunked", "true"), ("chunk_size", "0")]).is_err());
    }
}
