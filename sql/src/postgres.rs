//! PostgreSQL's protocol. There are no passwords: the listener belongs on loopback.

use crate::postgres_end::TimedService;
use crate::rejection::Rejection;
use crate::session::rejected_statement;
use async_trait::async_trait;
use datafusion::common::ParamValues;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion_postgres::QueryHook;
use datafusion_postgres::hooks::HookClient;
use datafusion_postgres::hooks::cursor::CursorStatementHook;
use datafusion_postgres::hooks::set_show::SetShowHook;
use datafusion_postgres::hooks::transactions::TransactionStatementHook;
use datafusion_postgres::pgwire::api::auth::StartupHandler;
use datafusion_postgres::pgwire::api::auth::noop::NoopStartupHandler;
use datafusion_postgres::pgwire::api::cancel::{CancelHandler, DefaultCancelHandler};
use datafusion_postgres::pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use datafusion_postgres::pgwire::api::results::{Response, Tag};
use datafusion_postgres::pgwire::api::{ClientInfo, ConnectionManager, PgWireServerHandlers};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::tokio::process_socket;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Number of connections. A connection may run one query at a time.
const CONNECTIONS: usize = 32;
/// Settings of a session that a client may change. Others are accepted and have no effect.
const SETTINGS: [&str; 7] = [
    "statement_timeout",
    "datestyle",
    "bytea_output",
    "intervalstyle",
    "application_name",
    "extra_float_digits",
    "search_path",
];

/// Accepts connections until the listener fails. A query takes at most `time`.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    context: Arc<SessionContext>,
    time: Duration,
) -> std::io::Result<()> {
    let handlers = Arc::new(Handlers::new(context, time));
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let (socket, _) = listener.accept().await?;
        // A connection beyond the limit is closed.
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            continue;
        };
        let handlers = handlers.clone();
        tokio::spawn(async move {
            let _permit = permit;
            // The client has been sent the error.
            _ = process_socket(socket, None, handlers).await;
        });
    }
}

struct Handlers {
    service: Arc<TimedService>,
    startup: Arc<Startup>,
    cancel: Arc<DefaultCancelHandler>,
}

/// Start of a connection: every user may read.
struct Startup(Arc<ConnectionManager>);

impl NoopStartupHandler for Startup {
    fn connection_manager(&self) -> Option<Arc<ConnectionManager>> {
        Some(self.0.clone())
    }
}

impl Handlers {
    fn new(context: Arc<SessionContext>, time: Duration) -> Handlers {
        let connections = Arc::new(ConnectionManager::new());
        let hooks: Vec<Arc<dyn QueryHook>> = vec![
            Arc::new(TransactionStatementHook),
            Arc::new(OnlyReads),
            Arc::new(CursorStatementHook),
            Arc::new(SetShowHook),
        ];
        Handlers {
            service: Arc::new(TimedService::new(context, hooks, time)),
            startup: Arc::new(Startup(connections.clone())),
            cancel: Arc::new(DefaultCancelHandler::new(connections)),
        }
    }
}

impl PgWireServerHandlers for Handlers {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        self.service.clone()
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        self.service.clone()
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        self.startup.clone()
    }

    fn cancel_handler(&self) -> Arc<impl CancelHandler> {
        self.cancel.clone()
    }
}

/// Rejects statements that do not only read, before they are planned.
#[derive(Debug)]
struct OnlyReads;

impl OnlyReads {
    fn verdict(statement: &Statement) -> Verdict {
        match statement {
            Statement::Declare { .. } | Statement::Fetch { .. } | Statement::Close { .. } => {
                Verdict::Allowed
            }
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. } => Verdict::Allowed,
            // Pools of connections send this. A connection has nothing to discard.
            Statement::Discard { .. } => Verdict::Ignored("DISCARD ALL"),
            Statement::Set(set) => {
                let text = set.to_string().to_lowercase();
                let mut words = text.split_whitespace().skip(1);
                match words.next() {
                    Some(name) if name.starts_with("datafusion.") => {
                        Verdict::Rejected("SET of datafusion's settings".into())
                    }
                    Some(name) if SETTINGS.contains(&name) => Verdict::Allowed,
                    _ => Verdict::Ignored("SET"),
                }
            }
            other => rejected_statement(other).map_or(Verdict::Allowed, Verdict::Rejected),
        }
    }

    fn response(statement: &Statement) -> Option<PgWireResult<Response>> {
        match OnlyReads::verdict(statement) {
            Verdict::Allowed => None,
            Verdict::Ignored(tag) => Some(Ok(Response::Execution(Tag::new(tag)))),
            Verdict::Rejected(name) => Some(Err(rejection(&name))),
        }
    }
}

enum Verdict {
    Allowed,
    /// Answered as done, without effect.
    Ignored(&'static str),
    Rejected(String),
}

fn rejection(name: &str) -> PgWireError {
    // 25006: read_only_sql_transaction.
    let text = Rejection::Write(name.to_string()).to_string();
    PgWireError::UserError(Box::new(ErrorInfo::new(
        "ERROR".into(),
        "25006".into(),
        text,
    )))
}

#[async_trait]
impl QueryHook for OnlyReads {
    async fn handle_simple_query(
        &self,
        statement: &Statement,
        _context: &SessionContext,
        _client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        OnlyReads::response(statement)
    }

    async fn handle_extended_parse_query(
        &self,
        statement: &Statement,
        _context: &SessionContext,
        _client: &(dyn ClientInfo + Send + Sync),
    ) -> Option<PgWireResult<LogicalPlan>> {
        match OnlyReads::verdict(statement) {
            Verdict::Rejected(name) => Some(Err(rejection(&name))),
            Verdict::Allowed | Verdict::Ignored(_) => None,
        }
    }

    async fn handle_extended_query(
        &self,
        statement: &Statement,
        _plan: &LogicalPlan,
        _parameters: &ParamValues,
        _context: &SessionContext,
        _client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        OnlyReads::response(statement)
    }
}
