//! SQL: passes queries of `/api/v1/sql`, connections of clients of PostgreSQL and calls of Flight SQL on to the program
//! `seiner-sql`, which has no tokens and no TLS. Encryption and tokens are checked here.

mod answer;
mod flight;
mod postgres;

pub use answer::answer;

use crate::access::{Denial, Scope, Wanted};
use crate::app_state::AppState;
use crate::shutdown::Stop;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Maximum length of a query, bytes.
pub const MAX_QUERY: usize = 1 << 20;

/// Permission for SQL: it reads the whole store, so that a selector cannot limit it.
const WANTED: Wanted = Wanted {
    scope: Some(Scope::Read),
    is_limitable: false,
};

/// Protocol of the connections of a port.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// PostgreSQL's.
    Postgres,
    /// Arrow Flight SQL.
    Flight,
}

impl Protocol {
    /// Returns the setting with the address of the port.
    pub fn setting(self) -> &'static str {
        match self {
            Protocol::Postgres => "postgres_listen",
            Protocol::Flight => "flight_sql_listen",
        }
    }
}

/// Passes the queries of a port on to the program until the stop.
pub async fn serve(protocol: Protocol, listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    match protocol {
        Protocol::Postgres => postgres::serve(listener, app, stop).await,
        Protocol::Flight => flight::serve(listener, app, stop).await,
    }
}

/// Returns the reason of a denial. `credentials` names what the client must send.
fn reason(denial: &Denial, credentials: &str) -> String {
    match denial {
        Denial::Missing | Denial::Wrong => format!(
            "this server needs a token; give {credentials}. `seiner token create NAME --scope read` creates one"
        ),
        other => other.to_string(),
    }
}
