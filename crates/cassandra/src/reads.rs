//! Several reads at the same time.

use crate::client::Client;
use crate::writes::joined;
use seiner_cluster::{Found, Range, Reading, RowsError, Selection};
use std::sync::Arc;

/// Answers several requests at the same time, in their order.
pub(crate) async fn read_all(
    client: &Arc<Client>,
    readings: Vec<Reading>,
) -> Result<Vec<Vec<Found>>, RowsError> {
    let mut tasks = Vec::with_capacity(readings.len());
    for reading in readings {
        let permit = Arc::clone(&client.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let client = Arc::clone(client);
        tasks.push(tokio::spawn(async move {
            let answer = answer(&client, &reading).await;
            drop(permit);
            answer
        }));
    }
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(joined(task.await)?);
    }
    Ok(answers)
}

async fn answer(client: &Client, reading: &Reading) -> Result<Vec<Found>, RowsError> {
    let (table, partition) = (&*reading.table, &*reading.partition);
    let (whole, level) = (Range::whole(table, partition), reading.level);
    match &reading.rows {
        Selection::One(key) => {
            let value = client.read(table, partition, key, level).await?;
            Ok(value
                .into_iter()
                .map(|value| (key.clone(), value))
                .collect())
        }
        Selection::All => client.range(&whole, level).await,
        Selection::Between(from, to) => {
            let (from, to) = (&**from, Some(&**to));
            client.range(&Range { from, to, ..whole }, level).await
        }
        Selection::Keys => {
            let keys = client.keys(table, partition, level).await?.into_iter();
            Ok(keys.map(|key| (key, Vec::new())).collect())
        }
    }
}
