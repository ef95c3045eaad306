//! Creation of tables, and of the keyspaces of classes with their own number of copies.

use crate::client::Client;
use crate::connect::{datacenters, mark, marked, tables, version};
use crate::contact::place_of;
use crate::schema::{
    Column, EARLIER, MARKER, OWNER, VERSION, check_columns, create_keyspace, create_marker,
    create_table, explain,
};
use seiner_cluster::{Level, RowsError, TableSpec};
use std::collections::BTreeMap;

/// Keyspaces with the copies that their tables state.
type Spaces = BTreeMap<String, Option<u32>>;

/// Creates the tables that do not exist yet, and their keyspaces.
pub(crate) async fn create(client: &Client, specs: &[TableSpec]) -> Result<(), RowsError> {
    // All names are checked before the first one is created.
    let form = client.form();
    let mut spaces = Spaces::new();
    for spec in specs {
        create_table(&client.keyspace, spec, form)?;
        let (keyspace, _) = place(client, spec)?;
        spaces.insert(keyspace, spec.copies);
    }
    for (keyspace, copies) in &spaces {
        if *keyspace != client.keyspace {
            create_space(client, keyspace, copies.unwrap_or(1)).await?;
        }
    }
    let mut existing = BTreeMap::new();
    for keyspace in spaces.into_keys() {
        let found = tables(client, &keyspace).await?;
        existing.insert(keyspace, found);
    }
    for spec in specs {
        let (keyspace, name) = place(client, spec)?;
        if !existing[&keyspace].iter().any(|table| table == name) {
            let text = create_table(&client.keyspace, spec, form)?;
            client.change_schema(&text).await.map_err(explain)?;
        }
    }
    for spec in specs {
        let (keyspace, name) = place(client, spec)?;
        let text = format!(
            "SELECT column_name, kind, position, type FROM system_schema.columns \
                 WHERE keyspace_name = '{keyspace}' AND table_name = '{name}'"
        );
        let columns: Vec<Column> = client.select(&text, Level::One).await?;
        check_columns(&spec.name, columns)?;
    }
    upgrade(client).await
}

fn place<'t>(client: &Client, spec: &'t TableSpec) -> Result<(String, &'t str), RowsError> {
    place_of(&client.keyspace, &spec.name).map_err(RowsError::Rejected)
}

/// Creates a keyspace for the tables of a class, unless it exists. An existing keyspace keeps its copies.
async fn create_space(client: &Client, keyspace: &str, copies: u32) -> Result<(), RowsError> {
    if owns(client, keyspace).await? {
        return Ok(());
    }
    let copies = copies as usize;
    let datacenters = datacenters(client, copies).await?;
    let text = create_keyspace(keyspace, copies, &datacenters);
    client.change_schema(&text).await?;
    client.change_schema(&create_marker(keyspace)).await?;
    mark(client, keyspace, OWNER, &client.keyspace).await;
    mark(client, keyspace, "version", VERSION).await;
    match owns(client, keyspace).await? {
        true => Ok(()),
        false => {
            let text = format!("the marker of the keyspace {keyspace} could not be written");
            Err(RowsError::Unavailable(text))
        }
    }
}

/// Returns true if a keyspace is complete and belongs to this one; false if it does not exist, or its creation was
/// interrupted.
///
/// # Errors
/// [`RowsError::Rejected`] if the keyspace belongs to another one, or to another program.
async fn owns(client: &Client, keyspace: &str) -> Result<bool, RowsError> {
    let found = tables(client, keyspace).await?;
    if found.is_empty() {
        return Ok(false);
    }
    let levels = [Level::One, Level::Quorum];
    let owner = match found.iter().any(|table| table == MARKER) {
        true => marked(client, keyspace, OWNER, &levels).await?,
        false => None,
    };
    match owner {
        Some(owner) if owner == client.keyspace => Ok(true),
        None if found == [MARKER] => {
            // An interrupted creation has no version yet.
            match marked(client, keyspace, "version", &levels).await? {
                None => Ok(false),
                Some(_) => Err(foreign(keyspace)),
            }
        }
        _ => Err(foreign(keyspace)),
    }
}

/// Raises the version of a keyspace of the earlier version.
async fn upgrade(client: &Client) -> Result<(), RowsError> {
    if version(client).await?.as_deref() != Some(EARLIER) {
        return Ok(());
    }
    let text = format!(
        "UPDATE \"{}\".{MARKER} SET value = '{VERSION}' WHERE name = 'version' IF value = '{EARLIER}'",
        client.keyspace
    );
    let request = || client.session.query_unpaged(&*text, ());
    client.patience.once(request).await.map(drop)
}

/// Returns the error for a keyspace that is in use otherwise.
fn foreign(keyspace: &str) -> RowsError {
    RowsError::Rejected(format!(
        "the keyspace {keyspace}, which a retention class with its own replication needs, is in use otherwise; rename \
         the class, or use another keyspace"
    ))
}
