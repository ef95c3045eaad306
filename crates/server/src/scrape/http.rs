//! Requests to targets by HTTP and HTTPS.

use super::login;
use super::outside::{Fetched, Outside};
use super::target::Target;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::exchange::exchange;
use crate::ingest;
use crate::ingest_stream::IngestStream;
use crate::secure::{self, Security};
use crate::whole_body::{collect, compression, decompress};
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::Empty;
use seiner_wire::exposition::Form;

/// Forms that the server reads. The text of Prometheus has no series with the times of creation.
const ACCEPT: &str =
    "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.1";
const USER_AGENT: &str = concat!("seiner/", env!("CARGO_PKG_VERSION"));
const TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";

/// System's clock and network.
pub struct Http;

impl Outside for Http {
    fn now(&self) -> i64 {
        ingest::now()
    }

    async fn fetch(&self, app: &AppState, target: &Target) -> Result<Fetched, String> {
        let address = &target.address;
        let authority = address.authority();
        let security = Security::of(address.is_encrypted, target.job.ca_file.clone());
        let login = login::header(&target.job).await?;
        let socket = secure::connect(&address.host, address.port(), &security)
            .await
            .map_err(|error| format!("{authority} cannot be reached: {error}"))?;
        let mut request = Request::builder()
            .uri(target.path())
            .header(header::HOST, &authority)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, ACCEPT)
            .header(header::ACCEPT_ENCODING, "gzip")
            .header(header::CONNECTION, "close")
            .header(TIMEOUT, target.job.timeout().as_secs_f64().to_string())
            .body(Empty::<Bytes>::new())
            .map_err(|error| format!("the request is invalid: {error}"))?;
        if let Some(login) = login {
            request.headers_mut().insert(header::AUTHORIZATION, login);
        }
        let sent = exchange(socket, request).await;
        let exchange =
            sent.map_err(|error| format!("{authority} did not answer by HTTP: {error}"))?;
        let (parts, body) = exchange.answer.into_parts();
        if parts.status != StatusCode::OK {
            return Err(format!("the target answered {}", parts.status));
        }
        let limit = target.job.body_limit as usize;
        let failed = |error: ApiError| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => format!(
                "the answer is longer than {limit} bytes, after decompression; raise body_limit of the job"
            ),
            _ => error.to_string(),
        };
        let form = form(&parts.headers);
        let encoding = parts.headers.get(header::CONTENT_ENCODING);
        let compression = compression(encoding).map_err(failed)?;
        let mut stream = IngestStream::new(Body::new(body));
        let body = collect(app, &mut stream, limit).await.map_err(failed)?;
        let body = decompress(app, compression, body, limit).map_err(failed)?;
        Ok(Fetched { body, form })
    }
}

/// Returns the form that the content type states. Every other type is read as the text of Prometheus.
fn form(headers: &HeaderMap) -> Form {
    let stated = headers.get(header::CONTENT_TYPE);
    let stated = stated.map_or(&b""[..], |stated| stated.as_bytes());
    match stated.starts_with(b"application/openmetrics-text") {
        true => Form::OpenMetrics,
        false => Form::Prometheus,
    }
}
