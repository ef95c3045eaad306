//! Bodies of Arrow at the addresses of line protocol: `Content-Type: application/vnd.apache.arrow.stream`.
//!
//! A body is streamed into the store record batch by record batch, and each source is appended by columns.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::MAX_LISTED;
use crate::ingest_stream::IngestStream;
use crate::intake::{self, Intake, Place, precision};
use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seiner_model::{SourceId, SourceKey};
use seiner_store::{Error, Reason, Receipt};
use seiner_wire::answer::Format;
use seiner_wire::arrow_body::{
    ArrowBodyError, ArrowDecoder, BadRows, BodyOptions, BodyRows, SourceRows,
};
use seiner_wire::line::LineNotation;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Name of the protocol in metrics.
pub const PROTOCOL: &str = "arrow";

/// Parameters of a write of Arrow.
#[derive(Deserialize)]
pub struct Parameters {
    /// Measurement of all rows.
    measurement: Option<String>,
    /// Names of columns of texts that are tags, separated by commas.
    tags: Option<String>,
}

/// Returns whether a body is Arrow.
pub fn is_stated(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE);
    let text = stated.map_or(&b""[..], |stated| stated.as_bytes());
    let media_type = text.split(|&byte| byte == b';').next().unwrap_or_default();
    media_type
        .trim_ascii()
        .eq_ignore_ascii_case(Format::Arrow.content_type().as_bytes())
}

/// Receives a body.
pub async fn receive(
    app: &Arc<AppState>,
    parameters: &Parameters,
    precision: Option<&str>,
    headers: &HeaderMap,
    mut stream: IngestStream,
) -> Response {
    match take(app, parameters, precision, headers, &mut stream).await {
        Ok(written) => written.answer(),
        Err(error) => stream.reject(error).await,
    }
}

async fn take(
    app: &Arc<AppState>,
    parameters: &Parameters,
    unit: Option<&str>,
    headers: &HeaderMap,
    stream: &mut IngestStream,
) -> Result<Written, ApiError> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !matches!(encoding.as_bytes(), b"" | b"identity")) {
        return Err(ApiError::with(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid",
            "a body of Arrow has no Content-Encoding; send it uncompressed",
        ));
    }
    let tags = parameters.tags.as_deref().filter(|tags| !tags.is_empty());
    let options = BodyOptions {
        measurement: parameters.measurement.clone(),
        tags: tags.map_or_else(Vec::new, |tags| {
            tags.split(',').map(str::to_string).collect()
        }),
        precision: unit.map(|unit| precision(Some(unit))).transpose()?,
    };
    let intake = Intake::begin(app, PROTOCOL)?;
    let mut written = Written::default();
    let stored = store(app, options, stream, &mut written).await;
    let counters = &intake.counters;
    counters.rows.fetch_add(written.rows, Relaxed);
    counters.samples.fetch_add(written.samples, Relaxed);
    counters.rejected.fetch_add(written.rejected, Relaxed);
    counters.bytes.fetch_add(written.bytes, Relaxed);
    stored?;
    intake.durable(written.position).await?;
    Ok(written)
}

/// Stores the rows of a body. `written` is valid after an error, too.
async fn store(
    app: &Arc<AppState>,
    options: BodyOptions,
    stream: &mut IngestStream,
    written: &mut Written,
) -> Result<(), ApiError> {
    let limit = app.settings.max_body;
    let mut decoder = ArrowDecoder::new(options);
    while let Some(frame) = stream.next().await? {
        written.bytes += frame.len() as u64;
        if written.bytes > limit {
            return Err(intake::too_long(
                limit,
                "; the record batches before it are stored",
            ));
        }
        let taken = decoder.take(frame, |rows| {
            app.with_patience(|| written.append(app, &rows))
                .map_err(Failure::Store)
        });
        taken.map_err(|failure| failure.answer(written))?;
        tokio::task::yield_now().await;
    }
    let finished = decoder.finish().map_err(Failure::Body);
    finished.map_err(|failure| failure.answer(written))
}

