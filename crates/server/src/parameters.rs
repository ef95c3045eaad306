//! Names of the parameters of each address. A name that no address has is rejected, because its sender expects an
//! effect that it does not have.

use crate::api_error::ApiError;
use crate::ingest_stream::IngestStream;
use crate::nearest::nearest;
use crate::prometheus;
use axum::extract::{Query, Request};
use axum::middleware::Next;
use axum::response::Response;

/// Parameters of InfluxDB clients that have no effect here.
const INFLUX: [&str; 9] = [
    "db",
    "rp",
    "u",
    "p",
    "consistency",
    "bucket",
    "bucketID",
    "org",
    "orgID",
];

const NAMES: &[&str] = &[
    "name",
    "id",
    "limit",
    "offset",
    "after",
    "descending",
    "userID",
];
const SELECT: &[&str] = &["select"];
const WRITE: &[&str] = &["precision", "allow_1970", "measurement", "tags"];

/// Addresses with their parameters, and whether those of [`INFLUX`] are allowed. Probes and the page are missing:
/// nothing depends on their parameters. `/api/v1/plan` reads its own.
const TABLE: [(&str, &[&str], bool); 29] = [
    ("/write", WRITE, true),
    ("/api/v2/write", WRITE, true),
    (
        "/api/v3/write_lp",
        &["precision", "accept_partial", "no_sync", "allow_1970"],
        true,
    ),
    ("/api/v2/buckets", NAMES, true),
    ("/api/v2/orgs", NAMES, true),
    ("/prometheus/api/v1/write", &[], false),
    ("/api/v1/write", &[], false),
    ("/v1/metrics", &[], false),
    ("/opentelemetry/v1/metrics", &[], false),
    ("/prometheus/api/v1/otlp/v1/metrics", &[], false),
    ("/api/v2/delete", &["precision"], true),
    (
        "/query",
        &[
            "q",
            "epoch",
            "pretty",
            "chunked",
            "chunk_size",
            "params",
            "precision",
        ],
        true,
    ),
    (
        "/api/v1/query",
        &[
            "select",
            "fields",
            "from",
            "to",
            "step",
            "points",
            "aggregate",
            "limit",
            "format",
            "times",
            "marker",
            "shape",
        ],
        false,
    ),
    (
        "/api/v1/latest",
        &[
            "select", "fields", "from", "to", "limit", "format", "times", "marker",
        ],
        false,
    ),
    ("/api/v1/sql", &["q", "format"], false),
    ("/api/v1/delete", &["select", "from", "to"], false),
    ("/api/v1/measurements", &[], false),
    ("/api/v1/tags", SELECT, false),
    ("/api/v1/values", &["tag", "select", "limit"], false),
    ("/api/v1/fields", SELECT, false),
    ("/api/v1/sources", &["select", "limit"], false),
    ("/api/v1/summary", SELECT, false),
    ("/api/v1/range", &["select", "fields", "from", "to"], false),
    ("/api/v1/dashboards", &[], false),
    ("/api/v1/flush", &[], false),
    ("/api/v1/settle", &[], false),
    ("/api/v1/log", &[], false),
    ("/api/v1/log/why", &[], false),
    ("/api/v1/log/trace", &[], false),
];

/// Names of other stores, and the equivalents of this server.
const SYNONYMS: [(&str, &str); 24] = [
    ("start", "from"),
    ("since", "from"),
    ("begin", "from"),
    ("after", "from"),
    ("end", "to"),
    ("stop", "to"),
    ("until", "to"),
    ("before", "to"),
    ("q", "select"),
    ("query", "select"),
    ("match", "select"),
    ("match[]", "select"),
    ("selector", "select"),
    ("measurement", "select"),
    ("agg", "aggregate"),
    ("fn", "aggregate"),
    ("function", "aggregate"),
    ("every", "step"),
    ("window", "step"),
    ("interval", "step"),
    ("maxDataPoints", "points"),
    ("epoch", "times"),
    ("unit", "precision"),
    ("timestamp_precision", "precision"),
];

