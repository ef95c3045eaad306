//! Beginning of a connection: lines, or a request of HTTP that came to the wrong port.

use crate::api_error;
use crate::app_state::AppState;
use crate::secure::Link;
use crate::traffic::ProtocolCounters;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

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

/// Informs an HTTP client that the port is the wrong one. Nothing of its request is stored.
pub async fn reject_request(
    mut stream: Link,
    counters: &ProtocolCounters,
    protocol: &str,
    peer: &str,
) {
    counters.rejected.fetch_add(1, Relaxed);
    tracing::warn!("an HTTP request from {peer} came to the port of {protocol} and was rejected");
    let message = format!(
        "this port takes {protocol} without HTTP; send the request to the address of the setting listen"
    );
    let body = api_error::body("invalid", &message).to_string();
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

/// Returns the encrypted connection, if the server has a certificate. A sender that does not begin TLS is counted as a
/// rejection of the protocol with this name in metrics, and logged: what it sent is lost.
pub async fn secured(
    stream: TcpStream,
    app: &AppState,
    metric: &'static str,
    protocol: &str,
    peer: &str,
) -> Option<Link> {
    match app.secure_lines(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            let counters = app.traffic.protocol(metric);
            counters.rejected.fetch_add(1, Relaxed);
            tracing::warn!(
                "{protocol} from {peer} was rejected, because it was not encrypted: {error}; send with TLS, or set \
                 tls_plain_lines = true"
            );
            None
        }
    }
}

/// Beginning of a connection, until its protocol is known.
#[derive(Default)]
pub struct Opening {
    /// Bytes so far.
    pub bytes: Vec<u8>,
}

/// Protocol of a connection.
pub enum Verdict {
    /// More bytes must arrive.
    Open,
    /// The bytes are lines.
    Lines,
    /// The bytes are a request of HTTP.
    Request,
}

impl Opening {
    /// Adds bytes, and returns the protocol if it is known.
    pub fn read(&mut self, bytes: &[u8]) -> Verdict {
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
