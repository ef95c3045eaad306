//! End of a query of a PostgreSQL client before its last row: at the time limit, or when the client cancels it.

use crate::rejection::Rejection;
use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use datafusion_postgres::pgwire::api::portal::Portal;
use datafusion_postgres::pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use datafusion_postgres::pgwire::api::results::{QueryResponse, Response, Tag};
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::api::{ClientInfo, ClientPortalStore, ConnectionHandle};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::PgWireBackendMessage;
use datafusion_postgres::{DfSessionService, QueryHook};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Sink, SinkExt, StreamExt};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Key of the setting `statement_timeout` among the data of a connection; its value is in ms.
const STATEMENT_TIMEOUT: &str = "statement_timeout_ms";

/// Service whose queries have a maximum time.
pub struct TimedService {
    service: DfSessionService,
    time: Duration,
}

impl TimedService {
    /// Returns a service over a session.
    pub fn new(
        context: Arc<SessionContext>,
        hooks: Vec<Arc<dyn QueryHook>>,
        time: Duration,
    ) -> TimedService {
        TimedService {
            service: DfSessionService::new_with_hooks(context, hooks),
            time,
        }
    }

    /// Returns the maximum time of a query of this client: the limit, or the client's own if it is shorter. A
    /// `statement_timeout` of 0 is none.
    fn limit(&self, client: &impl ClientInfo) -> Limit {
        let of_client = client.metadata().get(STATEMENT_TIMEOUT);
        let of_client = of_client
            .and_then(|ms| ms.parse().ok())
            .filter(|ms| *ms > 0);
        let time = of_client.map_or(self.time, |ms| self.time.min(Duration::from_millis(ms)));
        Limit {
            time,
            deadline: Instant::now() + time,
        }
    }
}

/// Maximum time of a query that is running.
#[derive(Clone, Copy)]
struct Limit {
    time: Duration,
    deadline: Instant,
}

impl Limit {
    fn late(self) -> PgWireError {
        // 57014: query_canceled.
        let text = Rejection::Late(self.time).to_string();
        PgWireError::UserError(Box::new(ErrorInfo::new(
            "ERROR".into(),
            "57014".into(),
            text,
        )))
    }

    async fn start<T>(self, work: impl Future<Output = PgWireResult<T>>) -> PgWireResult<T> {
        let late = |_| self.late();
        timeout_at(self.deadline, work).await.map_err(late)?
    }

    /// Ends the rows of a response early, if the time is over or the query is cancelled.
    fn limited(self, response: Response, cancelled: &Cancelled) -> Response {
        match response {
            Response::Query(answer) => Response::Query(self.limited_rows(answer, cancelled)),
            response => response,
        }
    }

    fn limited_rows(self, mut answer: QueryResponse, cancelled: &Cancelled) -> QueryResponse {
        let rows = Some((answer.data_rows, cancelled.clone()));
        let rows = futures::stream::unfold(rows, move |rows| async move {
            let (mut rows, mut cancelled) = rows?;
            // The timer alone does not stop rows that never have to be waited for.
            let reason = if Instant::now() >= self.deadline {
                self.late()
            } else {
                tokio::select! {
                    row = timeout_at(self.deadline, rows.next()) => match row {
                        Ok(row) => return Some((row?, Some((rows, cancelled)))),
                        Err(_) => self.late(),
                    },
                    () = &mut cancelled => PgWireError::QueryCanceled,
                }
            };
            // The query ends here, because its rows are dropped.
            Some((Err(reason), None))
        });
        answer.data_rows = Box::pin(rows);
        answer
    }
}

/// End of the wait for the client to cancel a query; never, if another query follows.
type Cancelled = Shared<BoxFuture<'static, ()>>;

/// Begins to wait for the client to cancel its query. pgwire itself waits only until the first row.
async fn cancelled(client: &impl ClientInfo) -> Cancelled {
    let connection = client.session_extensions().get::<Arc<ConnectionHandle>>();
    let cancelled = match connection {
        // This ends the wait of pgwire for the same query. It is the last step before the query is handed to pgwire.
        Some(connection) => Some(connection.start_query().await),
        None => None,
    };
    let wait = async move {
        let is_cancelled = match cancelled {
            Some(cancelled) => cancelled.await.is_ok(),
            None => false,
        };
        if !is_cancelled {
            std::future::pending().await
        }
    };
    wait.boxed().shared()
}

#[async_trait]
impl SimpleQueryHandler for TimedService {
    async fn do_query<C>(&self, client: &mut C, query: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let limit = self.limit(client);
        let work = SimpleQueryHandler::do_query(&self.service, client, query);
        let responses = limit.start(work).await?;
        let cancelled = cancelled(client).await;
        Ok(responses
            .into_iter()
            .map(|response| limit.limited(response, &cancelled))
            .collect())
    }
}

#[async_trait]
impl ExtendedQueryHandler for TimedService {
    type Statement = <DfSessionService as ExtendedQueryHandler>::Statement;
    type QueryParser = <DfSessionService as ExtendedQueryHandler>::QueryParser;

    fn query_parser(&self) -> Arc<Self::QueryParser> {
        self.service.query_parser()
    }

    async fn do_query<C>(
        &self,
        client: &mut C,
        portal: &Portal<Self::Statement>,
        max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let limit = self.limit(client);
        let work = ExtendedQueryHandler::do_query(&self.service, client, portal, max_rows);
        let response = limit.start(work).await?;
        match response {
            // Of a client that wants all rows at once, pgwire would collect the rows in memory before it sends them.
            Response::Query(answer) if max_rows == 0 => {
                // pgwire itself waits for the client to cancel the query until this function returns.
                let never: Cancelled = std::future::pending().boxed().shared();
                let tag = send(client, limit.limited_rows(answer, &never), limit).await?;
                // The portal has no more rows.
                let none = QueryResponse::new(Arc::new(Vec::new()), futures::stream::empty());
                portal.start(none).await;
                Ok(Response::Execution(tag))
            }
            response => Ok(limit.limited(response, &cancelled(client).await)),
        }
    }
}

/// Sends the rows of an answer as they arrive. Returns the tag of the end, which is sent after them.
async fn send<C>(client: &mut C, mut answer: QueryResponse, limit: Limit) -> PgWireResult<Tag>
where
    C: Sink<PgWireBackendMessage> + Unpin,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    let mut count = 0;
    while let Some(row) = answer.data_rows.next().await {
        let message = PgWireBackendMessage::DataRow(row?);
        // A client that does not read ends at the limit, too.
        let sent = async { client.feed(message).await.map_err(PgWireError::from) };
        limit.start(sent).await?;
        count += 1;
    }
    Ok(Tag::new(&answer.command_tag).with_rows(count))
}