/// Rejects requests with an unknown parameter, or with a parameter that is given twice. The body is read before: a sender
/// that is still sending could not read the answer if the connection were closed.
pub async fn known(request: Request, next: Next) -> Response {
    match check(request.uri()) {
        Ok(()) => next.run(request).await,
        Err(error) => IngestStream::new(request.into_body()).reject(error).await,
    }
}

fn check(uri: &axum::http::Uri) -> Result<(), ApiError> {
    let Some((address, names, influx)) = TABLE.iter().find(|(path, ..)| *path == uri.path()) else {
        return Ok(());
    };
    if *address == "/api/v1/query" && prometheus::is_promql(uri) {
        return Ok(());
    }
    let Query(given) =
        Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(ApiError::invalid)?;
    for (index, (name, _)) in given.iter().enumerate() {
        if *influx && INFLUX.contains(&name.as_str()) {
            continue;
        }
        if !names.contains(&name.as_str()) {
            return Err(ApiError::invalid(unknown(name, address, names)));
        }
        if given[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(ApiError::invalid(format!(
                "parameter {name:?} is given twice; give it once"
            )));
        }
    }
    Ok(())
}

fn unknown(name: &str, address: &str, names: &[&str]) -> String {
    let synonym = SYNONYMS
        .iter()
        .find(|(other, ours)| *other == name && names.contains(ours));
    let meant = synonym
        .map(|(_, ours)| *ours)
        .or_else(|| nearest(name, names.iter().copied()));
    match meant {
        Some(meant) => {
            format!("{address} has no parameter {name:?}; did you mean {meant:?}?")
        }
        None if names.is_empty() => format!("{address} has no parameters; leave {name:?} out"),
        None => format!(
            "{address} has no parameter {name:?}; there are {}",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(uri: &str) -> Option<String> {
        let checked = check(&uri.parse().expect("an address"));
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn unknown_parameters_are_rejected_with_the_nearest_name() {
        for (uri, meant) in [
            ("/api/v1/query?select=cpu&start=-3s", "\"from\""),
            ("/api/v1/query?select=cpu&limt=3", "\"limit\""),
            ("/api/v1/query?Select=cpu", "\"select\""),
            ("/write?precison=s", "\"precision\""),
            ("/api/v1/delete?select=cpu&stop=now", "\"to\""),
            ("/api/v1/values?tag=a&offset=1", "tag, select, limit"),
            ("/api/v1/measurements?limit=1", "leave"),
            ("/api/v1/query?select=a&select=b", "twice"),
        ] {
            let error = rejection(uri).expect(uri);
            assert!(error.contains(meant), "{uri}: {error}");
        }
    }

    #[test]
    fn parameters_of_influxdb_clients_are_accepted() {
        for uri in [
            "/write?db=x&rp=autogen&precision=s&consistency=one&u=me&p=secret",
            "/api/v2/write?org=o&orgID=1&bucket=b&precision=ns",
            "/api/v2/delete?org=o&bucket=b",
            "/query?q=CREATE%20DATABASE%20x&db=x&epoch=ns&pretty=true",
            "/metrics?name[]=x",
            "/api/v1/query?query=up&time=1",
            "/health?probe=1",
        ] {
            assert_eq!(rejection(uri), None, "{uri}");
        }
    }

    #[test]
    fn every_parameter_of_a_query_is_known() {
        let text = Some(String::new());
        let all = crate::query::Parameters {
            select: text.clone(),
            fields: text.clone(),
            from: text.clone(),
            to: text.clone(),
            step: text.clone(),
            points: text.clone(),
            aggregate: text.clone(),
            limit: text.clone(),
            format: text.clone(),
            times: text.clone(),
            marker: text.clone(),
            shape: text,
        };
        for (name, _) in all.pairs() {
            assert_eq!(rejection(&format!("/api/v1/query?{name}=")), None, "{name}");
        }
    }
}
