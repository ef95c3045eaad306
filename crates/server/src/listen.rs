//! The HTTP port: accepts connections, bounded in number, size and patience.

use crate::http;
use crate::shutdown::Stop;
use crate::station::Station;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest frame. At 64 KiB what a frame costs shows as some 10 ns a line; beyond 128 KiB
/// nothing more is gained, and each connection would hold the more memory.
const FRAME_BYTES: usize = 128 << 10;

/// The longest request head.
const HEAD_BYTES: usize = 32 << 10;

/// How long a connection may be silent between requests, and a request head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// What a connection beyond the limit is told.
const FULL: &str = "{\"error\":\"too many connections; come again, or raise max_connections\",\
    \"code\":\"unavailable\",\"message\":\"too many connections; come again, or raise max_connections\"}";

/// Serves HTTP until the stop, then finishes the requests in flight.
pub async fn serve(listener: TcpListener, station: Arc<Station>, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(station.settings.max_connections));
    let service = TowerToHyperService::new(http::router(station.clone()));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    out_of_files(&error).await;
                    continue;
                }
            },
            () = stop.wanted() => break,
        };
        station.meters.connections.fetch_add(1, Relaxed);
        match places.clone().try_acquire_owned() {
            Ok(place) => {
                tokio::spawn(connection(stream, service.clone(), stop.clone(), place));
            }
            Err(_) => {
                station.meters.turned_away.fetch_add(1, Relaxed);
                turn_away(stream).await;
            }
        }
    }
    drop(listener);
    // Every connection gives its place back when it is done.
    let _ = places
        .acquire_many(station.settings.max_connections as u32)
        .await;
}

/// Too many open files is the likely reason why nothing can be accepted; it passes.
pub async fn out_of_files(error: &std::io::Error) {
    tracing::warn!("a connection was not accepted: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn turn_away(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{FULL}",
        FULL.len()
    );
    // The answer fits the socket's buffer; where it does not, closing says enough.
    let _ = tokio::time::timeout(
        Duration::from_millis(10),
        stream.write_all(answer.as_bytes()),
    )
    .await;
}

async fn connection(
    stream: TcpStream,
    service: TowerToHyperService<axum::Router>,
    mut stop: Stop,
    _place: OwnedSemaphorePermit,
) {
    // Answers are written in one piece: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(FRAME_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.wanted() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("connection: {error}");
    }
}
