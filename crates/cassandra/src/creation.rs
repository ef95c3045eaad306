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

impl Client {
    /// Creates the tables that do not exist yet, and their keyspaces.
    pub(crate) async fn create(&self, specs: &[TableSpec]) -> Result<(), RowsError> {
        // All names are checked before the first one is created.
        let form = self.form();
        let mut spaces = Spaces::new();
        for spec in specs {
            create_table(&self.keyspace, spec, form)?;
            let (keyspace, _) = self.place(spec)?;
            spaces.insert(keyspace, spec.copies);
        }
        for (keyspace, copies) in &spaces {
            if *keyspace != self.keyspace {
                self.create_space(keyspace, copies.unwrap_or(1)).await?;
            }
        }
        let mut existing = BTreeMap::new();
        for keyspace in spaces.into_keys() {
            let found = tables(self, &keyspace).await?;
            existing.insert(keyspace, found);
        }
        for spec in specs {
            let (keyspace, name) = self.place(spec)?;
            if !existing[&keyspace].iter().any(|table| table == name) {
                let text = create_table(&self.keyspace, spec, form)?;
                self.change_schema(&text).await.map_err(explain)?;
            }
        }
        for spec in specs {
            let (keyspace, name) = self.place(spec)?;
            let text = format!(
                "SELECT column_name, kind, position, type FROM system_schema.columns \
                 WHERE keyspace_name = '{keyspace}' AND table_name = '{name}'"
            );
            let columns: Vec<Column> = self.select(&text, Level::One).await?;
            check_columns(&spec.name, columns)?;
        }
        self.upgrade().await
    }

    fn place<'t>(&self, spec: &'t TableSpec) -> Result<(String, &'t str), RowsError> {
        place_of(&self.keyspace, &spec.name).map_err(RowsError::Rejected)
    }

    /// Creates a keyspace for the tables of a class, unless it exists. An existing keyspace keeps its copies.
    async fn create_space(&self, keyspace: &str, copies: u32) -> Result<(), RowsError> {
        if self.owns(keyspace).await? {
            return Ok(());
        }
        let text = create_keyspace(keyspace, copies as usize, &datacenters(self));
        self.change_schema(&text).await?;
        self.change_schema(&create_marker(keyspace)).await?;
        mark(self, keyspace, OWNER, &self.keyspace).await;
        mark(self, keyspace, "version", VERSION).await;
        match self.owns(keyspace).await? {
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
    async fn owns(&self, keyspace: &str) -> Result<bool, RowsError> {
        let found = tables(self, keyspace).await?;
        if found.is_empty() {
            return Ok(false);
        }
        let levels = [Level::One, Level::Quorum];
        let owner = match found.iter().any(|table| table == MARKER) {
            true => marked(self, keyspace, OWNER, &levels).await?,
            false => None,
        };
        match owner {
            Some(owner) if owner == self.keyspace => Ok(true),
            None if found == [MARKER] => {
                // An interrupted creation has no version yet.
                match marked(self, keyspace, "version", &levels).await? {
                    None => Ok(false),
                    Some(_) => Err(foreign(keyspace)),
                }
            }
            _ => Err(foreign(keyspace)),
        }
    }

    /// Raises the version of a keyspace of the earlier version.
    async fn upgrade(&self) -> Result<(), RowsError> {
        if version(self).await?.as_deref() != Some(EARLIER) {
            return Ok(());
        }
        let text = format!(
            "UPDATE \"{}\".{MARKER} SET value = '{VERSION}' WHERE name = 'version' IF value = '{EARLIER}'",
            self.keyspace
        );
        let request = self.session.query_unpaged(text, ());
        self.patience.once(request).await.map(drop)
    }
}

/// Returns the error for a keyspace that is in use otherwise.
fn foreign(keyspace: &str) -> RowsError {
    RowsError::Rejected(format!(
        "the keyspace {keyspace}, which a retention class with its own replication needs, is in use otherwise; rename \
         the class, or use another keyspace"
    ))
}
