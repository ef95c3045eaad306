//! Ports of StatsD, and the end of each interval.

use super::aggregate::Aggregated;
use super::lines::{LINES, PROTOCOL};
use crate::app_state::AppState;
use crate::ingest::{BATCH_ROWS, now};
use crate::intake::Lists;
use crate::port;
use crate::shutdown::Stop;
use crate::text::{tcp, udp};
use seiner_model::{Cell, Value};
use seiner_store::Error;
use seiner_wire::line::LineNotation;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

const NS_PER_MS: i64 = 1_000_000;

/// Receives values until the stop, and stores the rows of each interval. The last interval ends when the ports are
/// closed.
pub async fn serve(socket: UdpSocket, listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    port::polled(run(socket, listener, app, stop)).await;
}

async fn run(socket: UdpSocket, listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let interval = app.settings.statsd.interval.as_nanos() as i64;
    let mut ports = JoinSet::new();
    ports.spawn(udp::serve(&LINES, socket, app.clone(), stop.clone()));
    ports.spawn(tcp::serve(&LINES, listener, app.clone(), stop));
    loop {
        let due = now() - now().rem_euclid(interval) + interval;
        let wait = Duration::from_nanos((due - now()).clamp(0, interval) as u64);
        tokio::select! {
            ended = ports.join_next() => if ended.is_none() {
                break;
            },
            () = tokio::time::sleep(wait) => flush(&app, due).await,
        }
    }
    flush(&app, now() - now().rem_euclid(NS_PER_MS)).await;
}

/// Stores the rows of the interval that ends at a time in ns.
async fn flush(app: &AppState, time: i64) {
    let counters = app.traffic.protocol(PROTOCOL);
    let rows = app.statsd.take(time);
    let mut lists = Lists::default();
    let mut lost = 0;
    let mut reason = None;
    for rows in rows.chunks(BATCH_ROWS) {
        match store(app, rows, &mut lists) {
            Ok((accepted, samples, rejected)) => {
                counters.rows.fetch_add(accepted, Relaxed);
                counters.samples.fetch_add(samples, Relaxed);
                if let Some((number, first)) = rejected {
                    lost += number;
                    reason.get_or_insert(first);
                }
            }
            Err(error) => {
                lost += rows.len() as u64;
                reason.get_or_insert(error.to_string());
            }
        }
        tokio::task::yield_now().await;
    }
    if let Some(reason) = reason {
        counters.rejected.fetch_add(lost, Relaxed);
        tracing::warn!("{lost} rows of StatsD were not stored: {reason}");
    }
}

/// Number of accepted rows, of accepted samples, and of rejected rows with the first reason.
type Stored = (u64, u64, Option<(u64, String)>);

/// Stores the rows of a batch. A sum beyond the range of floats is left out.
fn store(app: &AppState, rows: &[Aggregated], lists: &mut Lists) -> Result<Stored, Error> {
    let mut batch = lists.batch();
    for row in rows {
        let fields = row.fields.iter().filter(|(_, value)| value.is_finite());
        let cells: Vec<Cell<'_>> = fields
            .map(|(field, value)| Cell {
                field: field.as_bytes(),
                value: Value::F64(*value),
            })
            .collect();
        if !cells.is_empty() {
            batch.push(&row.name, row.time, cells);
        }
    }
    let appended = app.with_patience(|| app.store.append(&LineNotation, &batch));
    lists.take_back(batch);
    let receipt = appended?;
    let first = receipt
        .rejected
        .first()
        .map(|(_, reason)| reason.to_string());
    let rejected = first.map(|first| (receipt.rejected_total as u64, first));
    Ok((receipt.rows as u64, receipt.samples as u64, rejected))
}
