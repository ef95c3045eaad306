//! Intake of all protocols: admission, limits, durability and partial errors of a write.
//!
//! A protocol has a folder or a file with its decoder's loop and its answers. Everything that protects the server and
//! the store is here, so that it is the same for all.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::limiter::Permit;
use crate::port;
use crate::traffic::ProtocolCounters;
use seiner_model::{Batch, Cell, Row};
use seiner_store::Durability;
use seiner_wire::line::Precision;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time after which a client stops waiting for the replicas of a cluster.
const REPLICAS: Duration = Duration::from_secs(30);

/// Write that was admitted.
pub struct Intake<'a> {
    app: &'a Arc<AppState>,
    permit: Permit,
    /// Counters of the protocol.
    pub counters: Arc<ProtocolCounters>,
}

impl<'a> Intake<'a> {
    /// Admits a write of a protocol, if the server has a free place.
    ///
    /// # Errors
    /// 503 with Retry-After if too many writes are in progress.
    pub fn begin(app: &'a Arc<AppState>, protocol: &'static str) -> Result<Intake<'a>, ApiError> {
        let permit = app.writes.acquire()?;
        app.traffic.writes.fetch_add(1, Relaxed);
        Ok(Intake {
            app,
            permit,
            counters: app.traffic.protocol(protocol),
        })
    }

    /// Waits until the rows up to a position are as durable as the settings require.
    ///
    /// # Errors
    /// If the rows do not become durable, or not in time.
    pub async fn durable(self, position: u64) -> Result<(), ApiError> {
        match self.app.store.durability() {
            Durability::Sync => self.on_disk(position).await,
            _ => Ok(()),
        }
    }

    /// Waits until the rows up to a position are on the disk, or on the replicas of a cluster, even if the settings
    /// require less. A store without a journal does not wait.
    ///
    /// # Errors
    /// If the rows do not become durable, or not in time.
    pub async fn on_disk(self, position: u64) -> Result<(), ApiError> {
        let store = &self.app.store;
        if store.is_durable(position) {
            return Ok(());
        }
        let (store, permit) = (store.clone(), self.permit);
        let waiting = port::blocking(move || {
            // The permit limits the number of threads that wait, those without a client included.
            let _permit = permit;
            store.wait_durable(position)
        });
        if self.app.cluster.is_none() {
            return Ok(waiting.await??);
        }
        match tokio::time::timeout(REPLICAS, waiting).await {
            Ok(waited) => Ok(waited??),
            Err(_) => Err(ApiError::unavailable(format!(
                "the rows are in the journal of this port, but not on enough replicas after {} s; send them again, to \
                 another port if possible: they count once",
                REPLICAS.as_secs()
            ))),
        }
    }
}

/// Parses the unit of times; nanoseconds without one.
pub fn precision(text: Option<&str>) -> Result<Precision, ApiError> {
    match text {
        None | Some("") => Ok(Precision::Ns),
        Some(text) => text.parse().map_err(ApiError::invalid),
    }
}

/// Returns the error of a body that exceeds a limit in bytes.
pub fn too_long(limit: u64, rest: &str) -> ApiError {
    ApiError::too_large(format!(
        "the body is longer than {limit} bytes, after decompression; send several shorter ones, or raise max_body{rest}"
    ))
}

/// Rejected part of a write, for the answer.
pub struct Place {
    /// Place in the body, with the reason: `line 3: …`.
    pub text: String,
    /// Number of rejected rows at this place.
    pub rows: u64,
}

/// Returns the message of a write of which a part was rejected. `rows` is the protocol's word for rows.
pub fn partial(
    rows: &str,
    accepted: u64,
    rejected: u64,
    places: impl IntoIterator<Item = Place>,
) -> String {
    let total = accepted + rejected;
    let verb = if rejected == 1 { "was" } else { "were" };
    let mut message =
        format!("partial write: {rejected} of {total} {rows} {verb} rejected, the rest is stored");
    let mut listed = 0;
    for (index, place) in places.into_iter().enumerate() {
        let lead = if index == 0 { ": " } else { "; " };
        message.push_str(lead);
        message.push_str(&place.text);
        listed += place.rows;
    }
    if rejected > listed {
        message.push_str(&format!("; and {} more", rejected - listed));
    }
    message
}

/// Memory of the lists of a batch, from one batch to the next.
#[derive(Default)]
pub struct Lists {
    rows: Vec<Row<'static>>,
    cells: Vec<Cell<'static>>,
}

impl Lists {
    /// Returns an empty batch in the memory of the lists.
    pub fn batch<'b>(&mut self) -> Batch<'b> {
        Batch {
            rows: recycle(&mut self.rows),
            cells: recycle(&mut self.cells),
        }
    }

    /// Takes the memory of a batch back.
    pub fn take_back(&mut self, mut batch: Batch<'_>) {
        self.rows = recycle(&mut batch.rows);
        self.cells = recycle(&mut batch.cells);
    }
}

/// Returns an empty list in the memory of another list. Items of both lists must have the same
/// size. Collecting in place keeps the allocation (a test checks the standard library).
fn recycle<A, B>(list: &mut Vec<A>) -> Vec<B> {
    list.clear();
    std::mem::take(list)
        .into_iter()
        .map(|_| unreachable!("the list is empty"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_lists_keep_their_memory() {
        let mut rows: Vec<Row<'static>> = Vec::with_capacity(1000);
        let place = rows.as_ptr() as usize;
        let rows: Vec<Row<'_>> = recycle(&mut rows);
        assert_eq!((rows.as_ptr() as usize, rows.capacity()), (place, 1000));
    }

    #[test]
    fn partial_errors_state_what_they_do_not_list() {
        let place = |text: &str, rows| Place {
            text: text.to_string(),
            rows,
        };
        assert_eq!(
            partial("lines", 2, 1, [place("line 3: bad", 1)]),
            "partial write: 1 of 3 lines was rejected, the rest is stored: line 3: bad"
        );
        assert_eq!(
            partial("samples", 0, 9, [place("a", 2), place("b", 3)]),
            "partial write: 9 of 9 samples were rejected, the rest is stored: a; b; and 4 more"
        );
    }
}
