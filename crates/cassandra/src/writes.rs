//! Writes of many rows.
//!
//! A request costs a node more than a small row does. Small rows of one partition therefore share a request, a *batch*.
//! All rows of a batch have the same replicas, so a batch is one write for each of them.

use crate::client::Client;
use crate::operations::{check_key, check_value};
use crate::schema::life_seconds;
use crate::statements::{Kind, consistency};
use scylla::policies::timestamp_generator::TimestampGenerator as _;
use scylla::serialize::batch::BatchValues;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use seiner_cluster::{Level, Row, RowsError};
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};

/// Maximum bytes of the rows of a batch. Larger batches save nothing, and nodes warn of them.
const BATCH_BYTES: usize = 32 << 10;
/// Maximum rows of a batch.
const BATCH_ROWS: usize = 200;
/// Bytes that count as one more of the requests that run at the same time. Limits the memory of nodes.
const PERMIT_BYTES: usize = 512 << 10;

impl Client {
    /// Writes rows at the same time, and waits for all that were begun.
    pub(crate) async fn write(
        self: &Arc<Client>,
        rows: Vec<Row>,
        level: Level,
    ) -> Result<(), RowsError> {
        for row in &rows {
            check_key(&row.partition, "partition")?;
            check_key(&row.key, "row")?;
            check_value(&row.value)?;
            row.life.map(life_seconds).transpose()?;
        }
        let mut tasks = JoinSet::new();
        let mut outcome = Ok(());
        for batch in batches(rows) {
            let permits = 1 + batch.iter().map(bytes_of).sum::<usize>() / PERMIT_BYTES;
            // The number of permits is at most 1,024.
            let permits = permits.min(self.concurrency) as u32;
            let permit = Arc::clone(&self.permits).acquire_many_owned(permits);
            let permit = permit.await.expect("the semaphore is never closed");
            while let Some(done) = tasks.try_join_next() {
                outcome = outcome.and(joined(done));
            }
            if outcome.is_err() {
                break;
            }
            let client = Arc::clone(self);
            tasks.spawn(async move {
                let outcome = client.write_batch(&batch, level).await;
                drop(permit);
                outcome
            });
        }
        while let Some(done) = tasks.join_next().await {
            outcome = outcome.and(joined(done));
        }
        outcome
    }

    /// Writes rows of one partition, all with a life or all without.
    async fn write_batch(&self, rows: &[Row], level: Level) -> Result<(), RowsError> {
        match rows {
            [] => return Ok(()),
            [row] => self.write_row(row, level).await?,
            [first, ..] => {
                let kind = kind_of(first);
                let (_, statement) = self.statement(&first.table, kind, level).await?;
                match kind {
                    Kind::Insert => {
                        let values = rows
                            .iter()
                            .map(|row| (&*row.partition, &*row.key, &*row.value));
                        let values: Vec<_> = values.collect();
                        self.run_batch(&statement, rows.len(), &values, level)
                            .await?;
                    }
                    _ => {
                        let mut values = Vec::with_capacity(rows.len());
                        for row in rows {
                            let life = life_seconds(row.life.unwrap_or_default())?;
                            values.push((&*row.partition, &*row.key, &*row.value, life));
                        }
                        self.run_batch(&statement, rows.len(), &values, level)
                            .await?;
                    }
                }
            }
        }
        self.counters.add_written(rows.iter().map(bytes_of).sum());
        Ok(())
    }

    async fn write_row(&self, row: &Row, level: Level) -> Result<(), RowsError> {
        let (table, kind) = (&row.table, kind_of(row));
        let (partition, key, value) = (&*row.partition, &*row.key, &*row.value);
        match row.life {
            None => {
                let values = (partition, key, value);
                self.mutate(table, kind, values, level).await
            }
            Some(life) => {
                let values = (partition, key, value, life_seconds(life)?);
                self.mutate(table, kind, values, level).await
            }
        }
    }