/// Reason why a body ends early.
enum Failure {
    Body(ArrowBodyError),
    Store(Error),
}

impl From<ArrowBodyError> for Failure {
    fn from(error: ArrowBodyError) -> Failure {
        Failure::Body(error)
    }
}

impl Failure {
    fn answer(self, written: &Written) -> ApiError {
        match self {
            Failure::Store(error) => error.into(),
            Failure::Body(error) if written.rows == 0 => ApiError::invalid(error),
            Failure::Body(error) => ApiError::invalid(format!(
                "{error}; {} rows before it are stored",
                written.rows
            )),
        }
    }
}

/// Result of a body so far.
#[derive(Default)]
struct Written {
    rows: u64,
    samples: u64,
    rejected: u64,
    bytes: u64,
    listed: Vec<BadRows>,
    /// Position for `Store::wait_durable`: when it is durable, all accepted rows are.
    position: u64,
}

impl Written {
    fn append(&mut self, app: &AppState, rows: &BodyRows<'_>) -> Result<(), Error> {
        for bad in &rows.bad {
            self.reject(bad.clone());
        }
        if !rows.singles.numbers.is_empty() {
            let receipt = app.store.append(&LineNotation, &rows.singles.batch)?;
            self.note(&receipt, |row| rows.singles.numbers[row]);
        }
        let keys: Vec<&SourceKey> = rows.sources.iter().map(|rows| &rows.key).collect();
        let found = app.store.register_all(&keys)?;
        for (rows, source) in rows.sources.iter().zip(found) {
            self.append_source(app, rows, source)?;
        }
        Ok(())
    }

    /// Adds a receipt for rows whose numbers `number` returns.
    fn note(&mut self, receipt: &Receipt, number: impl Fn(usize) -> u64) {
        self.rows += receipt.rows as u64;
        self.samples += receipt.samples as u64;
        self.position = self.position.max(receipt.position);
        for (row, reason) in &receipt.rejected {
            self.reject(BadRows {
                first: number(*row),
                count: 1,
                reason: reason.to_string(),
            });
        }
        // The receipt lists the first ones only.
        self.rejected += (receipt.rejected_total - receipt.rejected.len()) as u64;
    }

    fn append_source(
        &mut self,
        app: &AppState,
        rows: &SourceRows,
        source: Result<SourceId, Reason>,
    ) -> Result<(), Error> {
        let source = match source {
            Ok(source) => source,
            Err(reason) => {
                self.reject(BadRows {
                    first: rows.number(0),
                    count: rows.len() as u64,
                    reason: reason.to_string(),
                });
                return Ok(());
            }
        };
        let fields: Vec<&str> = rows.fields.iter().map(String::as_str).collect();
        let receipt = app.store.append_columns(source, &fields, &rows.columns)?;
        self.note(&receipt, |row| rows.number(row));
        Ok(())
    }

    fn reject(&mut self, bad: BadRows) {
        self.rejected += bad.count;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(bad);
        }
    }

    fn answer(mut self) -> Response {
        if self.rejected == 0 {
            return StatusCode::NO_CONTENT.into_response();
        }
        self.listed.sort_by_key(|bad| bad.first);
        let places = self.listed.iter().map(|bad| Place {
            text: match bad.count {
                1 => format!("row {}: {}", bad.first, bad.reason),
                count => format!("row {} and {} more: {}", bad.first, count - 1, bad.reason),
            },
            rows: bad.count,
        });
        let message = intake::partial("rows", self.rows, self.rejected, places);
        let listed = self.listed.iter();
        let listed: Vec<_> = listed
            .map(|bad| json!({"row": bad.first, "rows": bad.count, "reason": bad.reason}))
            .collect();
        let body = json!({
            "error": message,
            "code": "invalid",
            "message": message,
            "accepted": self.rows,
            "rejected": self.rejected,
            "rows": listed,
        });
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    }
}
