//! Lines over UDP. A datagram is a whole text: its last line needs no newline, and no line continues in the next
//! datagram.
//!
//! UDP has no back-pressure. While the store is busy, the kernel keeps datagrams in its buffer, and drops further ones.
//! The metrics have the number of these.

use crate::app_state::AppState;
use crate::port;
use crate::shutdown::Stop;
use crate::text::{TextIngest, TextProtocol};
use crate::traffic::ProtocolCounters;
use anyhow::{Context, Result};
use memchr::memchr_iter;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;

/// Buffer that is requested of the kernel, in bytes. `net.core.rmem_max` limits it.
const BUFFER_BYTES: usize = 8 << 20;
/// Maximum length of a datagram.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Number of datagrams after which other tasks run.
const BURST: usize = 64;
/// Time without a datagram after which a stop ends the port, and maximum time of that.
const QUIET: Duration = Duration::from_millis(20);
const LAST: Duration = Duration::from_secs(1);
/// Minimum time between two messages in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Opens a socket with a large buffer.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn bind(address: SocketAddr, setting: &str) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).await.with_context(|| {
        format!(
            "UDP at {address} cannot be listened on; choose another address with the setting {setting}"
        )
    })?;
    // With a smaller buffer the port works, but drops more.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES);
    Ok(socket)
}

/// Receives datagrams until the stop. Datagrams that have arrived by then are stored.
pub async fn serve(
    protocol: &'static TextProtocol,
    socket: UdpSocket,
    app: Arc<AppState>,
    stop: Stop,
) {
    let counters = app.traffic.protocol(protocol.metric);
    app.udp_drops.add(&socket, counters.clone());
    let port = Port {
        protocol,
        app: &app,
        counters: &counters,
        ingest: (protocol.ingest)(&app, &counters),
        datagram: vec![0; DATAGRAM_BYTES],
        logged: None,
    };
    port::polled(receive(port, &socket, stop)).await;
}

async fn receive(mut port: Port<'_>, socket: &UdpSocket, mut stop: Stop) {
    loop {
        tokio::select! {
            ready = socket.readable() => if ready.is_err() {
                return;
            },
            () = stop.wanted() => break,
        }
        port.burst(socket);
        tokio::task::yield_now().await;
    }
    let until = crate::time::now() + LAST;
    while crate::time::now() < until
        && let Ok(Ok(())) = tokio::time::timeout(QUIET, socket.readable()).await
    {
        port.burst(socket);
    }
}

/// Port with the ingest of its datagrams.
struct Port<'a> {
    protocol: &'static TextProtocol,
    app: &'a AppState,
    counters: &'a ProtocolCounters,
    ingest: Box<dyn TextIngest + 'a>,
    datagram: Vec<u8>,
    /// Time of the last message in the log.
    logged: Option<Instant>,
}

impl Port<'_> {
    /// Stores the next datagrams.
    fn burst(&mut self, socket: &UdpSocket) {
        for _ in 0..BURST {
            match socket.try_recv_from(&mut self.datagram) {
                Ok((len, peer)) => self.store(len, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => tracing::debug!("{} over UDP: {error}", self.protocol.name),
            }
        }
    }

    fn store(&mut self, len: usize, peer: SocketAddr) {
        let name = self.protocol.name;
        let (ingest, datagram) = (&mut self.ingest, &self.datagram[..len]);
        if let Err(error) = self.app.with_patience(|| ingest.whole(datagram)) {
            let text = datagram.trim_ascii_end();
            let lines = 1 + memchr_iter(b'\n', text).count() as u64;
            self.counters.rejected.fetch_add(lines, Relaxed);
            self.log(&format!("{name} from {peer} was not stored: {error}"));
        }
        if let Some(first) = self.ingest.take_listed().first() {
            let reason = &first.reason;
            self.log(&format!(
                "{name} from {peer} was rejected in part: {reason}"
            ));
        }
    }

    /// Logs a message, unless the last one was a short time ago.
    fn log(&mut self, message: &str) {
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            self.logged = Some(crate::time::now());
            tracing::warn!("{message}");
        }
    }
}
