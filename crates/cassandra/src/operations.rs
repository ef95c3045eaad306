//! Operations on rows, asynchronous.

use crate::client::{Client, unreadable};
use crate::connect;
use crate::schema::MARKER;
use crate::statements::{Kind, TableStatements};
use scylla::policies::timestamp_generator::TimestampGenerator as _;
use scylla::response::PagingState;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row as AnyRow};
use seiner_cluster::rows::MAX_VALUE;
use seiner_cluster::{Level, Range, RowsError, Swap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum length of the key of a partition or row.
const MAX_KEY: usize = u16::MAX as usize;
/// Rows of a page of keys.
const KEYS_PAGE: i32 = 1000;

/// Pages to read.
struct Pages<'a> {
    table: &'a str,
    /// Maximum number of rows of all pages.
    limit: i32,
    level: Level,
}

/// Key and value of a row.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

impl Client {
    /// Returns the names of the tables of rows, sorted.
    pub(crate) async fn tables(&self) -> Result<Vec<String>, RowsError> {
        let mut names = connect::tables(self, &self.keyspace).await?;
        names.retain(|name| name != MARKER);
        names.sort();
        Ok(names)
    }

    /// Runs a plain write. All attempts have the same timestamp, so that a late attempt replaces no later write.
    pub(crate) async fn mutate(
        &self,
        table: &str,
        kind: Kind,
        values: impl SerializeRow + Sync,
        level: Level,
    ) -> Result<(), RowsError> {
        let (_, mut statement) = self.statement(table, kind, level).await?;
        statement.set_timestamp(Some(self.timestamps.next_timestamp()));
        self.execute(&statement, &values).await.map(drop)
    }

