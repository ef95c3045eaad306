//! Messages of a session into the store: one append and one wait for all of them.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::BATCH_ROWS;
use crate::intake::{Intake, Lists};
use crate::mqtt::PROTOCOL;
use crate::mqtt::packets::{Publish, Verdict};
use crate::shutdown::Stop;
use seiner_store::Receipt;
use seiner_wire::line::{Arena, LineNotation};
use seiner_wire::mqtt::{Mapping, Part, Rejection};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time before another attempt if the store does not accept rows: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Result of messages that were stored together.
#[derive(Default)]
struct Stored {
    rows: u64,
    samples: u64,
    position: u64,
    /// Rejections by the index of their message.
    rejections: Vec<(usize, Rejection)>,
}

/// Stores messages, and waits until their rows are on the disk. Returns a verdict for each message; `None` if the
/// server stops while the store does not accept rows. Rows keep their times in all attempts, so that they count once.
pub async fn store(
    app: &Arc<AppState>,
    mapping: &Mapping,
    messages: &[Publish],
    mut stop: Stop,
) -> Option<Vec<Verdict>> {
    let mut delay = RETRY.0;
    let stored = loop {
        match attempt(app, mapping, messages).await {
            Ok(stored) => break stored,
            Err(error) => {
                let reason = format!(
                    "messages of MQTT wait, because the store does not accept rows: {error}"
                );
                tracing::warn!("{reason}");
                app.mqtt.note_error(reason);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stop.wanted() => return None,
        }
        delay = (2 * delay).min(RETRY.1);
    };
    let counters = app.traffic.protocol(PROTOCOL);
    counters.rows.fetch_add(stored.rows, Relaxed);
    counters.samples.fetch_add(stored.samples, Relaxed);
    let bytes = messages
        .iter()
        .map(|message| message.message().payload.len() as u64);
    counters.bytes.fetch_add(bytes.sum(), Relaxed);
    app.mqtt.messages.fetch_add(messages.len() as u64, Relaxed);
    let mut verdicts = vec![None; messages.len()];
    for (index, rejection) in stored.rejections {
        counters.rejected.fetch_add(rejection.rows, Relaxed);
        app.mqtt
            .note_rejected(messages[index].message().topic, &rejection.reason);
        verdicts[index] = Some(rejection.part);
    }
    Some(verdicts)
}

async fn attempt(
    app: &Arc<AppState>,
    mapping: &Mapping,
    messages: &[Publish],
) -> Result<Stored, ApiError> {
    let intake = Intake::begin(app, PROTOCOL)?;
    let mut stored = Stored::default();
    let (mut lists, mut arena) = (Lists::default(), Arena::new());
    let mut next = 0;
    while next < messages.len() {
        arena.clear();
        next = append(
            app,
            mapping,
            messages,
            next,
            &mut lists,
            &arena,
            &mut stored,
        )?;
        tokio::task::yield_now().await;
    }
    intake.on_disk(stored.position).await?;
    Ok(stored)
}

/// Stores messages from `first` on, until they have the rows of one call of the store. Returns the index of the next
/// message.
fn append(
    app: &AppState,
    mapping: &Mapping,
    messages: &[Publish],
    first: usize,
    lists: &mut Lists,
    arena: &Arena,
    stored: &mut Stored,
) -> Result<usize, ApiError> {
    let mut batch = lists.batch();
    // First row of each message.
    let mut starts = Vec::new();
    let mut next = first;
    while next < messages.len() && batch.rows.len() < BATCH_ROWS {
        starts.push(batch.rows.len());
        let message = messages[next].message();
        let decoded = match message.payload.len() > app.settings.mqtt.max_packet as usize {
            true => Err(too_long(app.settings.mqtt.max_packet)),
            false => mapping.decode(message, arena, &mut batch),
        };
        if let Err(rejection) = decoded {
            stored.rejections.push((next, rejection));
        }
        next += 1;
    }
    let receipt = match batch.rows.is_empty() {
        true => Receipt::default(),
        false => app.with_patience(|| app.store.append(&LineNotation, &batch))?,
    };
    lists.take_back(batch);
    stored.rows += receipt.rows as u64;
    stored.samples += receipt.samples as u64;
    stored.position = stored.position.max(receipt.position);
    let message_of = |row: usize| first + starts.partition_point(|start| *start <= row) - 1;
    let unlisted = receipt.rejected_total - receipt.rejected.len();
    for (index, (row, reason)) in receipt.rejected.iter().enumerate() {
        // The receipt lists the first rows only. The last one of these stands for the others.
        let rows = match index + 1 == receipt.rejected.len() {
            true => 1 + unlisted as u64,
            false => 1,
        };
        let rejection = Rejection {
            part: Part::Payload,
            rows,
            reason: reason.to_string(),
        };
        stored.rejections.push((message_of(*row), rejection));
    }
    Ok(next)
}

fn too_long(max_packet: u32) -> Rejection {
    Rejection {
        part: Part::Payload,
        rows: 1,
        reason: format!(
            "the payload is longer than {max_packet} bytes; send shorter ones, or raise mqtt_max_packet"
        ),
    }
}
