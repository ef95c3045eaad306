//! A body as it comes in, against the clock and a limit.

use crate::refusal::Refusal;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use std::time::{Duration, Instant};

/// How long the next bytes of a body may take.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// The slowest a body may come on the whole, after [`FRAME_TIMEOUT`]; else senders of a byte
/// now and then could keep all places.
const LEAST_BYTES_PER_S: u64 = 1024;

/// What a body that is refused may still send, so that the sender gets to read the answer.
const DRAIN_BYTES: u64 = 16 << 20;

/// The longest statement: a form, or a delete in JSON.
pub const STATEMENT_BYTES: usize = 64 << 10;

/// A body as it comes in.
pub struct Inflow {
    body: Body,
    started: Instant,
    bytes: u64,
    patience: Duration,
}

impl Inflow {
    /// The body of a request that begins to come in now.
    pub fn new(body: Body) -> Inflow {
        Inflow {
            body,
            started: Instant::now(),
            bytes: 0,
            patience: FRAME_TIMEOUT,
        }
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// If the body comes too slowly, or breaks off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let frame = tokio::time::timeout(self.patience, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| too_slow())? else {
                return Ok(None);
            };
            let frame =
                frame.map_err(|error| Refusal::invalid(format!("the body broke off: {error}")))?;
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

    /// Lets what is left go by, within bounds.
    pub async fn drain(mut self) {
        let until = self.bytes + DRAIN_BYTES;
        let drained =
            async { while self.bytes < until && matches!(self.next().await, Ok(Some(_))) {} };
        // Past the time the connection is closed on the sender, whatever it still has to say.
        let _ = tokio::time::timeout(Duration::from_secs(5), drained).await;
    }

    /// All of a body that is a statement, of [`STATEMENT_BYTES`] at most.
    ///
    /// # Errors
    /// As [`Inflow::next`], and if the body is longer.
    pub async fn statement(mut self) -> Result<Vec<u8>, Refusal> {
        let mut statement = Vec::new();
        let refusal = loop {
            match self.next().await {
                Ok(None) => return Ok(statement),
                Ok(Some(bytes)) if statement.len() + bytes.len() <= STATEMENT_BYTES => {
                    statement.extend_from_slice(&bytes);
                }
                Ok(Some(_)) => {
                    break Refusal::too_large(format!(
                        "the body is longer than {STATEMENT_BYTES} bytes; send a shorter one"
                    ));
                }
                Err(refusal) => return Err(refusal),
            }
        };
        self.drain().await;
        Err(refusal)
    }
}

fn too_slow() -> Refusal {
    Refusal::too_slow(
        "the body came too slowly; send it within 30 s, or at 1 KiB a second at least",
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

    /// A body of which nothing more comes after a byte.
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
    async fn a_body_that_stalls_is_given_up() {
        let mut inflow = Inflow::new(Body::new(Stalled(Some(Bytes::from_static(b"{")))));
        inflow.patience = Duration::from_millis(20);
        let refusal = inflow.statement().await.unwrap_err();
        assert_eq!(
            refusal.into_response().status(),
            StatusCode::REQUEST_TIMEOUT
        );
    }

    #[tokio::test]
    async fn statements_are_bounded() {
        let of = |len| Inflow::new(Body::from(vec![b' '; len])).statement();
        assert_eq!(of(STATEMENT_BYTES).await.unwrap().len(), STATEMENT_BYTES);
        let refusal = of(STATEMENT_BYTES + 1).await.unwrap_err();
        assert_eq!(
            refusal.into_response().status(),
            StatusCode::PAYLOAD_TOO_LARGE
        );
    }
}
