//! Samples of a request, from the decoder into the store.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::series::{self, SeriesDecoder, Stored, add_rejected};
use crate::traffic::ProtocolCounters;
use seiner_model::Batch;
use seiner_store::Receipt;
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{Malformed, Rejections, Version, WriteDecoder};
use std::sync::atomic::Ordering::Relaxed;

/// Result of a request so far.
#[derive(Debug, Default)]
pub struct Written {
    /// Accepted samples.
    pub stored: Stored,
    /// Rejected samples.
    pub rejections: Rejections,
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
    let mut decoder = WriteDecoder::new(version, request)
        .map_err(|error| series::malformed::<WriteDecoder<'_>>(&error, &written.stored))?;
    let stored = series::store(app, &mut decoder, &mut written.stored).await;
    let ignored = decoder.ignored + app.metric_metadata.note(&decoder.metadata);
    written.rejections = decoder.rejections;
    series::count(counters, &written.stored, &mut written.rejections, ignored);
    stored
}

impl<'a> SeriesDecoder<'a> for WriteDecoder<'a> {
    const FORM: &'static str = "a request of remote write, after decompression";

    fn fill<'b>(
        &mut self,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b,
    {
        WriteDecoder::fill(self, max_rows, arena, batch)
    }

    #[cold]
    fn note_rejected(&mut self, batch: &Batch<'_>, receipt: &Receipt) {
        let mut rejections = std::mem::take(&mut self.rejections);
        add_rejected(&mut rejections, batch, receipt, |row| {
            self.series_of_row(row)
        });
        self.rejections = rejections;
    }
}
