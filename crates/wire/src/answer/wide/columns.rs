//! Columns of a wide answer, and their names.

use seiner_model::FieldType;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of columns of a wide answer. Every row of an Arrow answer takes memory for every column.
pub const MAX_COLUMNS: usize = 4096;

/// Contents of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Time of the row.
    Time,
    /// Measurement of the source.
    Measurement,
    /// Values of a tag.
    Tag,
    /// Values of a field.
    Field(FieldType),
}

impl Kind {
    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Measurement => "measurement",
            Kind::Tag => "tag",
            Kind::Field(_) => "field",
        }
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideColumn {
    /// Name in the answer, unique.
    pub title: String,
    /// Name of the tag or field; `time` or `measurement` for the first two columns.
    pub name: String,
    /// Contents of the column.
    pub kind: Kind,
}

/// Error for a selection with more than [`MAX_COLUMNS`] columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the selection has {0} columns, and an answer with shape=wide has at most {MAX_COLUMNS}; \
     choose one measurement by select=, or some fields by fields="
)]
pub struct TooManyColumns(usize);

/// Columns of an answer: `time`, `measurement`, the tags, and the fields. Clones share one list.
#[derive(Clone, Debug)]
pub struct WideColumns {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    columns: Vec<WideColumn>,
    /// Index of each tag among the tags.
    tags: HashMap<String, usize>,
    /// Index of each field among the fields, by type.
    fields: HashMap<FieldType, HashMap<String, usize>>,
}

impl WideColumns {
    /// Creates the columns. A field with several types has one column per type, called `name::type`. A tag or field
    /// whose name another column has already gets a suffix as well.
    ///
    /// # Errors
    /// [`TooManyColumns`].
    pub fn new(
        tags: &[String],
        fields: &[(String, FieldType)],
    ) -> Result<WideColumns, TooManyColumns> {
        let count = 2 + tags.len() + fields.len();
        if count > MAX_COLUMNS {
            return Err(TooManyColumns(count));
        }
        let mut titles = Titles::default();
        let mut columns = vec![
            titles.column("time", Kind::Time, false),
            titles.column("measurement", Kind::Measurement, false),
        ];
        columns.extend(tags.iter().map(|tag| titles.column(tag, Kind::Tag, false)));
        let mut types: HashMap<&str, usize> = HashMap::new();
        for (name, _) in fields {
            *types.entry(name).or_default() += 1;
        }
        let mut by_type: HashMap<FieldType, HashMap<String, usize>> = HashMap::new();
        for (at, (name, field_type)) in fields.iter().enumerate() {
            let several = types[name.as_str()] > 1;
            columns.push(titles.column(name, Kind::Field(*field_type), several));
            let of_type = by_type.entry(*field_type).or_default();
            of_type.insert(name.clone(), at);
        }
        let tags = tags.iter().cloned().zip(0..).collect();
        Ok(WideColumns {
            shared: Arc::new(Shared {
                columns,
                tags,
                fields: by_type,
            }),
        })
    }

    /// Returns all columns.
    pub fn all(&self) -> &[WideColumn] {
        &self.shared.columns
    }

    /// Returns the columns of the tags.
    pub fn tags(&self) -> &[WideColumn] {
        &self.shared.columns[2..2 + self.shared.tags.len()]
    }

    /// Returns the columns of the fields.
    pub fn fields(&self) -> &[WideColumn] {
        &self.shared.columns[2 + self.shared.tags.len()..]
    }

    /// Returns the index of a tag among the tags.
    pub fn tag_index(&self, name: &str) -> Option<usize> {
        self.shared.tags.get(name).copied()
    }

    /// Returns the index of a field among the fields.
    pub fn field_index(&self, name: &str, field_type: FieldType) -> Option<usize> {
        self.shared.fields.get(&field_type)?.get(name).copied()
    }
}

/// Titles of the columns so far.
#[derive(Default)]
struct Titles {
    taken: HashSet<String>,
}

impl Titles {
    fn column(&mut self, name: &str, kind: Kind, with_suffix: bool) -> WideColumn {
        let suffix = match kind {
            Kind::Field(field_type) => field_type.name(),
            other => other.name(),
        };
        let mut title = match with_suffix {
            true => format!("{name}::{suffix}"),
            false => name.to_string(),
        };
        while !self.taken.insert(title.clone()) {
            title = format!("{title}::{suffix}");
        }
        WideColumn {
            title,
            name: name.to_string(),
            kind,
        }
    }
}
