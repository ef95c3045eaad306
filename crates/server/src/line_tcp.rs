//! Line protocol over plain TCP: a sender connects and writes lines, without answers.
//!
//! A sender gets no rejections. For back-pressure, the server does not read from the socket while
//! the store is busy. A sender may die in the middle of a line, so a line counts only with its
//! newline.

use crate::accept::{Arrival, accept, close};
use crate::api_error;
use crate::app_state::AppState;
use crate::connections::Connection;
use crate::ingest::{LineIngest, PROTOCOL};
use crate::shutdown::Stop;
use seiner_wire::line::Precision;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Number of bytes read from a socket at once.
const FRAME_BYTES: usize = 128 << 10;

/// Idle time of a sender after which its connection may be closed for a new one. Lines on their
/// way to a closed port are lost without notice.
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Methods of HTTP. A page in a browser can send requests to any port, with lines in their body.
const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"TRACE ",
    b"CONNECT ",
    b"PRI ",
];

/// Maximum length of a first line that may be that of a request.
const REQUEST_LINE_BYTES: usize = 64 << 10;

/// Receives lines until the stop. Lines that have arrived by then are stored.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection: Arc<Connection>| {
        let (app, stop) = (of.clone(), until.clone());
        async move {
            let peer = arrival.peer.to_string();
            take(arrival.stream, &app, &connection, stop, &peer).await;
        }
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

async fn take(
    mut stream: TcpStream,
    app: &AppState,
    connection: &Connection,
    mut stop: Stop,
    peer: &str,
) {
    let counters = app.traffic.protocol(PROTOCOL);
    let mut ingest = LineIngest::new(&*app.store, Some(&counters), Precision::Ns)
        .reject_1970(!app.settings.allow_1970);
    let mut opening = Some(Opening::default());
    let mut frame = vec![0; FRAME_BYTES];
    let mut reported = false;
    loop {
        let read = tokio::select! {
            biased;
            read = stream.read(&mut frame) => read,
            () = stop.wanted() => break,
            () = connection.must_close() => {
                tracing::warn!("line protocol from {peer} was idle the longest and is closed for another connection; raise max_connections");
                break;
            }
        };
        let bytes = match read {
            Ok(0) => break,
            Ok(bytes) => &frame[..bytes],
            Err(error) => {
                tracing::debug!("line protocol from {peer}: {error}");
                break;
            }
        };
        connection.note_transfer();
        let taken = match &mut opening {
            None => app.with_patience(|| ingest.take(bytes)),
            Some(first) => match first.read(bytes) {
                Verdict::Open => continue,
                Verdict::Request => return reject_request(stream, app, peer).await,
                Verdict::Lines => {
                    let first = std::mem::take(&mut first.bytes);
                    opening = None;
                    app.with_patience(|| ingest.take(&first))
                }
            },
        };
        if let Err(error) = taken {
            tracing::warn!("line protocol from {peer} was cut off: {error}");
            return;
        }
        // Once per connection: a sender of one bad line usually sends many.
        if !reported && let Some(first) = ingest.outcome().listed.first() {
            reported = true;
            tracing::warn!(
                "line protocol from {peer}, line {} was rejected: {}",
                first.line,
                first.reason
            );
        }
    }
    // A line that begins like a request may be one, and has no newline yet.
    let first = opening.unwrap_or_default().bytes;
    let ended = app.with_patience(|| {
        ingest.take(&first)?;
        ingest.finish_lines()
    });
    match ended {
        Ok(outcome) if outcome.rejected == 1 => {
            tracing::warn!("line protocol from {peer}: 1 line was rejected in all");
        }
        Ok(outcome) if outcome.rejected > 1 => {
            tracing::warn!(
                "line protocol from {peer}: {} lines were rejected in all",
                outcome.rejected
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!("line protocol from {peer} was cut off: {error}"),
    }
}

/// Informs an HTTP client that the port is the wrong one. Nothing of its request is stored.
async fn reject_request(mut stream: TcpStream, app: &AppState, peer: &str) {
    let counters = app.traffic.protocol(PROTOCOL);
    counters.rejected.fetch_add(1, Relaxed);
    tracing::warn!(
        "an HTTP request from {peer} came to the port of line protocol and was rejected"
    );
    let message = "this port takes line protocol without HTTP; send the request to the address of the setting listen";
    let body = api_error::body("invalid", message).to_string();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A client that does not read the answer is disconnected as well.
    let _ = tokio::time::timeout(Duration::from_secs(1), async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

/// Beginning of a connection, until its protocol is known.
#[derive(Default)]
struct Opening {
    bytes: Vec<u8>,
}

enum Verdict {
    /// More bytes must arrive.
    Open,
    Lines,
    Request,
}

impl Opening {
    fn read(&mut self, bytes: &[u8]) -> Verdict {
        self.bytes.extend_from_slice(bytes);
        let begins = |method: &&[u8]| {
            let len = method.len().min(self.bytes.len());
            self.bytes[..len] == method[..len]
        };
        if !METHODS.iter().any(begins) {
            return Verdict::Lines;
        }
        match memchr::memchr(b'\n', &self.bytes) {
            Some(end) => match is_request_line(&self.bytes[..end]) {
                true => Verdict::Request,
                false => Verdict::Lines,
            },
            None if self.bytes.len() > REQUEST_LINE_BYTES => Verdict::Request,
            None => Verdict::Open,
        }
    }
}

/// Returns whether a line ends like the first line of a request: ` HTTP/1.1`.
fn is_request_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    version.starts_with(b"HTTP/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pieces: &[&[u8]]) -> &'static str {
        let mut opening = Opening::default();
        for piece in pieces {
            match opening.read(piece) {
                Verdict::Open => {}
                Verdict::Lines => return "lines",
                Verdict::Request => return "request",
            }
        }
        "open"
    }

    #[test]
    fn requests_are_distinguished_from_lines() {
        assert_eq!(
            verdict(&[b"POST / HTTP/1.1\r\nHost: x\r\n\r\nm v=1\n"]),
            "request"
        );
        assert_eq!(
            verdict(&[b"P", b"OST /write HTT", b"P/1.1", b"\r\n"]),
            "request"
        );
        assert_eq!(verdict(&[b"PRI * HTTP/2.0\r\n\r\n"]), "request");
        assert_eq!(verdict(&[b"GET /", b"x"]), "open");
        assert_eq!(verdict(&[b"GET /", &[b'x'; 70_000]]), "request");
        assert_eq!(verdict(&[b"GET a=1 7\n"]), "lines");
        assert_eq!(verdict(&[b"GE", b"Tx a=1 7\n"]), "lines");
        assert_eq!(verdict(&[b"m v=1 1\n"]), "lines");
    }
}
