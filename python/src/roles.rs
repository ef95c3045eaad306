//! Roles of columns: time, measurement, tags, fields.

use crate::failure::{Failure, invalid};
use arrow_schema::{DataType, Field, Schema};
use std::collections::HashSet;

/// Roles that the caller gives to columns.
pub struct Roles {
    /// Name of the time column.
    pub time: String,
    /// Measurement of all rows. `None` if a column contains it.
    pub measurement: Option<String>,
    /// Columns of the tags.
    pub tags: Tags,
    /// Names of the field columns; `None` for all columns without another role.
    pub fields: Option<Vec<String>>,
}

/// Columns of the tags.
pub enum Tags {
    /// Columns with these names; none for rows of one source.
    Named(Vec<String>),
    /// All dictionaries of texts, unless the metadata `kind` of a column differs. The metadata `name` of a column
    /// replaces its title.
    Dictionaries,
}

/// Column of a tag or field.
pub struct Named {
    /// Name of the tag or field.
    pub name: String,
    /// Index of the column.
    pub at: usize,
}

/// Columns of a schema, by role.
pub struct Columns {
    /// Index of the time column.
    pub time: usize,
    /// Column of the measurement, if the rows do not share one.
    pub measurement: Option<Named>,
    /// Tags, sorted by name.
    pub tags: Vec<Named>,
    /// Fields.
    pub fields: Vec<Named>,
}

impl Roles {
    /// Finds the columns of a schema.
    ///
    /// # Errors
    /// If a column is missing, or has several meanings.
    pub fn columns(&self, schema: &Schema) -> Result<Columns, Failure> {
        check_titles(schema)?;
        let time = index(schema, &self.time)?;
        let measurement = self.measurement_column(schema)?;
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        for (at, column) in schema.fields().iter().enumerate() {
            if at == time || measurement == Some(at) {
                continue;
            }
            let is_listed = (self.fields.as_ref()).map(|fields| fields.contains(column.name()));
            let (name, may_be_field) = match &self.tags {
                Tags::Named(_) => (column.name(), false),
                Tags::Dictionaries => {
                    let name = metadata(column, "name").unwrap_or(column.name());
                    (name, is_listed == Some(true))
                }
            };
            let named = Named {
                name: name.to_string(),
                at,
            };
            match self.is_tag(column) {
                true if !may_be_field => tags.push(named),
                _ if is_listed != Some(false) => fields.push(named),
                _ => {}
            }
        }
        self.check_names(schema)?;
        tags.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = tags.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return invalid(format!(
                "two columns are the tag {:?}; leave one of them out",
                pair[0].name
            ));
        }
        if fields.is_empty() {
            return invalid(format!(
                "no column is left to be a field; there are {}",
                titles(schema)
            ));
        }
        Ok(Columns {
            time,
            measurement: measurement.map(|at| Named {
                name: "measurement".to_string(),
                at,
            }),
            tags,
            fields,
        })
    }

    fn is_tag(&self, column: &Field) -> bool {
        match &self.tags {
            Tags::Named(names) => names.contains(column.name()),
            Tags::Dictionaries => match metadata(column, "kind") {
                Some(kind) => kind == "tag",
                None => {
                    matches!(column.data_type(), DataType::Dictionary(_, values) if values.is_string())
                }
            },
        }
    }

    /// Returns the index of the column with the measurement, if a column has it.
    fn measurement_column(&self, schema: &Schema) -> Result<Option<usize>, Failure> {
        let is_one = |column: &Field| match metadata(column, "kind") {
            Some(kind) => kind == "measurement",
            None => column.name() == "measurement",
        };
        let mut columns = schema.fields().iter();
        let found = columns.position(|column| is_one(column));
        match (&self.measurement, &self.tags, found) {
            (None, _, None) => invalid(format!(
                "there is no column \"measurement\" among {}; add one, or name the measurement of all rows",
                titles(schema)
            )),
            (None, _, Some(at)) => Ok(Some(at)),
            (Some(name), Tags::Dictionaries, Some(at)) => invalid(format!(
                "column {:?} and the argument {name:?} are both the measurement; pass None, or leave the column out",
                schema.field(at).name()
            )),
            (Some(_), _, _) => Ok(None),
        }
    }

    /// Checks that all columns exist that the caller names.
    fn check_names(&self, schema: &Schema) -> Result<(), Failure> {
        let tags = match &self.tags {
            Tags::Named(names) => names.as_slice(),
            Tags::Dictionaries => &[],
        };
        for name in tags.iter().chain(self.fields.iter().flatten()) {
            index(schema, name)?;
        }
        Ok(())
    }
}

/// Checks that no two columns have the same title.
fn check_titles(schema: &Schema) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    let mut again = schema.fields().iter().map(|field| field.name());
    match again.find(|name| !seen.insert(*name)) {
        Some(name) => invalid(format!(
            "column {name:?} stands more than once; rename or drop one of them"
        )),
        None => Ok(()),
    }
}

fn metadata<'a>(field: &'a Field, key: &str) -> Option<&'a String> {
    field.metadata().get(key)
}

fn index(schema: &Schema, name: &str) -> Result<usize, Failure> {
    match schema.column_with_name(name) {
        Some((at, _)) => Ok(at),
        None => invalid(format!(
            "there is no column {name:?} among {}",
            titles(schema)
        )),
    }
}

fn titles(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let titles: Vec<String> = fields.map(|field| format!("{:?}", field.name())).collect();
    titles.join(", ")
}
