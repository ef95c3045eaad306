//! Pickles over TCP: each has its length before it, as 4 bytes in network order.
//!
//! A sender gets no answers. For back-pressure, the server does not read from the socket while the store is busy.

use crate::accept::{Arrival, accept, close};
use crate::app_state::AppState;
use crate::connections::Connection;
use crate::graphite::METRIC;
use crate::ingest::{BATCH_ROWS, now};
use crate::intake::Lists;
use crate::secure::Link;
use crate::shutdown::Stop;
use crate::text::secured;
use crate::traffic::ProtocolCounters;
use seiner_model::Batch;
use seiner_store::{Error, Receipt};
use seiner_wire::Skipped;
use seiner_wire::graphite::{MAX_PICKLE, Pickle};
use seiner_wire::line::{Arena, LineNotation};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tracing::Instrument;

/// Idle time of a sender after which its connection may be closed for a new one.
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Number of bytes that are read at once. Memory for a pickle grows as it arrives.
const PIECE_BYTES: u64 = 64 << 10;

/// Receives pickles until the stop.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection: Arc<Connection>| {
        let (app, mut stop, span) = (of.clone(), until.clone(), arrival.span());
        let served = async move {
            let peer = arrival.peer;
            let taken = tokio::select! {
                taken = take(arrival.stream, &app, &connection, peer) => taken,
                () = stop.wanted() => Ok(()),
                () = connection.must_close() => {
                    tracing::warn!("pickles of Graphite from {peer}: the connection was idle the longest and is closed for another one; raise max_connections");
                    Ok(())
                }
            };
            if let Err(error) = taken {
                tracing::warn!("pickles of Graphite from {peer} were cut off: {error}");
            }
        };
        served.instrument(span)
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

async fn take(
    stream: TcpStream,
    app: &AppState,
    connection: &Connection,
    peer: SocketAddr,
) -> Result<(), String> {
    let counters = app.traffic.protocol(METRIC);
    let (name, from) = ("a pickle of Graphite", peer.to_string());
    let Some(mut stream) = secured(stream, app, METRIC, name, &from).await else {
        return Ok(());
    };
    let mut pickle = Vec::new();
    let mut reported = false;
    while let Some(len) = length(&mut stream, &counters).await? {
        pickle.clear();
        while pickle.len() < len {
            let piece = PIECE_BYTES.min((len - pickle.len()) as u64);
            let read = (&mut stream).take(piece).read_to_end(&mut pickle).await;
            connection.note_transfer();
            if read.map_err(|error| error.to_string())? == 0 {
                counters.rejected.fetch_add(1, Relaxed);
                return Err("a pickle is incomplete".to_string());
            }
        }
        counters.bytes.fetch_add(4 + len as u64, Relaxed);
        let first = app
            .with_patience(|| store(app, &counters, &pickle))
            .map_err(|error| error.to_string())?;
        if let (Some(reason), false) = (first, reported) {
            reported = true;
            tracing::warn!("a pickle of Graphite from {peer}: {reason}");
        }
    }
    Ok(())
}

/// Returns the length of the next pickle; `None` at the end.
async fn length(stream: &mut Link, counters: &ProtocolCounters) -> Result<Option<usize>, String> {
    let len = match stream.read_u32().await {
        Ok(len) => len as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if len <= MAX_PICKLE {
        return Ok(Some(len));
    }
    counters.rejected.fetch_add(1, Relaxed);
    Err(format!(
        "a length of {len} bytes exceeds {MAX_PICKLE}; send shorter pickles, each with its length in 4 bytes before it"
    ))
}

/// Stores the samples of a pickle. Returns the first reason of a rejection.
fn store(
    app: &AppState,
    counters: &ProtocolCounters,
    bytes: &[u8],
) -> Result<Option<String>, Error> {
    let mut pickle = match Pickle::parse(bytes) {
        Ok(pickle) => pickle,
        Err(error) => {
            counters.rejected.fetch_add(1, Relaxed);
            return Ok(Some(error.to_string()));
        }
    };
    let now = now();
    let (mut lists, mut arena) = (Lists::default(), Arena::new());
    let mut first = None;
    loop {
        let mut batch = lists.batch();
        let more = fill(&mut pickle, now, &arena, &mut batch, counters, &mut first);
        let appended = match batch.rows.is_empty() {
            true => Ok(Receipt::default()),
            false => app.store.append(&LineNotation, &batch),
        };
        lists.take_back(batch);
        arena.clear();
        let receipt = appended?;
        counters.rows.fetch_add(receipt.rows as u64, Relaxed);
        counters.samples.fetch_add(receipt.samples as u64, Relaxed);
        let rejected = receipt.rejected_total as u64;
        counters.rejected.fetch_add(rejected, Relaxed);
        if let (None, Some((_, reason))) = (&first, receipt.rejected.first()) {
            first = Some(reason.to_string());
        }
        if !more {
            return Ok(first);
        }
    }
}

/// Fills a batch. Returns whether more samples may follow.
fn fill<'b, 'p: 'b>(
    pickle: &mut Pickle<'p>,
    now: i64,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
    counters: &ProtocolCounters,
    first: &mut Option<String>,
) -> bool {
    while batch.rows.len() < BATCH_ROWS {
        match pickle.next_row(now, arena, batch) {
            None => return false,
            Some(Ok(())) => {}
            Some(Err(Skipped::NotANumber)) => {
                counters.ignored.fetch_add(1, Relaxed);
            }
            Some(Err(Skipped::Rejected(reason))) => {
                counters.rejected.fetch_add(1, Relaxed);
                first.get_or_insert(reason);
            }
        }
    }
    true
}
