//! Samples of a request, from the decoder into the store.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::BATCH_ROWS;
use crate::intake::Lists;
use crate::traffic::ProtocolCounters;
use seiner_model::Batch;
use seiner_store::Receipt;
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{LabelNotation, Malformed, Rejections, Version, WriteDecoder};
use std::sync::atomic::Ordering::Relaxed;

/// Number of batches after which other tasks run.
const YIELD_BATCHES: u64 = 8;

/// Result of a request so far.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of accepted samples.
    pub accepted: u64,
    /// Rejected samples.
    pub rejections: Rejections,
    /// Position for `Store::wait_durable`: when it is durable, all accepted samples are.
    pub position: u64,
}

/// Stores the samples of a request, and its metadata. `written` is valid after an error, too.
///
/// # Errors
/// If the request is malformed, or if the store accepts no more. Rejected samples are not an error.
pub async fn store(
    app: &AppState,
    counters: &ProtocolCounters,
    version: Version,
    request: &[u8],
    written: &mut Written,
) -> Result<(), ApiError> {
    counters.bytes.fetch_add(request.len() as u64, Relaxed);
    let decoder =
        WriteDecoder::new(version, request).map_err(|error| malformed(&error, written))?;
    let mut ingest = Ingest {
        app,
        decoder,
        lists: Lists::default(),
        arena: Arena::new(),
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
    written.rejections = decoder.rejections;
    written
        .rejections
        .listed
        .sort_by_key(|rejection| rejection.series);
    let ignored = decoder.ignored + app.metric_metadata.note(&decoder.metadata);
    // A sample is a row.
    counters.rows.fetch_add(written.accepted, Relaxed);
    counters.samples.fetch_add(written.accepted, Relaxed);
    counters
        .rejected
        .fetch_add(written.rejections.samples, Relaxed);
    counters.ignored.fetch_add(ignored, Relaxed);
    stored
}

struct Ingest<'a> {
    app: &'a AppState,
    decoder: WriteDecoder<'a>,
    lists: Lists,
    arena: Arena,
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
            written.accepted += receipt.samples as u64;
            written.position = written.position.max(receipt.position);
            if receipt.rejected_total > 0 {
                note_rejected(&mut self.decoder, &batch, receipt);
            }
        }
        self.lists.take_back(batch);
        self.arena.clear();
        appended?;
        filled.map_err(|error| malformed(&error, written))
    }
}

/// Adds the samples of a batch that the store rejected.
#[cold]
fn note_rejected(decoder: &mut WriteDecoder<'_>, batch: &Batch<'_>, receipt: &Receipt) {
    for (row, reason) in &receipt.rejected {
        let series = decoder.series_of_row(*row);
        let name = batch.rows.get(*row).map_or(&b""[..], |row| row.name);
        decoder.rejections.add(series, name, 1, reason);
    }
    // The receipt lists the first ones only.
    let unlisted = receipt.rejected_total - receipt.rejected.len();
    decoder.rejections.samples += unlisted as u64;
}

fn malformed(error: &Malformed, written: &Written) -> ApiError {
    let rest = match written.accepted {
        0 => String::new(),
        accepted => format!("; {accepted} samples before it are stored"),
    };
    ApiError::invalid(format!(
        "the body is not a request of remote write, after decompression: {error}{rest}"
    ))
}
