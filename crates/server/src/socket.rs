//! Socket that notes transfers, disconnects readers that do not read, and writes errors
//! of the protocol layer as JSON.

use crate::connections::Connection;
use crate::secure::Link;
use memchr::memmem;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Number of bytes that are still read after the answer to a malformed request: a sender that is
/// disconnected while it sends could not read the answer.
const LINGER_BYTES: usize = 4 << 20;
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Maximum length of the head of an answer of the protocol layer.
const OWN_HEAD_BYTES: usize = 512;

/// Socket of a connection.
pub struct Socket {
    stream: Link,
    connection: Arc<Connection>,
    /// Maximum time without progress of the reader.
    patience: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
    answer: Option<Answer>,
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

/// JSON in place of an empty answer.
struct Answer {
    bytes: Vec<u8>,
    written: usize,
    /// Number of bytes of the empty answer.
    replaced: usize,
}

impl Socket {
    /// Creates the socket of a connection of a port.
    pub fn new(stream: Link, connection: Arc<Connection>, patience: Duration) -> Socket {
        Socket {
            stream,
            connection,
            patience,
            stuck: None,
            answer: None,
            linger: None,
        }
    }

    /// Handles the result of a write: notes progress. A lack of progress is an error after a while.
    fn progress(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stuck = None;
            self.connection.note_transfer();
            return written;
        }
        let patience = self.patience;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the reader stopped reading",
        )))
    }

    fn put(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progress(context, written)
    }

    /// Writes the pending answer. Returns the number of bytes that it replaces.
    fn put_answer(
        &mut self,
        context: &mut Context<'_>,
        mut answer: Answer,
    ) -> Poll<io::Result<usize>> {
        while answer.written < answer.bytes.len() {
            match self.put(context, &answer.bytes[answer.written..]) {
                Poll::Ready(Ok(written)) => answer.written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.answer = Some(answer);
                    return Poll::Pending;
                }
            }
        }
        let linger = Box::pin(tokio::time::sleep(LINGER_TIME));
        self.linger = Some((linger, LINGER_BYTES));
        Poll::Ready(Ok(answer.replaced))
    }

    /// Returns the answer for bytes that are about to be written, if they are an empty error of the protocol layer.
    fn instead_of(&mut self, bytes: &[u8]) -> Option<Answer> {
        let pending = self.answer.take();
        if pending.is_some() || self.connection.is_busy() {
            return pending;
        }
        Answer::instead_of(bytes)
    }
}

impl Answer {
    fn instead_of(head: &[u8]) -> Option<Answer> {
        let is_short = head.len() <= OWN_HEAD_BYTES && head.starts_with(b"HTTP/1.");
        let is_error = is_short && matches!(head.get(9), Some(b'4' | b'5'));
        let is_whole = is_error && memmem::find(head, b"\r\n\r\n") == Some(head.len() - 4);
        if !is_whole || memmem::find(head, b"content-length: 0\r\n").is_none() {
            return None;
        }
        let status_end = memmem::find(head, b"\r\n")?;
        let status = std::str::from_utf8(&head[..status_end]).ok()?;
        let message = match head.get(9..12)? {
            b"414" => "the address of the request is too long; send shorter parameters",
            b"431" => {
                "the head of the request is too large; send at most 100 headers, 32 KiB in all"
            }
            _ => "the request is not valid HTTP/1.1; see docs/http.md",
        };
        let body = crate::api_error::body("invalid", message).to_string();
        let answer = format!(
            "{status}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Some(Answer {
            bytes: answer.into_bytes(),
            written: 0,
            replaced: head.len(),
        })
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        let read = Pin::new(&mut socket.stream).poll_read(context, buffer);
        if read.is_ready() {
            socket.connection.note_transfer();
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        match socket.instead_of(bytes) {
            Some(answer) => socket.put_answer(context, answer),
            None => socket.put(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        // An error of the protocol layer has no body: it is the only slice.
        if let (Some(head), None) = (filled.next(), filled.next())
            && let Some(answer) = socket.instead_of(head)
        {
            return socket.put_answer(context, answer);
        }
        let written = Pin::new(&mut socket.stream).poll_write_vectored(context, slices);
        socket.progress(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        ready!(Pin::new(&mut socket.stream).poll_shutdown(context))?;
        let Some((over, left)) = &mut socket.linger else {
            return Poll::Ready(Ok(()));
        };
        let mut scratch = [0; 4096];
        while *left > 0 && over.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut socket.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    *left = left.saturating_sub(buffer.filled().len());
                }
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_errors_become_json_and_nothing_else_does() {
        let head = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let answer = Answer::instead_of(head).unwrap();
        assert_eq!(answer.replaced, head.len());
        let text = String::from_utf8(answer.bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 431 ") && head.contains("application/json"),
            "{head}"
        );
        assert!(
            head.ends_with(&format!("content-length: {}", body.len())),
            "{head}"
        );
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(body["error"].as_str().unwrap().contains("32 KiB"));
        for other in [
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nmore",
            "HTTP/1.1 400 Bad Request\r\n",
            "",
        ] {
            assert!(Answer::instead_of(other.as_bytes()).is_none(), "{other}");
        }
    }
}
