//! Answers that a thread writes while they are sent. At most a few chunks of an answer are in memory,
//! whatever its length.

use crate::api_error::ApiError;
use crate::port;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Frame;
use seiner_store::IsOver;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Size of a chunk, bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Maximum number of chunks that wait to be sent.
const CHUNKS: usize = 4;

/// Maximum time that a reader may leave a chunk waiting. After it the answer is cut off, so that the thread
/// and the permit become free for others.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// Message of a writing thread: a chunk, or the end with its completeness.
enum Piece {
    Chunk(Bytes),
    End,
    Failed(ApiError),
}

/// Destination of an answer, in a thread that may block.
pub struct ResponseStream {
    pieces: Sender<Piece>,
    chunk: BytesMut,
    runtime: Handle,
}

impl ResponseStream {
    /// Returns a function that reports whether the reader has gone.
    pub fn is_over(&self) -> IsOver {
        // A weak reference: the channel ends with its writer.
        let pieces = self.pieces.downgrade();
        Arc::new(move || pieces.upgrade().is_none_or(|pieces| pieces.is_closed()))
    }

    fn send(&mut self, piece: Piece) -> io::Result<()> {
        let sent = self.runtime.block_on(tokio::time::timeout(
            READER_TIMEOUT,
            self.pieces.send(piece),
        ));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the reader is gone",
            )),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the reader stopped reading",
            )),
        }
    }
}

impl Write for ResponseStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            let chunk = std::mem::replace(
                &mut self.chunk,
                BytesMut::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4),
            );
            self.send(Piece::Chunk(chunk.freeze()))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a body that `write` writes in a thread of its own. Values that `write` owns are
/// dropped when the answer is complete or its reader has gone.
///
/// # Errors
/// The error of `write` before the first chunk is full. A later error cuts the body off.
pub async fn body<W>(write: W) -> Result<Body, ApiError>
where
    W: FnOnce(&mut ResponseStream) -> io::Result<()> + Send + 'static,
{
    let (pieces, mut received) = channel(CHUNKS);
    let mut stream = ResponseStream {
        pieces,
        chunk: BytesMut::new(),
        runtime: Handle::current(),
    };
    port::blocking(move || {
        let end = match write(&mut stream) {
            Ok(()) => {
                let rest = std::mem::take(&mut stream.chunk).freeze();
                stream.send(Piece::Chunk(rest)).map(|()| Piece::End)
            }
            Err(error) => Ok(Piece::Failed(error.into())),
        };
        // A reader that has gone needs no end.
        let _ = end.and_then(|end| stream.send(end));
    });
    match received.recv().await {
        Some(Piece::Chunk(first)) => Ok(Body::new(ResponseBody {
            first: Some(first),
            received,
        })),
        Some(Piece::Failed(error)) => Err(error),
        Some(Piece::End) | None => Err(ApiError::internal(
            "the thread of the answer ended without an answer",
        )),
    }
}

struct ResponseBody {
    first: Option<Bytes>,
    received: Receiver<Piece>,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        if let Some(first) = body.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        body.received.poll_recv(context).map(|piece| match piece {
            Some(Piece::Chunk(chunk)) => Some(Ok(Frame::data(chunk))),
            Some(Piece::End) => None,
            Some(Piece::Failed(error)) => {
                tracing::warn!("an answer is incomplete: {error}");
                Some(Err(io::Error::other("the answer is incomplete")))
            }
            None => Some(Err(io::Error::other("the answer is incomplete"))),
        })
    }
}
