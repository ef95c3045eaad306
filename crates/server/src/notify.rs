//! Messages to the service manager (systemd): the server is ready, works, or stops.
//!
//! The service manager names its socket in `NOTIFY_SOCKET`. Without this variable, no message is sent.

use crate::shutdown::Stop;
use sd_notify::NotifyState;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Request that is answered only if connections are accepted, tasks run, and the store reports its status.
const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// First bytes of every answer.
const ANSWER: &[u8] = b"HTTP/1.1 ";

/// Reports that the server serves at `address`.
pub fn ready(address: SocketAddr) {
    send(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("Serving HTTP at {address}")),
    ]);
}

/// Reports that the server stops.
pub fn stopping() {
    let status = NotifyState::Status("Writing the data in memory to the disk");
    send(&[NotifyState::Stopping, status]);
}

/// Reports that the server works, four times within the time that the service manager waits, until the stop. Sends nothing
/// while requests to `address`, which must be a port of HTTP without TLS, stay without an answer. Does nothing if the
/// service manager has no watchdog for this process.
pub async fn keep_alive(address: SocketAddr, mut stop: Stop) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
        return;
    };
    let mut due = tokio::time::interval(limit / 4);
    loop {
        tokio::select! {
            _ = due.tick() => match answers(address, limit / 2).await {
                Ok(()) => send(&[NotifyState::Watchdog]),
                Err(error) => tracing::warn!("the server does not answer its own requests: {error}"),
            },
            () = stop.wanted() => return,
        }
    }
}

/// Sends a request, and waits for the start of any answer.
///
/// # Errors
/// If there is no answer within the limit, or the connection fails.
async fn answers(address: SocketAddr, limit: Duration) -> io::Result<()> {
    let request = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(REQUEST).await?;
        let mut start = [0; ANSWER.len()];
        stream.read_exact(&mut start).await?;
        match start == ANSWER {
            true => Ok(()),
            false => Err(io::Error::other("the answer is not HTTP")),
        }
    };
    tokio::time::timeout(limit, request).await?
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be notified: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const LIMIT: Duration = Duration::from_millis(200);

    /// Returns the result of a request to a listener that sends these bytes, or does not answer.
    async fn asked(reply: Option<&'static [u8]>) -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            match reply {
                Some(bytes) => stream.write_all(bytes).await,
                None => std::future::pending().await,
            }
        });
        let result = answers(address, LIMIT).await;
        server.abort();
        result
    }

    #[tokio::test]
    async fn only_an_answer_in_time_proves_that_the_server_works() {
        asked(Some(b"HTTP/1.1 200 OK\r\n")).await.unwrap();
        // A store that rejects writes is not repaired by a restart.
        asked(Some(b"HTTP/1.1 503 Service Unavailable\r\n"))
            .await
            .unwrap();
        asked(Some(b"SSH-2.0-OpenSSH\r\n")).await.unwrap_err();
        asked(Some(b"HTTP")).await.unwrap_err();
        let silent = asked(None).await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    }
}
