//! Stream of batches from an answer of the server, decoded as it arrives.

use crate::client::{Client, error};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use arrow::ipc::reader::StreamDecoder;
use datafusion::error::{DataFusionError, Result};
use futures::Stream;
use http_body_util::BodyExt;

/// Requests an Arrow stream and returns its batches, each adapted by the function that `adapter` makes for the
/// stream's schema. The request is sent with the first poll. If the stream is dropped, the connection is closed.
///
/// The stream ends in an error if the answer breaks off.
pub fn batches<A, F>(
    client: Client,
    pairs: Vec<(&'static str, String)>,
    adapter: A,
) -> impl Stream<Item = Result<RecordBatch>> + Send
where
    A: FnOnce(&Schema) -> F + Send + 'static,
    F: Fn(&RecordBatch) -> Result<RecordBatch> + Send + 'static,
{
    let begin = async move {
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        let answer = client.get("/api/v1/query", &pairs).await?;
        Ok::<_, DataFusionError>(State {
            body: answer.into_body(),
            decoder: StreamDecoder::new(),
            rest: Buffer::from(&[] as &[u8]),
            adapter: Some(adapter),
            adapt: None,
        })
    };
    futures::TryStreamExt::try_flatten(futures::stream::once(async move {
        let state = begin.await?;
        Ok::<_, DataFusionError>(futures::stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok(batch.map(|batch| (batch, state)))
        }))
    }))
}

/// State of a stream between two batches.
struct State<A, F> {
    body: hyper::body::Incoming,
    decoder: StreamDecoder,
    rest: Buffer,
    adapter: Option<A>,
    adapt: Option<F>,
}

impl<A, F> State<A, F>
where
    A: FnOnce(&Schema) -> F,
    F: Fn(&RecordBatch) -> Result<RecordBatch>,
{
    /// Returns the next batch; `None` at the end of the answer.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while !self.rest.is_empty() {
                let Some(batch) = self.decoder.decode(&mut self.rest)? else {
                    continue;
                };
                if let (Some(adapter), Some(schema)) = (self.adapter.take(), self.decoder.schema())
                {
                    self.adapt = Some(adapter(&schema));
                }
                if let Some(adapt) = &self.adapt {
                    return adapt(&batch).map(Some);
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest = Buffer::from(data);
                    }
                }
                Some(Err(reason)) => {
                    return Err(error(format!("server: the answer broke off: {reason}")));
                }
                None => {
                    self.decoder.finish()?;
                    return Ok(None);
                }
            }
        }
    }
}
