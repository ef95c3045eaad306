//! Queries within limits of their number, their time and their memory. The answer of a query arrives as the query
//! computes it. If the answer is dropped, the query ends.

use crate::catalog::Catalog;
use crate::client::error;
use crate::rejection::Rejection;
use crate::session::{message, plan};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ParamValues;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum length of a query, bytes.
pub const MAX_QUERY_BYTES: usize = 1 << 20;

/// Limits of queries.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory of all queries, bytes.
    pub memory_bytes: usize,
    /// Number of queries at one time. Further ones are rejected.
    pub queries: usize,
    /// Maximum time of a query, with the time in which its client reads the answer.
    pub time: Duration,
}

/// Session whose queries have limits.
#[derive(Clone)]
pub struct Queries {
    context: Arc<SessionContext>,
    measurements: Arc<Catalog>,
    limits: Limits,
    permits: Arc<Semaphore>,
}

impl Queries {
    /// Returns a session without a running query.
    pub fn new(
        context: Arc<SessionContext>,
        measurements: Arc<Catalog>,
        limits: Limits,
    ) -> Queries {
        Queries {
            context,
            measurements,
            limits,
            permits: Arc::new(Semaphore::new(limits.queries)),
        }
    }

    /// Returns the measurements of the server.
    pub fn measurements(&self) -> &Catalog {
        &self.measurements
    }

    /// Returns the text of an error for the user.
    pub fn message(&self, error: &datafusion::error::DataFusionError) -> String {
        message(error, self.limits.memory_bytes)
    }

    /// Does a piece of work that counts as a query.
    ///
    /// # Errors
    /// If too many queries run, if the work takes too long, or with the error of the work.
    pub async fn within_limits<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _permit = self.permit()?;
        let late = |_| Rejection::Late(self.limits.time);
        tokio::time::timeout(self.limits.time, work)
            .await
            .map_err(late)?
    }

    /// Plans a query.
    ///
    /// # Errors
    /// As [`Queries::within_limits`], or with the mistake in the query.
    pub async fn plan(&self, text: &str, parameters: Option<ParamValues>) -> Result<LogicalPlan> {
        self.within_limits(self.bound(text, parameters)).await
    }

    async fn bound(&self, text: &str, parameters: Option<ParamValues>) -> Result<LogicalPlan> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(error("the query is longer than 1 MiB"));
        }
        let plan = plan(&self.context, text).await?;
        match parameters {
            Some(parameters) => plan.with_param_values(parameters),
            None => Ok(plan),
        }
    }

    /// Starts a query.
    ///
    /// # Errors
    /// As [`Queries::plan`].
    pub async fn run(&self, text: &str, parameters: Option<ParamValues>) -> Result<Answer> {
        let permit = self.permit()?;
        let deadline = Instant::now() + self.limits.time;
        let late = || Rejection::Late(self.limits.time);
        let start = async {
            let plan = self.bound(text, parameters).await?;
            let rows = self.context.execute_logical_plan(plan).await?;
            rows.execute_stream().await
        };
        let rows = timeout_at(deadline, start).await.map_err(|_| late())??;
        let schema = rows.schema();
        let (sender, receiver) = channel(1);
        let running = Running {
            rows,
            deadline,
            late: late(),
            permit,
        };
        tokio::spawn(running.send(sender));
        Ok(Answer { schema, receiver })
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = self.permits.clone().try_acquire_owned();
        permit.map_err(|_| Rejection::Busy.into())
    }
}

/// Query that is running.
struct Running {
    rows: SendableRecordBatchStream,
    deadline: Instant,
    late: Rejection,
    permit: OwnedSemaphorePermit,
}

impl Running {
    /// Sends the batches, and then the end or an error. A client that does not read its answer holds the permit and
    /// the memory of its query until the deadline at most.
    async fn send(self, sender: Sender<Result<Option<RecordBatch>>>) {
        let Running {
            mut rows,
            deadline,
            late,
            permit,
        } = self;
        let batches = async {
            loop {
                match rows.next().await.transpose() {
                    // Fails if the answer was dropped, which ends the query.
                    Ok(Some(batch)) => _ = sender.send(Ok(Some(batch))).await,
                    last => return last,
                }
            }
        };
        let last = tokio::select! {
            ended = timeout_at(deadline, batches) => ended.unwrap_or(Err(late.into())),
            () = sender.closed() => return,
        };
        drop((rows, permit));
        // Nobody waits for the end of an answer that was dropped.
        _ = sender.send(last).await;
    }
}

/// Answer of a query that is running.
pub struct Answer {
    schema: SchemaRef,
    receiver: Receiver<Result<Option<RecordBatch>>>,
}

impl Answer {
    /// Returns the columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the next batch; `None` after the last one.
    ///
    /// # Errors
    /// With the reason for which the query ended early.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let broken = || Err(error("the query broke off by an error of this program"));
        self.receiver.recv().await.unwrap_or_else(broken)
    }
}