    /// Returns the value of a row.
    pub(crate) async fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        check_key(partition, "partition")?;
        check_key(key, "row")?;
        let (_, statement) = self.statement(table, Kind::Read, level).await?;
        let answer = self.execute(&statement, &(partition, key)).await?;
        let answer = rows_of(answer)?;
        let row = answer.maybe_first_row::<(Option<&[u8]>,)>();
        let value = row.map_err(unreadable)?.and_then(|(value,)| value);
        self.counters.add_read(value.map_or(0, <[u8]>::len));
        Ok(value.map(<[u8]>::to_vec))
    }

    /// Returns the rows of a range, page by page.
    pub(crate) async fn range(
        &self,
        range: &Range<'_>,
        level: Level,
    ) -> Result<Vec<Entry>, RowsError> {
        check_key(range.partition, "partition")?;
        let is_empty = range.limit == 0 || range.to.is_some_and(|to| to <= range.from);
        if is_empty {
            return Ok(Vec::new());
        }
        if range.from.len() > MAX_KEY || range.to.is_some_and(|to| to.len() > MAX_KEY) {
            let text = format!("the bound of a range has more than {MAX_KEY} bytes");
            return Err(RowsError::Rejected(text));
        }
        let (partition, from) = (range.partition, range.from);
        let limit = i32::try_from(range.limit).unwrap_or(i32::MAX);
        let pages = Pages {
            table: range.table,
            limit,
            level,
        };
        match (from.is_empty(), range.to) {
            (true, None) => {
                let values = (partition, limit);
                self.pages(pages, Kind::RangeAll, values).await
            }
            (false, None) => {
                let values = (partition, from, limit);
                self.pages(pages, Kind::RangeFrom, values).await
            }
            (true, Some(to)) => {
                let values = (partition, to, limit);
                self.pages(pages, Kind::RangeTo, values).await
            }
            (false, Some(to)) => {
                let values = (partition, from, to, limit);
                self.pages(pages, Kind::RangeFromTo, values).await
            }
        }
    }

    /// Reads all pages of a statement that returns keys and values.
    async fn pages(
        &self,
        pages: Pages<'_>,
        kind: Kind,
        values: impl SerializeRow,
    ) -> Result<Vec<Entry>, RowsError> {
        let Pages {
            table,
            limit,
            level,
        } = pages;
        let (table, mut statement) = self.statement(table, kind, level).await?;
        let mut found: Vec<Entry> = Vec::new();
        let mut rows = table.first_page();
        let mut place = PagingState::start();
        loop {
            // A page that may have as many rows as the limit makes Cassandra start again from the first row.
            let missing = limit.saturating_sub(i32::try_from(found.len()).unwrap_or(i32::MAX));
            if missing == 0 {
                return Ok(found);
            }
            statement.set_page_size(rows.min(missing));
            let (answer, next) = self.page(&statement, &values, place).await?;
            let (before, mut bytes) = (found.len(), 0);
            for row in answer
                .rows::<(&[u8], Option<&[u8]>)>()
                .map_err(unreadable)?
            {
                let (key, value) = row.map_err(unreadable)?;
                let value = value.unwrap_or_default();
                bytes += key.len() + value.len();
                found.push((key.to_vec(), value.to_vec()));
            }
            self.counters.add_read(bytes);
            match next {
                ControlFlow::Continue(next) => place = next,
                ControlFlow::Break(()) => return Ok(found),
            }
            rows = table.next_page(rows, found.len() - before, bytes);
        }
    }

    /// Reads one page.
    async fn page(
        &self,
        statement: &PreparedStatement,
        values: &impl SerializeRow,
        place: PagingState,
    ) -> Result<(QueryRowsResult, ControlFlow<(), PagingState>), RowsError> {
        let request = || async {
            let place = place.clone();
            self.session
                .execute_single_page(statement, values, place)
                .await
        };
        let (answer, next) = self.patience.repeat(request).await?;
        Ok((rows_of(answer)?, next.into_paging_control_flow()))
    }

    /// Removes a row or a partition.
    pub(crate) async fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        check_key(partition, "partition")?;
        match key {
            None => {
                self.mutate(table, Kind::RemovePartition, (partition,), level)
                    .await
            }
            Some(key) => {
                check_key(key, "row")?;
                self.mutate(table, Kind::Remove, (partition, key), level)
                    .await
            }
        }
    }

    /// Replaces the value of a row under a condition. Runs once: after a lost answer, a repetition could find the value
    /// that it wrote itself.
    pub(crate) async fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        check_key(partition, "partition")?;
        check_key(key, "row")?;
        check_value(value)?;
        let kind = match expected {
            None => Kind::SwapNew,
            Some(_) => Kind::Swap,
        };
        let (_, statement) = self.statement(table, kind, Level::Quorum).await?;
        let session = &self.session;
        let answer = match expected {
            None => {
                let values = (partition, key, value);
                let request = || session.execute_unpaged(&statement, values);
                self.patience.once(request).await?
            }
            Some(expected) => {
                let values = (value, partition, key, expected);
                let request = || session.execute_unpaged(&statement, values);
                self.patience.once(request).await?
            }
        };
        let swap = outcome_of_swap(&rows_of(answer)?)?;
        if swap == Swap::Done {
            self.counters
                .add_written(partition.len() + key.len() + value.len());
        }
        Ok(swap)
    }

    /// Returns the keys of all rows of a partition.
    pub(crate) async fn keys(
        &self,
        table: &str,
        partition: &[u8],
        level: Level,
    ) -> Result<Vec<Vec<u8>>, RowsError> {
        check_key(partition, "partition")?;
        let (_, statement) = self.statement(table, Kind::Keys, level).await?;
        self.all_keys(statement, (partition,)).await
    }

    /// Returns the keys of all partitions.
    pub(crate) async fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        let kind = Kind::Partitions;
        let (_, statement) = self.statement(table, kind, Level::Quorum).await?;
        self.all_keys(statement, ()).await
    }

    /// Reads all pages of a statement that returns keys.
    async fn all_keys(
        &self,
        mut statement: PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Vec<Vec<u8>>, RowsError> {
        statement.set_page_size(KEYS_PAGE);
        let (mut found, mut place) = (Vec::new(), PagingState::start());
        loop {
            let (answer, next) = self.page(&statement, &values, place).await?;
            for row in answer.rows::<(&[u8],)>().map_err(unreadable)? {
                let (key,) = row.map_err(unreadable)?;
                self.counters.add_read(key.len());
                found.push(key.to_vec());
            }
            match next {
                ControlFlow::Continue(next) => place = next,
                ControlFlow::Break(()) => return Ok(found),
            }
        }
    }

    pub(crate) async fn statement(
        &self,
        table: &str,
        kind: Kind,
        level: Level,
    ) -> Result<(Arc<TableStatements>, PreparedStatement), RowsError> {
        let table = self.statements.of(table)?;
        let statement = self
            .statements
            .get(&self.session, &self.patience, &table, kind, level)
            .await?;
        Ok((table, statement))
    }

    async fn execute(
        &self,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<QueryResult, RowsError> {
        let request = || self.session.execute_unpaged(statement, values);
        self.patience.repeat(request).await
    }
}

fn rows_of(answer: QueryResult) -> Result<QueryRowsResult, RowsError> {
    answer.into_rows_result().map_err(unreadable)
}

/// Reads the answer of a conditional statement: `[applied]`, and the columns of the row unless the write was done.
fn outcome_of_swap(answer: &QueryRowsResult) -> Result<Swap, RowsError> {
    let column = |name| answer.column_specs().get_by_name(name);
    let value = column("value").map(|(place, _)| place);
    let (applied, _) = column("[applied]").ok_or_else(|| unreadable("no column [applied]"))?;
    let row: AnyRow = answer.first_row().map_err(unreadable)?;
    let mut columns = row.columns;
    if columns[applied] == Some(CqlValue::Boolean(true)) {
        return Ok(Swap::Done);
    }
    match value.and_then(|place| columns[place].take()) {
        None => Ok(Swap::Found(None)),
        Some(CqlValue::Blob(value)) => Ok(Swap::Found(Some(value))),
        Some(CqlValue::Empty) => Ok(Swap::Found(Some(Vec::new()))),
        Some(other) => Err(unreadable(format!("the value {other:?} is no blob"))),
    }
}

pub(crate) fn check_key(key: &[u8], of: &str) -> Result<(), RowsError> {
    match key.len() {
        0 if of == "partition" => {
            let text = "the key of a partition is empty; Cassandra needs at least one byte";
            Err(RowsError::Rejected(text.to_string()))
        }
        0..=MAX_KEY => Ok(()),
        bytes => {
            let text = format!("the key of a {of} has {bytes} bytes of at most {MAX_KEY}");
            Err(RowsError::Rejected(text))
        }
    }
}

pub(crate) fn check_value(value: &[u8]) -> Result<(), RowsError> {
    match value.len() {
        0..=MAX_VALUE => Ok(()),
        bytes => {
            let text = format!("a value has {bytes} bytes of at most {MAX_VALUE}");
            Err(RowsError::Rejected(text))
        }
    }
}
