//! Line protocol over plain TCP: a sender connects and writes lines, nothing is answered.
//!
//! Where there is no answer there is no refusal either: back-pressure is that bytes are not
//! read from the socket while the store is busy.

use crate::ingest::Intake;
use crate::listen::out_of_files;
use crate::shutdown::Stop;
use crate::station::Station;
use seiner_wire::line::Precision;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What is read from a socket at once.
const FRAME_BYTES: usize = 128 << 10;

/// Takes lines until the stop; what has arrived by then is kept.
pub async fn serve(listener: TcpListener, station: Arc<Station>, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(station.settings.max_connections));
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    out_of_files(&error).await;
                    continue;
                }
            },
            () = stop.wanted() => break,
        };
        station.meters.connections.fetch_add(1, Relaxed);
        let Ok(place) = places.clone().try_acquire_owned() else {
            station.meters.turned_away.fetch_add(1, Relaxed);
            continue;
        };
        let (station, stop) = (station.clone(), stop.clone());
        tokio::spawn(async move {
            take(stream, &station, stop, &peer.to_string()).await;
            drop(place);
        });
    }
    drop(listener);
    // Every connection gives its place back when it is done.
    let _ = places
        .acquire_many(station.settings.max_connections as u32)
        .await;
}

async fn take(mut stream: TcpStream, station: &Station, mut stop: Stop, peer: &str) {
    let mut intake = Intake::new(&station.engine, Some(&station.meters), Precision::Ns);
    let mut frame = vec![0; FRAME_BYTES];
    let mut told = false;
    loop {
        let read = tokio::select! {
            biased;
            read = stream.read(&mut frame) => read,
            () = stop.wanted() => break,
        };
        let taken = match read {
            Ok(0) => break,
            Ok(bytes) => station.with_patience(|| intake.take(&frame[..bytes])),
            Err(error) => {
                tracing::debug!("line protocol from {peer}: {error}");
                break;
            }
        };
        if let Err(error) = taken {
            tracing::warn!("line protocol from {peer} was cut off: {error}");
            return;
        }
        // Once a connection: whoever sends one bad line sends many.
        if !told && let Some(first) = intake.outcome().refused.first() {
            told = true;
            tracing::warn!(
                "line protocol from {peer}, line {} was refused: {}",
                first.line,
                first.reason
            );
        }
    }
    match station.with_patience(|| intake.finish()) {
        Ok(outcome) if outcome.rejected > 0 => {
            tracing::warn!(
                "line protocol from {peer}: {} lines were refused in all",
                outcome.rejected
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!("line protocol from {peer} was cut off: {error}"),
    }
}
