//! Lines over TCP: a sender connects and writes lines, without answers.
//!
//! For back-pressure, the server does not read from the socket while the store is busy. A sender may die in the middle
//! of a line, so a line counts only with its newline.

use crate::accept::{Arrival, accept, close};
use crate::app_state::AppState;
use crate::connections::Connection;
use crate::secure::Link;
use crate::shutdown::Stop;
use crate::text::{Opening, TextProtocol, Verdict, reject_request, secured};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tracing::Instrument;

/// Number of bytes read from a socket at once.
const FRAME_BYTES: usize = 128 << 10;

/// Idle time of a sender after which its connection may be closed for a new one. Lines on their
/// way to a closed port are lost without notice.
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Receives lines until the stop. Lines that have arrived by then are stored.
pub async fn serve(
    protocol: &'static TextProtocol,
    listener: TcpListener,
    app: Arc<AppState>,
    stop: Stop,
) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection: Arc<Connection>| {
        let (app, mut stop, span) = (of.clone(), until.clone(), arrival.span());
        let served = async move {
            let peer = arrival.peer.to_string();
            let (metric, name) = (protocol.metric, protocol.name);
            let secured = tokio::select! {
                secured = secured(arrival.stream, &app, metric, name, &peer) => secured,
                () = stop.wanted() => None,
                () = connection.must_close() => None,
            };
            if let Some(stream) = secured {
                take(protocol, stream, &app, &connection, stop, &peer).await;
            }
        };
        served.instrument(span)
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

async fn take(
    protocol: &TextProtocol,
    mut stream: Link,
    app: &AppState,
    connection: &Connection,
    mut stop: Stop,
    peer: &str,
) {
    let name = protocol.name;
    let counters = app.traffic.protocol(protocol.metric);
    let mut ingest = (protocol.ingest)(app, &counters);
    let mut opening = Some(Opening::default());
    let mut frame = vec![0; FRAME_BYTES];
    let mut reported = false;
    loop {
        let read = tokio::select! {
            biased;
            read = stream.read(&mut frame) => read,
            () = stop.wanted() => break,
            () = connection.must_close() => {
                tracing::warn!("{name} from {peer} was idle the longest and is closed for another connection; raise max_connections");
                break;
            }
        };
        let bytes = match read {
            Ok(0) => break,
            Ok(bytes) => &frame[..bytes],
            Err(error) => {
                tracing::debug!("{name} from {peer}: {error}");
                break;
            }
        };
        connection.note_transfer();
        let taken = match &mut opening {
            None => app.with_patience(|| ingest.take(bytes)),
            Some(first) => match first.read(bytes) {
                Verdict::Open => continue,
                Verdict::Request => {
                    return reject_request(stream, &counters, name, peer).await;
                }
                Verdict::Lines => {
                    let first = std::mem::take(&mut first.bytes);
                    opening = None;
                    app.with_patience(|| ingest.take(&first))
                }
            },
        };
        if let Err(error) = taken {
            tracing::warn!("{name} from {peer} was cut off: {error}");
            return;
        }
        // Once per connection: a sender of one bad line usually sends many.
        if !reported && let Some(first) = ingest.outcome().listed.first() {
            reported = true;
            tracing::warn!(
                "{name} from {peer}, line {} was rejected: {}",
                first.line,
                first.reason
            );
        }
    }
    // A line that begins like a request may be one, and has no newline yet.
    let first = opening.unwrap_or_default().bytes;
    let ended = app.with_patience(|| {
        ingest.take(&first)?;
        ingest.end()
    });
    let rejected = ingest.outcome().rejected;
    match ended {
        Ok(()) if rejected == 1 => {
            tracing::warn!("{name} from {peer}: 1 line was rejected in all");
        }
        Ok(()) if rejected > 1 => {
            tracing::warn!("{name} from {peer}: {rejected} lines were rejected in all");
        }
        Ok(()) => {}
        Err(error) => tracing::warn!("{name} from {peer} was cut off: {error}"),
    }
}
