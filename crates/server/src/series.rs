//! Samples of labelled series, from a decoder into the store: the same for remote write, OTLP, scraping and rules.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::BATCH_ROWS;
use crate::intake::{Lists, Place};
use crate::traffic::ProtocolCounters;
use seiner_model::Batch;
use seiner_store::Receipt;
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{LabelNotation, Malformed, Rejection, Rejections};
use std::sync::atomic::Ordering::Relaxed;

/// Number of batches after which other tasks run.
const YIELD_BATCHES: u64 = 8;

/// Decoder of a request, or another maker of rows, whose rows are samples of series.
pub trait SeriesDecoder<'a> {
    /// Form of the request, for errors: `a request of …`.
    const FORM: &'static str;

    /// Appends samples to an empty batch, up to `max_rows`. Returns whether more may follow.
    ///
    /// # Errors
    /// If the request is malformed. The rows in the batch are valid.
    fn fill<'b>(
        &mut self,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b;

    /// Adds the samples of a batch that the store rejected to those of the decoder.
    fn note_rejected(&mut self, batch: &Batch<'_>, receipt: &Receipt);
}

/// Samples that were stored so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// Number of accepted samples.
    pub samples: u64,
    /// Position for `Store::wait_durable`: when it is durable, all accepted samples are.
    pub position: u64,
}

/// Stores the samples of a request. `stored` is valid after an error, too.
///
/// # Errors
/// If the request is malformed, or if the store accepts no more. Rejected samples are not an error.
pub async fn store<'a, D: SeriesDecoder<'a>>(
    app: &AppState,
    decoder: &mut D,
    stored: &mut Stored,
) -> Result<(), ApiError> {
    let (mut lists, mut arena) = (Lists::default(), Arena::new());
    let mut batches = 0;
    while step(app, decoder, &mut lists, &arena, stored)? {
        arena.clear();
        batches += 1;
        if batches % YIELD_BATCHES == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Does the same as [`store`], on a thread that may block.
///
/// # Errors
/// As in [`store`].
pub fn store_blocking<'a, D: SeriesDecoder<'a>>(
    app: &AppState,
    decoder: &mut D,
    stored: &mut Stored,
) -> Result<(), ApiError> {
    let (mut lists, mut arena) = (Lists::default(), Arena::new());
    while step(app, decoder, &mut lists, &arena, stored)? {
        arena.clear();
    }
    Ok(())
}

/// Stores the next batch. Returns whether more may follow.
fn step<'a, D: SeriesDecoder<'a>>(
    app: &AppState,
    decoder: &mut D,
    lists: &mut Lists,
    arena: &Arena,
    stored: &mut Stored,
) -> Result<bool, ApiError> {
    let mut batch = lists.batch();
    let filled = decoder.fill(BATCH_ROWS, arena, &mut batch);
    let appended = match batch.rows.is_empty() {
        true => Ok(Receipt::default()),
        false => app.with_patience(|| app.store.append(&LabelNotation, &batch)),
    };
    if let Ok(receipt) = &appended {
        stored.samples += receipt.samples as u64;
        stored.position = stored.position.max(receipt.position);
        if receipt.rejected_total > 0 {
            decoder.note_rejected(&batch, receipt);
        }
    }
    lists.take_back(batch);
    appended?;
    filled.map_err(|error| malformed::<D>(&error, stored))
}

/// Adds the rejected rows of a batch to the rejections of a decoder whose rows are samples. `series` returns the number of
/// a row's series.
pub fn add_rejected(
    rejections: &mut Rejections,
    batch: &Batch<'_>,
    receipt: &Receipt,
    series: impl Fn(usize) -> u64,
) {
    for (row, reason) in &receipt.rejected {
        let name = batch.rows.get(*row).map_or(&b""[..], |row| row.name);
        rejections.add(series(*row), name, 1, reason);
    }
    // The receipt lists the first ones only.
    let unlisted = receipt.rejected_total - receipt.rejected.len();
    rejections.samples += unlisted as u64;
}

/// Returns the error of a malformed request.
pub fn malformed<'a, D: SeriesDecoder<'a>>(error: &Malformed, stored: &Stored) -> ApiError {
    let rest = match stored.samples {
        0 => String::new(),
        samples => format!("; {samples} samples before it are stored"),
    };
    ApiError::invalid(format!("the body is not {}: {error}{rest}", D::FORM))
}

/// Counts the samples of a request that was read to its end or to a fault.
pub fn count(
    counters: &ProtocolCounters,
    stored: &Stored,
    rejections: &mut Rejections,
    ignored: u64,
) {
    let listed = &mut rejections.listed;
    listed.sort_by_key(|rejection| rejection.series);
    // A sample is a row.
    counters.rows.fetch_add(stored.samples, Relaxed);
    counters.samples.fetch_add(stored.samples, Relaxed);
    counters.rejected.fetch_add(rejections.samples, Relaxed);
    counters.ignored.fetch_add(ignored, Relaxed);
}

/// Returns the places of rejections, with the protocol's words for a series and a sample.
pub fn places<'r>(
    rejections: &'r Rejections,
    series: &'r str,
    sample: &'r str,
) -> impl Iterator<Item = Place> + 'r {
    rejections.listed.iter().map(move |rejection| {
        let Rejection {
            series: number,
            name,
            samples,
            reason,
        } = rejection;
        let plural = if *samples == 1 { "" } else { "s" };
        Place {
            text: format!("{series} {number} ({name}), {samples} {sample}{plural}: {reason}"),
            rows: *samples,
        }
    })
}
