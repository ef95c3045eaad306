//! Prepared statements of the tables.

use crate::contact::place_of;
use crate::retry::Patience;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use seiner_cluster::{Level, RowsError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::OnceCell;

/// Rows of the first page of a range in a table that was not read yet.
const FIRST_PAGE: i32 = 8;
/// Maximum rows of the first page of a range. Rows of one table may differ in size.
const LONGEST_FIRST_PAGE: i32 = 64;
/// Maximum rows of a page.
const LONGEST_PAGE: i32 = 1024;
/// Factor by which a page may have more rows than the page before it.
const GROWTH: i32 = 8;
/// Bytes of a page to aim at. A node and the driver hold a whole page in memory.
const PAGE_BYTES: usize = 4 << 20;

/// Kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    InsertLife,
    Read,
    Keys,
    RangeAll,
    RangeFrom,
    RangeTo,
    RangeFromTo,
    Remove,
    RemovePartition,
    SwapNew,
    Swap,
    Partitions,
}

/// Number of kinds.
const KINDS: usize = Kind::Partitions as usize + 1;

impl Kind {
    fn text(self, keyspace: &str, table: &str) -> String {
        let table = format!("\"{keyspace}\".\"{table}\"");
        let insert = format!("INSERT INTO {table} (partition, key, value) VALUES (?, ?, ?)");
        let range = format!("SELECT key, value FROM {table} WHERE partition = ?");
        match self {
            Kind::Insert => insert,
            Kind::InsertLife => format!("{insert} USING TTL ?"),
            Kind::Read => format!("SELECT value FROM {table} WHERE partition = ? AND key = ?"),
            Kind::Keys => format!("SELECT key FROM {table} WHERE partition = ?"),
            Kind::RangeAll => format!("{range} LIMIT ?"),
            Kind::RangeFrom => format!("{range} AND key >= ? LIMIT ?"),
            Kind::RangeTo => format!("{range} AND key < ? LIMIT ?"),
            Kind::RangeFromTo => format!("{range} AND key >= ? AND key < ? LIMIT ?"),
            Kind::Remove => format!("DELETE FROM {table} WHERE partition = ? AND key = ?"),
            Kind::RemovePartition => format!("DELETE FROM {table} WHERE partition = ?"),
            Kind::SwapNew => format!("{insert} IF NOT EXISTS"),
            Kind::Swap => {
                format!("UPDATE {table} SET value = ? WHERE partition = ? AND key = ? IF value = ?")
            }
            Kind::Partitions => format!("SELECT DISTINCT partition FROM {table}"),
        }
    }

    /// Conditional statements are not repeated.
    fn is_idempotent(self) -> bool {
        !matches!(self, Kind::SwapNew | Kind::Swap)
    }
}

/// Statements of one table, prepared when they are first needed.
pub(crate) struct TableStatements {
    keyspace: String,
    table: String,
    prepared: [OnceCell<PreparedStatement>; KINDS],
    /// Number of rows of this table that fill a page.
    page_rows: AtomicI32,
}

impl TableStatements {
    /// Returns the number of rows of a range's first page.
    pub(crate) fn first_page(&self) -> i32 {
        self.page_rows
            .load(Ordering::Relaxed)
            .min(LONGEST_FIRST_PAGE)
    }

    /// Returns the number of rows of the page that follows a page of `rows` rows with `bytes` bytes, of which `page`
    /// were requested.
    pub(crate) fn next_page(&self, page: i32, rows: usize, bytes: usize) -> i32 {
        let next = next_page(page, rows, bytes);
        self.page_rows.store(next, Ordering::Relaxed);
        next
    }
}

fn next_page(page: i32, rows: usize, bytes: usize) -> i32 {
    if rows == 0 {
        return page;
    }
    let fitting = PAGE_BYTES / bytes.div_ceil(rows).max(1);
    let most = page.saturating_mul(GROWTH).min(LONGEST_PAGE);
    i32::try_from(fitting).unwrap_or(most).clamp(1, most)
}

/// Statements of all tables.
pub(crate) struct Statements {
    keyspace: String,
    tables: RwLock<BTreeMap<String, Arc<TableStatements>>>,
}

impl Statements {
    pub(crate) fn new(keyspace: &str) -> Statements {
        Statements {
            keyspace: keyspace.to_string(),
            tables: RwLock::default(),
        }
    }

    /// Returns the statements of a table. The table need not exist.
    pub(crate) fn of(&self, table: &str) -> Result<Arc<TableStatements>, RowsError> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tables.get(table) {
            return Ok(Arc::clone(found));
        }
        drop(tables);
        let (keyspace, name) = place_of(&self.keyspace, table).map_err(RowsError::Rejected)?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let entry = tables.entry(table.to_string()).or_insert_with(|| {
            Arc::new(TableStatements {
                keyspace,
                table: name.to_string(),
                prepared: [const { OnceCell::const_new() }; KINDS],
                page_rows: AtomicI32::new(FIRST_PAGE),
            })
        });
        Ok(Arc::clone(entry))
    }

    /// Returns a statement, ready to be run at a level.
    pub(crate) async fn get(
        &self,
        session: &Session,
        patience: &Patience,
        table: &TableStatements,
        kind: Kind,
        level: Level,
    ) -> Result<PreparedStatement, RowsError> {
        let cell = &table.prepared[kind as usize];
        let prepare = || async {
            let text = kind.text(&table.keyspace, &table.table);
            let prepared = patience.repeat(|| async {
                let prepared = session.prepare(&*text).await;
                prepared.map_err(ExecutionError::PrepareError)
            });
            let mut prepared = prepared.await?;
            prepared.set_is_idempotent(kind.is_idempotent());
            prepared.set_serial_consistency(Some(SerialConsistency::Serial));
            if !kind.is_idempotent() {
                prepared.set_retry_policy(Some(Arc::new(
                    scylla::policies::retry::FallthroughRetryPolicy::new(),
                )));
            }
            Ok(prepared)
        };
        let mut statement = cell.get_or_try_init(prepare).await?.clone();
        statement.set_consistency(consistency(level));
        Ok(statement)
    }
}

/// Returns the driver's name of a level.
pub(crate) fn consistency(level: Level) -> Consistency {
    match level {
        Level::One => Consistency::One,
        Level::Quorum => Consistency::Quorum,
        Level::All => Consistency::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_fit_into_memory() {
        assert_eq!(next_page(8, 8, 8 << 20), 4, "rows of 1 MiB");
        assert_eq!(next_page(8, 8, 64 << 20), 1, "rows of 8 MiB");
        assert_eq!(next_page(8, 8, 800), 64, "small rows: eight times as many");
        assert_eq!(next_page(512, 512, 5120), LONGEST_PAGE);
        assert_eq!(next_page(8, 0, 0), 8);
        assert_eq!(next_page(8, 8, 0), 64, "empty rows");
    }

    #[test]
    fn names_of_tables_cannot_contain_statements() {
        let statements = Statements::new("k");
        assert!(statements.of("blocks").is_ok());
        assert!(statements.of("a\" WHERE").is_err());
    }
}
