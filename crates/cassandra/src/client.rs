//! Session of the driver, with all that the operations on rows share.

use crate::contact::{Compaction, Contact, Timeouts};
use crate::retry::{CountedRetries, Patience};
use crate::schema::{Form, Uncompressed};
use crate::statements::{Statements, consistency};
use crate::statistics::Counters;
use crate::tls::TlsConfig;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{ExecutionError, NewSessionError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use scylla::statement::Statement;
use seiner_cluster::{Level, RowsError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Time after which an idempotent request is sent to a second node too. A node that hangs then delays a request by this
/// time instead of [`Timeouts::request`].
const HANGING: Duration = Duration::from_secs(2);
/// Interval at which idle connections are tested, and the time for the answer. A connection to a node that hangs is
/// closed after both.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Interval at which nodes are asked for the version of their schema, after a change.
const AGREEMENT: Duration = Duration::from_millis(50);
/// Part of the time to connect after which a node that does not answer is left out. A session asks one node after the
/// other for the list of nodes, and then waits once for the connections to all of them.
const OPENING: u32 = 5;

/// Client of a cluster.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) keyspace: String,
    pub(crate) statements: Statements,
    pub(crate) patience: Patience,
    pub(crate) counters: Arc<Counters>,
    /// Timestamps of writes. They increase, so that a later write of this client replaces an earlier one.
    pub(crate) timestamps: MonotonicTimestampGenerator,
    /// Rows that may be written at the same time.
    pub(crate) permits: Arc<Semaphore>,
    /// Number of permits.
    pub(crate) concurrency: usize,
    /// Number of hosts that the user named.
    pub(crate) named_hosts: usize,
    timeouts: Timeouts,
    compaction: Compaction,
}

impl Client {
    /// Opens a session through the hosts of a contact: those that answer, of all that were named. Returns the driver's
    /// error as it is.
    pub(crate) async fn open(
        contact: &Contact,
        tls: Option<TlsConfig>,
        named_hosts: usize,
    ) -> Result<Client, NewSessionError> {
        let timeouts = contact.timeouts;
        let counters = Arc::new(Counters::default());
        let retries = CountedRetries {
            counters: Arc::clone(&counters),
        };
        let profile = ExecutionProfile::builder()
            .request_timeout(Some(timeouts.request))
            .retry_policy(Arc::new(retries))
            .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
                max_retry_count: 1,
                retry_interval: HANGING,
            })))
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(contact.hosts.iter().map(ToString::to_string))
            .default_execution_profile_handle(profile.into_handle())
            .connection_timeout(timeouts.connect / OPENING)
            .hostname_resolution_timeout(Some(timeouts.connect / OPENING))
            .keepalive_interval(KEEPALIVE)
            .keepalive_timeout(KEEPALIVE)
            .keyspaces_to_fetch([contact.keyspace.clone()])
            .schema_agreement_interval(AGREEMENT)
            .schema_agreement_timeout(timeouts.schema)
            .driver_config_reporting(false);
        if let Some(login) = &contact.login {
            builder = builder.user(&login.user, &login.password);
        }
        if let Some(tls) = tls {
            builder = encrypted(builder, tls);
        }
        let session = builder.build().await?;
        let concurrency = contact.concurrency.clamp(1, 1024);
        Ok(Client {
            session,
            keyspace: contact.keyspace.clone(),
            statements: Statements::new(&contact.keyspace),
            patience: Patience {
                total: timeouts.total,
                counters: Arc::clone(&counters),
            },
            counters,
            timestamps: MonotonicTimestampGenerator::new(),
            permits: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            named_hosts,
            timeouts,
            compaction: contact.compaction,
        })
    }

    /// Returns the form of the options of tables. Only nodes of ScyllaDB divide their rows by core.
    pub(crate) fn form(&self) -> Form {
        let nodes = self.session.get_cluster_state();
        let uncompressed = match nodes
            .get_nodes_info()
            .iter()
            .any(|node| node.sharder().is_some())
        {
            true => Uncompressed::Scylla,
            false => Uncompressed::Cassandra,
        };
        Form {
            uncompressed,
            compaction: self.compaction,
        }
    }

    /// Returns the rows of a short answer.
    pub(crate) async fn select<R>(&self, text: &str, level: Level) -> Result<Vec<R>, RowsError>
    where
        R: for<'frame> DeserializeRow<'frame, 'frame>,
    {
        let mut statement = Statement::new(text);
        statement.set_consistency(consistency(level));
        statement.set_is_idempotent(true);
        let request = || async { self.session.query_unpaged(statement.clone(), ()).await };
        let answer = self.patience.repeat(request).await?;
        let answer = answer.into_rows_result().map_err(unreadable)?;
        let rows = answer.rows::<R>().map_err(unreadable)?;
        rows.map(|row| row.map_err(unreadable)).collect()
    }

    /// Runs a statement that changes the schema and is idempotent, and waits until all reachable nodes have the same
    /// schema.
    pub(crate) async fn change_schema(&self, text: &str) -> Result<(), RowsError> {
        let patience = Patience {
            total: self.timeouts.schema,
            counters: Arc::clone(&self.counters),
        };
        let request = || async {
            let mut statement = Statement::new(text);
            statement.set_is_idempotent(true);
            statement.set_request_timeout(Some(self.timeouts.schema));
            let nodes = self.session.get_cluster_state();
            let nodes = nodes.get_nodes_info().iter();
            let first = nodes
                .filter(|node| node.is_connected())
                .min_by_key(|node| node.host_id);
            if let Some(first) = first {
                let node = NodeIdentifier::HostId(first.host_id);
                let policy = SingleTargetLoadBalancingPolicy::new(node, None);
                statement.set_load_balancing_policy(Some(policy));
            }
            self.session.query_unpaged(statement, ()).await
        };
        patience.repeat(request).await?;
        let agreement = || async {
            let version = self.session.await_schema_agreement().await;
            version.map_err(ExecutionError::SchemaAgreementError)
        };
        patience.repeat(agreement).await.map(drop)
    }
}

#[cfg(feature = "tls")]
fn encrypted(builder: SessionBuilder, tls: TlsConfig) -> SessionBuilder {
    builder.tls_context(Some(tls))
}

#[cfg(not(feature = "tls"))]
fn encrypted(_builder: SessionBuilder, tls: TlsConfig) -> SessionBuilder {
    match tls {}
}

/// Describes an answer of another form than the statement has.
pub(crate) fn unreadable(error: impl std::fmt::Display) -> RowsError {
    RowsError::Rejected(format!("the answer of the cluster is unreadable: {error}"))
}
