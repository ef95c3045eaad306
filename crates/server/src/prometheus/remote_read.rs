//! Remote read: another Prometheus reads samples of this store. Protobuf, compressed by Snappy.

use super::evaluate::{limits, stopper};
use super::failure::{Failure, of_query};
use super::messages::{
    Label, LabelMatcher, QueryResult, ReadQuery, ReadRequest, ReadResponse, Sample, TimeSeries,
};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest_stream::IngestStream;
use crate::response_stream;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prost::Message;
use seiner_model::{Condition, Interval};
use seiner_promql::{Limits, Matcher, Raw, Stopper};
use seiner_store::Store;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const MS: i64 = 1_000_000;
/// Maximum length of a request after decompression, bytes.
const REQUEST_BYTES: usize = 1 << 20;
/// Maximum duration of a request.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Answers `read`.
pub async fn read(State(app): State<Arc<AppState>>, body: Body) -> Result<Response, Failure> {
    let body = IngestStream::new(body).statement().await?;
    let request = decode(&body)?;
    let queries = request
        .queries
        .iter()
        .map(query)
        .collect::<Result<Vec<_>, ApiError>>()?;
    let permit = app.queries.acquire()?;
    app.traffic.queries.fetch_add(1, Relaxed);
    let (store, limits) = (app.store.clone(), limits(&app));
    let body = response_stream::body(move |out| {
        let _permit = permit;
        let stopper = stopper(out.is_over(), TIMEOUT);
        let mut response = ReadResponse::default();
        for (matchers, interval) in &queries {
            response
                .results
                .push(result(&*store, matchers, *interval, &limits, &stopper)?);
        }
        let bytes = response.encode_to_vec();
        let compressed = snap::raw::Encoder::new()
            .compress_vec(&bytes)
            .map_err(io::Error::other)?;
        out.write_all(&compressed)
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-protobuf"),
        (header::CONTENT_ENCODING, "snappy"),
    ];
    Ok((headers, body.await?).into_response())
}

fn decode(body: &[u8]) -> Result<ReadRequest, ApiError> {
    let invalid = |error: String| {
        ApiError::invalid(format!("the body is not a request of remote read: {error}"))
    };
    let length = snap::raw::decompress_len(body).map_err(|error| invalid(error.to_string()))?;
    if length > REQUEST_BYTES {
        return Err(ApiError::too_large(format!(
            "the request is longer than {REQUEST_BYTES} bytes"
        )));
    }
    let bytes = snap::raw::Decoder::new()
        .decompress_vec(body)
        .map_err(|error| invalid(error.to_string()))?;
    ReadRequest::decode(bytes.as_slice()).map_err(|error| invalid(error.to_string()))
}

fn query(query: &ReadQuery) -> Result<(Vec<Matcher>, Interval), ApiError> {
    let matchers = query
        .matchers
        .iter()
        .map(matcher)
        .collect::<Result<Vec<Matcher>, ApiError>>()?;
    // The last ms is included as a whole.
    let end = query.end_ms.saturating_mul(MS).saturating_add(MS - 1);
    Ok((
        matchers,
        Interval::new(query.start_ms.saturating_mul(MS), end),
    ))
}

fn matcher(matcher: &LabelMatcher) -> Result<Matcher, ApiError> {
    let regex = || Condition::matches(&matcher.value).map_err(ApiError::invalid);
    let condition = match matcher.kind {
        0 => Condition::Is(matcher.value.clone()),
        1 => Condition::IsNot(matcher.value.clone()),
        2 => regex()?,
        3 => match regex()? {
            Condition::Matches(regex) => Condition::MatchesNot(regex),
            other => other,
        },
        other => {
            return Err(ApiError::invalid(format!(
                "{other} is not a kind of matcher"
            )));
        }
    };
    Ok(Matcher {
        label: matcher.name.as_str().into(),
        condition,
    })
}

fn result(
    store: &dyn Store,
    matchers: &[Matcher],
    interval: Interval,
    limits: &Limits,
    stopper: &Stopper,
) -> io::Result<QueryResult> {
    let found = seiner_promql::samples_of(store, matchers, interval, limits, Some(stopper.clone()));
    let (found, warnings) = found.map_err(of_query)?;
    for warning in warnings {
        tracing::warn!("an answer of remote read is incomplete: {warning}");
    }
    Ok(QueryResult {
        series: found.into_iter().map(series).collect(),
    })
}

fn series(raw: Raw) -> TimeSeries {
    let labels = raw.labels.iter().map(|(name, value)| Label {
        name: name.to_string(),
        value: value.to_string(),
    });
    let mut samples: Vec<Sample> = Vec::with_capacity(raw.times.len());
    for (time, value) in raw.times.into_iter().zip(raw.values) {
        let ms = time.div_euclid(MS);
        // Prometheus has one sample for each ms: the last.
        match samples.last_mut() {
            Some(last) if last.ms == ms => last.value = value,
            _ => samples.push(Sample { value, ms }),
        }
    }
    TimeSeries {
        labels: labels.collect(),
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_bodies_are_errors() {
        // A length of 4 GiB, and no data.
        assert!(decode(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(decode(b"").is_err());
        assert!(decode(b"no snappy").is_err());
        let garbage = snap::raw::Encoder::new()
            .compress_vec(&[0xff; 100])
            .unwrap();
        assert!(decode(&garbage).is_err());
    }
}
