//! Points of a request, from the decoder into the store.

use super::messages::{PartialSuccess, Response};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::series::{self, SeriesDecoder, Stored};
use crate::traffic::ProtocolCounters;
use crate::{ingest, intake};
use seiner_model::Batch;
use seiner_store::Receipt;
use seiner_wire::line::Arena;
use seiner_wire::otlp::{Malformed, MetricsDecoder};
use seiner_wire::remote_write::Rejections;
use std::sync::atomic::Ordering::Relaxed;

/// Result of a request so far.
#[derive(Debug, Default)]
pub struct Written {
    /// Accepted samples.
    pub stored: Stored,
    /// Number of data points.
    points: u64,
    /// Rejected data points.
    rejections: Rejections,
}

impl Written {
    /// Returns the answer to a request that was read to its end.
    pub fn response(&self) -> Response {
        let rejections = &self.rejections;
        let partial_success = (rejections.samples > 0).then(|| {
            let places = series::places(rejections, "metric", "point");
            let accepted = self.points.saturating_sub(rejections.samples);
            PartialSuccess {
                rejected_data_points: rejections.samples as i64,
                error_message: intake::partial("data points", accepted, rejections.samples, places),
            }
        });
        Response { partial_success }
    }
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
    let mut points = Points {
        decoder: MetricsDecoder::new(request, ingest::now(), promoted),
        last_rejected: 0,
    };
    let stored = series::store(app, &mut points, &mut written.stored).await;
    let decoder = points.decoder;
    let ignored = decoder.ignored + app.metric_metadata.note(&decoder.metadata());
    written.points = decoder.points;
    written.rejections = decoder.rejections;
    series::count(counters, &written.stored, &mut written.rejections, ignored);
    stored
}

/// Data points of a request.
struct Points<'a> {
    decoder: MetricsDecoder<'a>,
    /// Number of the last point with a rejected row.
    last_rejected: u64,
}

impl<'a> SeriesDecoder<'a> for Points<'a> {
    const FORM: &'static str = "an ExportMetricsServiceRequest";

    fn fill<'b>(
        &mut self,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b,
    {
        self.decoder.fill(max_rows, arena, batch)
    }

    /// Adds the points with rejected rows. A point counts once, whatever the number of its rows.
    #[cold]
    fn note_rejected(&mut self, batch: &Batch<'_>, receipt: &Receipt) {
        let Points {
            decoder,
            last_rejected: last,
        } = self;
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
}
