//! Points of a request, from the decoder into the store.

use super::messages::{PartialSuccess, Response};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::{self, BATCH_ROWS};
use crate::intake::{self, Lists, Place};
use crate::traffic::ProtocolCounters;
use seiner_model::Batch;
use seiner_store::Receipt;
use seiner_wire::line::Arena;
use seiner_wire::otlp::{Malformed, MetricsDecoder};
use seiner_wire::remote_write::{LabelNotation, Rejection, Rejections};
use std::sync::atomic::Ordering::Relaxed;

/// Number of batches after which other tasks run.
const YIELD_BATCHES: u64 = 8;

/// Result of a request so far.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of accepted samples.
    samples: u64,
    /// Number of data points.
    points: u64,
    /// Rejected data points.
    rejections: Rejections,
    /// Position for `Store::wait_durable`: when it is durable, all accepted samples are.
    pub position: u64,
}

impl Written {
    /// Returns the answer to a request that was read to its end.
    pub fn response(&self) -> Response {
        let rejections = &self.rejections;
        let partial_success = (rejections.samples > 0).then(|| {
            let places = rejections.listed.iter().map(|rejection| Place {
                text: place(rejection),
                rows: rejection.samples,
            });
            let accepted = self.points.saturating_sub(rejections.samples);
            PartialSuccess {
                rejected_data_points: rejections.samples as i64,
                error_message: intake::partial("data points", accepted, rejections.samples, places),
            }
        });
        Response { partial_success }
    }
}

fn place(rejection: &Rejection) -> String {
    let Rejection {
        series,
        name,
        samples,
        reason,
    } = rejection;
    let count = match samples {
        1 => "1 point".to_string(),
        points => format!("{points} points"),
    };
    format!("metric {series} ({name}), {count}: {reason}")
}

/// Stores the points of a request in Protocol Buffers, and the metadata of its metrics. `written` is valid after an
/// error, too.
///
/// # Errors
/// If the request is malformed, or if the store accepts no more. Rejected points are not an error.
pub async fn store(
    app: &AppState,
    counters: &ProtocolCounters,
    request: &[u8],
    written: &mut Written,
) -> Result<(), ApiError> {
    counters.bytes.fetch_add(request.len() as u64, Relaxed);
    let promoted = &app.settings.otlp_labels;
    let mut ingest = Ingest {
        app,
        decoder: MetricsDecoder::new(request, ingest::now(), promoted),
        lists: Lists::default(),
        arena: Arena::new(),
        last_rejected: 0,
    };
    let mut batches = 0;
    let stored = loop {
        match ingest.step(written) {
            Ok(false) => break Ok(()),
            Ok(true) => batches += 1,
            Err(error) => break Err(error),
        }
        if batches % YIELD_BATCHES == 0 {
            tokio::task::yield_now().await;
        }
    };
    let decoder = ingest.decoder;
    let ignored = decoder.ignored + app.metric_metadata.note(&decoder.metadata());
    written.points = decoder.points;
    written.rejections = decoder.rejections;
    let listed = &mut written.rejections.listed;
    listed.sort_by_key(|rejection| rejection.series);
    // A sample is a row.
    counters.rows.fetch_add(written.samples, Relaxed);
    counters.samples.fetch_add(written.samples, Relaxed);
    counters
        .rejected
        .fetch_add(written.rejections.samples, Relaxed);
    counters.ignored.fetch_add(ignored, Relaxed);
    stored
}

struct Ingest<'a> {
    app: &'a AppState,
    decoder: MetricsDecoder<'a>,
    lists: Lists,
    arena: Arena,
    /// Number of the last point of which the store rejected a row.
    last_rejected: u64,
}

impl Ingest<'_> {
    /// Stores the next batch. Returns whether more may follow.
    fn step(&mut self, written: &mut Written) -> Result<bool, ApiError> {
        let mut batch = self.lists.batch();
        let filled = self.decoder.fill(BATCH_ROWS, &self.arena, &mut batch);
        let appended = match batch.rows.is_empty() {
            true => Ok(Receipt::default()),
            false => {
                let store = &self.app.store;
                self.app
                    .with_patience(|| store.append(&LabelNotation, &batch))
            }
        };
        if let Ok(receipt) = &appended {
            written.samples += receipt.samples as u64;
            written.position = written.position.max(receipt.position);
            if receipt.rejected_total > 0 {
                note_rejected(&mut self.decoder, &mut self.last_rejected, &batch, receipt);
            }
        }
        self.lists.take_back(batch);
        self.arena.clear();
        appended?;
        filled.map_err(|error| malformed(&error, written))
    }
}

/// Adds the points of which the store rejected a row. A point counts once, whatever the number of its rows.
#[cold]
fn note_rejected(
    decoder: &mut MetricsDecoder<'_>,
    last: &mut u64,
    batch: &Batch<'_>,
    receipt: &Receipt,
) {
    let mut listed = 0;
    for (row, reason) in &receipt.rejected {
        let (metric, point) = decoder.place_of_row(*row);
        listed = listed.max(row + 1);
        if point == 0 {
            decoder.ignored += 1;
        } else if point != *last {
            *last = point;
            let name = batch.rows.get(*row).map_or(&b""[..], |row| row.name);
            decoder.rejections.add(metric, name, 1, reason);
        }
    }
    // The receipt lists the first rows only. The others belong to at most as many points as follow in the batch.
    let unlisted = receipt.rejected_total - receipt.rejected.len();
    if unlisted > 0 {
        let mut following = 0;
        let mut point = *last;
        for row in listed..batch.rows.len() {
            let (_, of) = decoder.place_of_row(row);
            following += usize::from(of != point && of != 0);
            point = of;
        }
        decoder.rejections.samples += unlisted.min(following) as u64;
    }
}

fn malformed(error: &Malformed, written: &Written) -> ApiError {
    let rest = match written.samples {
        0 => String::new(),
        samples => format!("; {samples} samples before it are stored"),
    };
    ApiError::invalid(format!(
        "the body is not an ExportMetricsServiceRequest: {error}{rest}"
    ))
}
