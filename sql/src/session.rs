//! Session of DataFusion over the measurements of a server. It only reads.

use crate::aggregates::Aggregates;
use crate::catalog::{Catalog, is_other_case, quotes_hint};
use crate::client::error;
use crate::functions;
use crate::rejection::Rejection;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::SchemaError;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::setup_pg_catalog;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Number of consumers of memory that an error lists.
const LISTED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).expect("3 is not 0");
/// Name of the catalog: the name of the database for PostgreSQL clients.
pub const DATABASE: &str = "seiner";
/// Name of the schema of the measurements.
pub const SCHEMA: &str = "public";

/// Returns a session whose queries read these measurements and use at most `memory_bytes` together.
///
/// # Errors
/// If DataFusion rejects the settings.
pub fn session(measurements: Arc<Catalog>, memory_bytes: usize) -> Result<SessionContext> {
    let config = SessionConfig::new()
        .with_default_catalog_and_schema(DATABASE, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true)
        .set_str("datafusion.execution.time_zone", "UTC");
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackConsumersPool::new(
            FairSpillPool::new(memory_bytes),
            LISTED_CONSUMERS,
        )))
        .with_disk_manager_builder(
            DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
        )
        .build_arc()?;
    let context = SessionContext::new_with_config_rt(config, runtime);
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(SCHEMA, measurements.clone())?;
    context.register_catalog(DATABASE, Arc::new(catalog));
    functions::register(&context);
    context.register_udtf("aggregates", Arc::new(Aggregates(measurements)));
    setup_pg_catalog(&context, DATABASE, EmptyContextProvider).map_err(|wrong| *wrong)?;
    Ok(context)
}

/// Plans a query.
///
/// # Errors
/// If the text is not one statement that reads, or with the mistake in it.
pub async fn plan(context: &SessionContext, text: &str) -> Result<LogicalPlan> {
    let mut statements = DFParser::parse_sql_with_dialect(text, &ast_dialect())?;
    let statement = statements
        .pop_front()
        .ok_or_else(|| error("the query is empty"))?;
    if !statements.is_empty() {
        return Err(error("write one statement; there are several"));
    }
    if let Some(name) = rejected(&statement) {
        return Err(Rejection::Write(name).into());
    }
    let plan = context.state().statement_to_plan(statement).await?;
    only_reads().verify_plan(&plan)?;
    Ok(plan)
}

fn ast_dialect() -> datafusion::sql::sqlparser::dialect::PostgreSqlDialect {
    datafusion::sql::sqlparser::dialect::PostgreSqlDialect {}
}

/// Returns the rules of plans: no writing, no changes of settings.
pub fn only_reads() -> SQLOptions {
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
}

fn rejected(statement: &Statement) -> Option<String> {
    match statement {
        Statement::Statement(statement) => rejected_statement(statement),
        Statement::Explain(explain) => rejected(&explain.statement),
        other => Some(first_word(&other.to_string())),
    }
}

/// Returns the name of a statement that does not only read.
pub fn rejected_statement(statement: &ast::Statement) -> Option<String> {
    match statement {
        ast::Statement::Query(_)
        | ast::Statement::ShowTables { .. }
        | ast::Statement::ShowColumns { .. }
        | ast::Statement::ShowVariable { .. }
        | ast::Statement::ExplainTable { .. } => None,
        ast::Statement::Explain { statement, .. } => rejected_statement(statement),
        other => Some(first_word(&other.to_string())),
    }
}

/// Returns the name of a statement.
pub fn first_word(text: &str) -> String {
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_uppercase()
}

/// Returns the text of an error for the user: the limit is named if memory is exhausted.
pub fn message(error: &DataFusionError, memory_bytes: usize) -> String {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(reason) => format!(
            "the query needs more memory than the limit of {} MiB (--memory, sql_memory); select fewer rows or groups: {reason}",
            memory_bytes >> 20
        ),
        DataFusionError::Execution(reason) => reason.clone(),
        DataFusionError::External(reason) => reason.to_string(),
        DataFusionError::SchemaError(reason, _) => {
            column_hint(reason).unwrap_or_else(|| error.find_root().strip_backtrace())
        }
        other => other.strip_backtrace(),
    }
}

/// Returns the text of an error for a column whose name has capital letters. The text of DataFusion recommends a setting
/// that nobody can change.
fn column_hint(reason: &SchemaError) -> Option<String> {
    let SchemaError::FieldNotFound {
        field,
        valid_fields,
    } = reason
    else {
        return None;
    };
    let known = valid_fields
        .iter()
        .find(|known| is_other_case(&known.name, &field.name))?;
    Some(quotes_hint("column", &field.name, &known.name))
}
