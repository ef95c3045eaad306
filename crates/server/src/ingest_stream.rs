//! Request bodies with limits of size and time.

use crate::api_error::ApiError;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use std::time::{Duration, Instant};

/// Maximum time until the next bytes of a body.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum mean rate of a body after [`FRAME_TIMEOUT`]. Without it, senders of single bytes
/// could hold all permits.
const LEAST_BYTES_PER_S: u64 = 1024;

/// Maximum number of further bytes of a rejected body, so that the sender can read the answer.
const DRAIN_BYTES: u64 = 16 << 20;

/// Maximum length of a statement: a form, or a delete in JSON.
pub const STATEMENT_BYTES: usize = 64 << 10;

/// Body that is being received.
pub struct IngestStream {
    body: Body,
    started: Instant,
    bytes: u64,
    patience: Duration,
}

impl IngestStream {
    /// Starts the reception of the body of a request.
    pub fn new(body: Body) -> IngestStream {
        IngestStream {
            body,
            started: crate::time::now(),
            bytes: 0,
            patience: FRAME_TIMEOUT,
        }
    }

    /// Returns the next frame; `None` at the end.
    ///
    /// # Errors
    /// If the body is too slow, or breaks off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let frame = tokio::time::timeout(self.patience, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| too_slow())? else {
                return Ok(None);
            };
            let frame = frame
                .map_err(|error| ApiError::invalid(format!("the body is incomplete: {error}")))?;
            if let Ok(bytes) = frame.into_data() {
                self.bytes += bytes.len() as u64;
                let allowed = self.patience + Duration::from_secs(self.bytes / LEAST_BYTES_PER_S);
                return if self.started.elapsed() <= allowed {
                    Ok(Some(bytes))
                } else {
                    Err(too_slow())
                };
            }
        }
    }

    /// Discards the rest of the body, and returns the answer with an error.
    pub async fn reject(self, error: ApiError) -> Response {
        self.drain().await;
        error.into_response()
    }

    /// Discards the rest of the body, within limits.
    pub async fn drain(mut self) {
        let until = self.bytes + DRAIN_BYTES;
        let drained =
            async { while self.bytes < until && matches!(self.next().await, Ok(Some(_))) {} };
        // After the time limit the connection is closed, even if the sender continues.
        let _ = tokio::time::timeout(Duration::from_secs(5), drained).await;
    }

    /// Returns the whole body of a statement, at most [`STATEMENT_BYTES`].
    ///
    /// # Errors
    /// The errors of [`IngestStream::next`], and a body that is too long.
    pub async fn statement(mut self) -> Result<Vec<u8>, ApiError> {
        let mut statement = Vec::new();
        let error = loop {
            match self.next().await {
                Ok(None) => return Ok(statement),
                Ok(Some(bytes)) if statement.len() + bytes.len() <= STATEMENT_BYTES => {
                    statement.extend_from_slice(&bytes);
                }
                Ok(Some(_)) => {
                    break ApiError::too_large(format!(
                        "the body is longer than {STATEMENT_BYTES} bytes; send a shorter one"
                    ));
                }
                Err(error) => return Err(error),
            }
        };
        self.drain().await;
        Err(error)
    }
}

fn too_slow() -> ApiError {
    ApiError::too_slow(
        "the body arrived too slowly; send it within 30 s, or at 1 KiB per second or more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use http_body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// Returns a body that stays open after one byte.
    struct Stalled(Option<Bytes>);

    impl http_body::Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.take() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test]
    async fn a_stalled_body_times_out() {
        let mut stream = IngestStream::new(Body::new(Stalled(Some(Bytes::from_static(b"{")))));
        stream.patience = Duration::from_millis(20);
        let error = stream.statement().await.unwrap_err();
        assert_eq!(error.into_response().status(), StatusCode::REQUEST_TIMEOUT);
    }

    #[tokio::test]
    async fn statements_are_bounded() {
        let of = |len| IngestStream::new(Body::from(vec![b' '; len])).statement();
        assert_eq!(of(STATEMENT_BYTES).await.unwrap().len(), STATEMENT_BYTES);
        let error = of(STATEMENT_BYTES + 1).await.unwrap_err();
        assert_eq!(
            error.into_response().status(),
            StatusCode::PAYLOAD_TOO_LARGE
        );
    }
}
