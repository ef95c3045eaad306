//! `POST /write` and `POST /api/v2/write`: bodies of line protocol.
//!
//! A body is streamed into the store frame by frame and never held as a whole. The work on
//! a frame is done where it arrives: it takes less time than handing it to another thread
//! would, and the frame is still in the cache.

use crate::ingest::{Intake, Outcome};
use crate::refusal::Refusal;
use crate::station::Station;
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use seiner_engine::{Durability, Error};
use seiner_wire::line::Precision;
use serde::Deserialize;
use serde_json::json;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long the next bytes of a body may take.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// The slowest a body may come on the whole, after [`FRAME_TIMEOUT`]; else senders of a byte
/// now and then could keep all places.
const LEAST_BYTES_PER_S: u64 = 1024;

/// Compressed bytes that are inflated before others get their turn: at the highest ratio that
/// deflate reaches they become some 16 MiB.
const INFLATE_BYTES: usize = 16 << 10;

/// What a body that is refused may still send, so that the sender gets to read the answer.
const DRAIN_BYTES: u64 = 16 << 20;

/// What the address of a write may say. The others (`db`, `bucket`, …) are for stores that have
/// such things.
#[derive(Deserialize)]
pub struct Parameters {
    precision: Option<String>,
}

/// Takes a body.
pub async fn write(
    State(station): State<Arc<Station>>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut inflow = Inflow {
        body,
        started: Instant::now(),
        bytes: 0,
    };
    match take(&station, &parameters, &headers, &mut inflow).await {
        Ok(outcome) => answer(outcome),
        Err(refusal) => {
            inflow.drain().await;
            refusal.into_response()
        }
    }
}

async fn take(
    station: &Arc<Station>,
    parameters: &Parameters,
    headers: &HeaderMap,
    inflow: &mut Inflow,
) -> Result<Outcome, Refusal> {
    let _place = station.writes.enter()?;
    station.meters.writes.fetch_add(1, Relaxed);
    let precision = match parameters.precision.as_deref() {
        None | Some("") => Precision::Ns,
        Some(text) => text.parse().map_err(Refusal::invalid)?,
    };
    let limit = station.settings.max_body;
    let intake = Intake::new(&station.engine, Some(&station.meters), precision);
    let mut sink = Sink {
        station,
        intake,
        left: limit,
        limit,
        refusal: None,
    };
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|encoding| encoding.as_bytes())
    {
        None | Some(b"identity" | b"") => {
            while let Some(frame) = inflow.next().await? {
                sink.take(&frame)?;
            }
        }
        Some(b"gzip" | b"x-gzip") => sink = inflate(inflow, sink).await?,
        Some(_) => return Err(Refusal::invalid("Content-Encoding can be gzip or left out")),
    }
    let Sink { intake, .. } = sink;
    let outcome = station.with_patience(|| intake.finish())?;
    durable(station, outcome.position).await?;
    Ok(outcome)
}

async fn inflate<'e>(inflow: &mut Inflow, sink: Sink<'e>) -> Result<Sink<'e>, Refusal> {
    let mut decoder = MultiGzDecoder::new(sink);
    while let Some(frame) = inflow.next().await? {
        for piece in frame.chunks(INFLATE_BYTES) {
            if let Err(error) = decoder.write_all(piece) {
                return Err(decoder
                    .get_mut()
                    .refusal
                    .take()
                    .unwrap_or_else(|| bad_gzip(&error)));
            }
            tokio::task::yield_now().await;
        }
    }
    if let Err(error) = decoder.try_finish() {
        return Err(decoder
            .get_mut()
            .refusal
            .take()
            .unwrap_or_else(|| bad_gzip(&error)));
    }
    decoder.finish().map_err(|error| bad_gzip(&error))
}

fn bad_gzip(error: &io::Error) -> Refusal {
    Refusal::invalid(format!(
        "the body is not the gzip that Content-Encoding says it is: {error}"
    ))
}

/// Waits until the rows are as safe as the durability says.
async fn durable(station: &Arc<Station>, position: u64) -> Result<(), Refusal> {
    let engine = &station.engine;
    if engine.durability() != Durability::Sync || engine.is_durable(position) {
        return Ok(());
    }
    let engine = engine.clone();
    let waited = tokio::task::spawn_blocking(move || engine.wait_durable(position)).await;
    waited.map_err(Refusal::internal)?.map_err(Refusal::from)
}

fn answer(outcome: Outcome) -> Response {
    if outcome.rejected == 0 {
        return StatusCode::NO_CONTENT.into_response();
    }
    let total = outcome.accepted + outcome.rejected;
    let mut message = format!(
        "partial write: {} of {total} lines were refused, the rest is stored",
        outcome.rejected
    );
    for (index, refused) in outcome.refused.iter().enumerate() {
        let lead = if index == 0 { ": " } else { "; " };
        message.push_str(&format!("{lead}line {}: {}", refused.line, refused.reason));
    }
    if outcome.rejected > outcome.refused.len() as u64 {
        message.push_str(&format!(
            "; and {} more",
            outcome.rejected - outcome.refused.len() as u64
        ));
    }
    let body = json!({
        "error": message,
        "code": "invalid",
        "message": message,
        "accepted": outcome.accepted,
        "rejected": outcome.rejected,
        "lines": outcome.refused,
    });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

/// A body as it comes in, against the clock.
struct Inflow {
    body: Body,
    started: Instant,
    bytes: u64,
}

impl Inflow {
    /// The next frame; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let frame = tokio::time::timeout(FRAME_TIMEOUT, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| too_slow())? else {
                return Ok(None);
            };
            let frame =
                frame.map_err(|error| Refusal::invalid(format!("the body broke off: {error}")))?;
            if let Ok(bytes) = frame.into_data() {
                self.bytes += bytes.len() as u64;
                let allowed = FRAME_TIMEOUT + Duration::from_secs(self.bytes / LEAST_BYTES_PER_S);
                return if self.started.elapsed() <= allowed {
                    Ok(Some(bytes))
                } else {
                    Err(too_slow())
                };
            }
        }
    }

    /// Lets what is left go by, within bounds.
    async fn drain(mut self) {
        let until = self.bytes + DRAIN_BYTES;
        let drained =
            async { while self.bytes < until && matches!(self.next().await, Ok(Some(_))) {} };
        // Past the time the connection is closed on the sender, whatever it still has to say.
        let _ = tokio::time::timeout(Duration::from_secs(5), drained).await;
    }
}

fn too_slow() -> Refusal {
    Refusal::too_slow(
        "the body came too slowly; send it within 30 s, or at 1 KiB a second at least",
    )
}

/// An intake behind a limit; as a `Write` it is what a decoder inflates into.
struct Sink<'e> {
    station: &'e Station,
    intake: Intake<'e>,
    left: u64,
    limit: u64,
    /// Why `write` failed: an [`io::Error`] could not say it.
    refusal: Option<Refusal>,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            Refusal::too_large(format!(
                "the body is longer than {} bytes, after decompression; send several shorter ones, or raise max_body; \
                 the lines before it are stored",
                self.limit
            ))
        })?;
        let intake = &mut self.intake;
        let taken = self.station.with_patience(|| intake.take(bytes));
        taken.map_err(|error: Error| error.into())
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.take(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(refusal) => {
                self.refusal = Some(refusal);
                Err(io::Error::other("refused"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