    /// Runs a statement with several rows of values. All attempts have the same timestamp.
    async fn run_batch(
        &self,
        statement: &PreparedStatement,
        rows: usize,
        values: &(impl BatchValues + Sync),
        level: Level,
    ) -> Result<(), RowsError> {
        let statements = vec![statement.clone().into(); rows];
        // Rows of one partition need no log of the batch.
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_consistency(consistency(level));
        batch.set_is_idempotent(true);
        batch.set_timestamp(Some(self.timestamps.next_timestamp()));
        let request = || self.session.batch(&batch, values);
        self.patience.repeat(request).await.map(drop)
    }
}

fn kind_of(row: &Row) -> Kind {
    match row.life {
        None => Kind::Insert,
        Some(_) => Kind::InsertLife,
    }
}

fn bytes_of(row: &Row) -> usize {
    row.partition.len() + row.key.len() + row.value.len()
}

/// Divides rows into batches: small rows of one partition, all with a life or all without. If two rows have the same
/// keys, the earlier one is left out.
fn batches(mut rows: Vec<Row>) -> Vec<Vec<Row>> {
    // The sort is stable: of rows with the same keys, the last one stays the last one.
    rows.sort_by(|left, right| {
        let key = |row: &Row| (row.life.is_some(), bytes_of(row) > BATCH_BYTES);
        let keys = (&*left.table, &left.partition).cmp(&(&*right.table, &right.partition));
        keys.then_with(|| key(left).cmp(&key(right)))
            .then_with(|| left.key.cmp(&right.key))
    });
    let mut batches: Vec<Vec<Row>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let last = batches.last_mut().filter(|batch| {
            batch.last().is_some_and(|last| {
                last.table == row.table
                    && last.partition == row.partition
                    && last.life.is_some() == row.life.is_some()
            })
        });
        match last {
            Some(batch) if batch.last().is_some_and(|last| last.key == row.key) => {
                batch.pop();
                batch.push(row);
            }
            Some(batch) if batch.len() < BATCH_ROWS && bytes + bytes_of(&row) <= BATCH_BYTES => {
                bytes += bytes_of(&row);
                batch.push(row);
            }
            _ => {
                bytes = bytes_of(&row);
                batches.push(vec![row]);
            }
        }
    }
    batches
}

/// Returns the outcome of a task. A panic of the task goes on here.
pub(crate) fn joined<T>(done: Result<Result<T, RowsError>, JoinError>) -> Result<T, RowsError> {
    match done {
        Ok(outcome) => outcome,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn row(table: &str, partition: u8, key: u32, bytes: usize) -> Row {
        Row {
            table: Arc::from(table),
            partition: vec![partition],
            key: key.to_be_bytes().to_vec(),
            value: vec![0; bytes],
            life: None,
        }
    }

    #[test]
    fn small_rows_of_a_partition_share_a_batch() {
        let rows = (0..1000_u32).map(|key| row("t", (key % 2) as u8, key, 20));
        let batches = batches(rows.collect());
        assert_eq!(batches.len(), 2 * 500_usize.div_ceil(BATCH_ROWS));
        for batch in &batches {
            assert!(batch.iter().all(|row| row.partition == batch[0].partition));
        }
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 1000);
    }

    #[test]
    fn batches_have_bounded_bytes_and_equal_statements() {
        let rows = (0..10).map(|key| row("t", 0, key, 10 << 10));
        let lengths = |rows| batches(rows).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(rows.collect()), [3, 3, 3, 1]);
        let large = vec![
            row("t", 0, 1, 20),
            row("t", 0, 2, 1 << 20),
            row("t", 0, 3, 20),
        ];
        assert_eq!(lengths(large), [2, 1]);
        let mut lives = vec![row("t", 0, 1, 20), row("t", 0, 2, 20), row("u", 0, 3, 20)];
        lives[0].life = Some(Duration::from_secs(9));
        assert_eq!(lengths(lives), [1, 1, 1]);
        assert_eq!(lengths(Vec::new()), [0; 0]);
    }

    #[test]
    fn the_last_of_two_equal_rows_is_written() {
        let found = batches(vec![
            row("t", 0, 1, 20),
            row("t", 0, 2, 20),
            row("t", 0, 1, 21),
        ]);
        assert_eq!(found, [vec![row("t", 0, 1, 21), row("t", 0, 2, 20)]]);
    }
}
