//! HTTP endpoint `/sql`. An answer is sent as the query computes it. If the client closes the connection, the query
//! ends.

use crate::answer::{AnswerWriter, Format};
use crate::queries::{Answer, MAX_QUERY_BYTES, Queries};
use crate::rejection::Rejection;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use futures::StreamExt;
use serde::Deserialize;
use std::net::IpAddr;

/// Service over the queries of a session.
#[derive(Clone)]
struct App(Queries);

/// Parameters of a query.
#[derive(Debug, Default, Deserialize)]
struct Parameters {
    q: Option<String>,
    #[serde(default)]
    format: Format,
}

/// Returns the service.
pub fn router(queries: Queries) -> Router {
    Router::new()
        .route("/sql", get(by_address).post(by_body))
        .layer(DefaultBodyLimit::max(MAX_QUERY_BYTES))
        .layer(middleware::from_fn(reject_pages))
        .with_state(App(queries))
}

/// Rejects requests of web pages. A page in a browser can send requests to any port of this machine: with the header
/// `Origin`, or with the name of its own host in `Host`.
async fn reject_pages(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    if headers.contains_key(header::ORIGIN) || !host.is_some_and(is_address) {
        return failure(
            StatusCode::FORBIDDEN,
            "this port is for programs, which send an IP address or localhost as Host, and no Origin",
        );
    }
    next.run(request).await
}

/// Returns whether the text of `Host` is `localhost` or an IP address, with or without a port.
fn is_address(host: &str) -> bool {
    let name = host
        .strip_suffix(|c: char| c.is_ascii_digit())
        .map_or(host, |_| {
            host.rsplit_once(':').map_or(host, |(name, _)| name)
        });
    let bare = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    name == "localhost" || bare(name) || bare(host)
}

async fn by_address(State(app): State<App>, Query(parameters): Query<Parameters>) -> Response {
    app.answer(parameters).await
}

/// Answers a POST: the body is a form with `q` and `format`, or the text of the query.
async fn by_body(
    State(app): State<App>,
    Query(mut parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let is_form =
        content_type.is_some_and(|text| text.starts_with("application/x-www-form-urlencoded"));
    // curl sends a bare text as a form, too.
    let pairs: Vec<_> = form_urlencoded::parse(&body).filter(|_| is_form).collect();
    if pairs.iter().any(|(name, _)| name == "q") {
        for (name, value) in pairs {
            match name.as_ref() {
                "q" => parameters.q = Some(value.into_owned()),
                "format" => match serde_json::from_value(value.as_ref().into()) {
                    Ok(format) => parameters.format = format,
                    Err(_) => {
                        return failure(
                            StatusCode::BAD_REQUEST,
                            "format is none of json, csv, arrow",
                        );
                    }
                },
                _ => {}
            }
        }
    } else if !body.is_empty() {
        match String::from_utf8(body.to_vec()) {
            Ok(text) => parameters.q = Some(text),
            Err(_) => return failure(StatusCode::BAD_REQUEST, "the query is not UTF-8"),
        }
    }
    app.answer(parameters).await
}

fn failure(status: StatusCode, text: &str) -> Response {
    let body = serde_json::json!({ "error": text }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

impl App {
    async fn answer(self, parameters: Parameters) -> Response {
        let Some(text) = parameters.q.filter(|text| !text.trim().is_empty()) else {
            return failure(StatusCode::BAD_REQUEST, "q is missing; write q=SELECT 1");
        };
        match self.begin(&text, parameters.format).await {
            Ok(body) => (
                [(header::CONTENT_TYPE, parameters.format.content_type())],
                body,
            )
                .into_response(),
            Err(reason) => {
                let status = match Rejection::of(&reason) {
                    Some(Rejection::Busy) => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::BAD_REQUEST,
                };
                failure(status, &self.0.message(&reason))
            }
        }
    }

    /// Runs a query up to its first batch, so that most errors have a status. The body contains the rest.
    async fn begin(&self, text: &str, format: Format) -> Result<Body> {
        let answer = self.0.run(text, None).await?;
        let mut running = Running {
            writer: AnswerWriter::new(format, &answer.schema())?,
            answer,
            is_over: false,
        };
        let first = running.next().await?.unwrap_or_default();
        let rest = futures::stream::try_unfold(running, |mut running| async move {
            let next = running.next().await?;
            Ok::<_, DataFusionError>(next.map(|bytes| (bytes, running)))
        });
        let first = futures::stream::once(async move { Ok(first) });
        Ok(Body::from_stream(first.chain(rest)))
    }
}

/// Query whose answer is being sent.
struct Running {
    answer: Answer,
    writer: AnswerWriter,
    is_over: bool,
}

impl Running {
    /// Returns the next bytes; `None` after the end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.is_over {
            match self.answer.next().await? {
                Some(batch) => self.writer.write(&batch)?,
                None => {
                    self.is_over = true;
                    self.writer.finish()?;
                }
            }
            let bytes = self.writer.take();
            if !bytes.is_empty() {
                return Ok(Some(bytes.into()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses() {
        for host in [
            "localhost",
            "localhost:80",
            "127.0.0.1",
            "127.0.0.1:9",
            "[::1]",
            "[::1]:9",
            "10.0.0.1:9",
        ] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "example.org:80",
            "127.0.0.1.example.org:1",
            "localhost.example.org",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }
}
