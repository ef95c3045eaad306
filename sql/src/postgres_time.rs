//! Maximum time of a query of a PostgreSQL client, from its start to its last row.

use crate::rejection::Rejection;
use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use datafusion_postgres::pgwire::api::portal::Portal;
use datafusion_postgres::pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use datafusion_postgres::pgwire::api::results::Response;
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::api::{ClientInfo, ClientPortalStore};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::PgWireBackendMessage;
use datafusion_postgres::{DfSessionService, QueryHook};
use futures::{Sink, StreamExt};
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

    /// Limits the time until the last row.
    fn limited(self, response: Response) -> Response {
        let Response::Query(mut answer) = response else {
            return response;
        };
        let rows = Some(answer.data_rows);
        let rows = futures::stream::unfold(rows, move |rows| async move {
            let mut rows = rows?;
            // The timer alone does not stop rows that never have to be waited for.
            if Instant::now() < self.deadline
                && let Ok(row) = timeout_at(self.deadline, rows.next()).await
            {
                return Some((row?, Some(rows)));
            }
            // The query ends here, because its rows are dropped.
            Some((Err(self.late()), None))
        });
        answer.data_rows = Box::pin(rows);
        Response::Query(answer)
    }
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
        Ok(responses
            .into_iter()
            .map(|response| limit.limited(response))
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
        Ok(limit.limited(limit.start(work).await?))
    }
}
