//! Statements.

use crate::cell::{Cell, Operator};
use crate::zone::Zone;
use regex::Regex;

/// Statement that can be answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Statement {
    /// Samples, or values computed from samples.
    Select(Box<Select>),
    /// Names of what the store contains.
    Show(Box<Show>),
    /// Creation or change of a database or of a retention policy, which has no effect.
    Create,
}

impl Statement {
    /// Returns the database that the statement names.
    pub fn database(&self) -> Option<&str> {
        match self {
            Statement::Select(query) => query.database.as_deref(),
            Statement::Show(query) => query.database.as_deref(),
            Statement::Create => None,
        }
    }
}

/// Query for samples.
#[derive(Clone, Debug)]
pub struct Select {
    /// Database that the statement names. Queries in parentheses have none of their own.
    pub database: Option<String>,
    /// Columns.
    pub fields: Vec<Column>,
    /// Measurements and queries that are read.
    pub sources: Vec<Source>,
    /// Condition on times, tags and fields.
    pub condition: Option<Expression>,
    /// Length and offset of the buckets, ns.
    pub every: Option<(i64, i64)>,
    /// Tags by which rows are grouped.
    pub dimensions: Vec<Dimension>,
    /// Value of buckets without samples.
    pub fill: Fill,
    /// True if the latest rows come first.
    pub descending: bool,
    /// Maximum number of rows of each table, and the number of rows that are left out before.
    pub rows: Window,
    /// Maximum number of tables, and the number of tables that are left out before.
    pub tables: Window,
    /// Time zone of buckets and dates; UTC without one.
    pub zone: Option<Zone>,
}

/// Part of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Maximum length; `None` for all.
    pub limit: Option<usize>,
    /// Number of items before the first.
    pub offset: usize,
}

impl Window {
    /// Returns the items of a list that are in the window.
    pub fn cut<T>(self, list: Vec<T>) -> Vec<T> {
        let limit = self.limit.unwrap_or(usize::MAX);
        match (self.offset, limit >= list.len()) {
            (0, true) => list,
            (offset, _) => list.into_iter().skip(offset).take(limit).collect(),
        }
    }

    /// Returns the number of items up to the end of the window, if there is an end.
    pub fn end(self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_add(self.offset))
    }
}

/// Column of a query.
#[derive(Clone, Debug)]
pub struct Column {
    /// Value.
    pub expression: Expression,
    /// Name, if given.
    pub name: Option<String>,
}

/// Source of a query.
#[derive(Clone, Debug)]
pub enum Source {
    /// Measurement with this name.
    Measurement(String),
    /// Measurements whose name contains a match.
    Matching(Regex),
    /// Result of a query.
    Query(Box<Select>),
}

/// Tags by which rows are grouped.
#[derive(Clone, Debug)]
pub enum Dimension {
    /// Tag with this name.
    Tag(String),
    /// Tags whose name contains a match.
    Matching(Regex),
    /// All tags.
    All,
}

/// Value of buckets without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fill {
    /// No value.
    #[default]
    Null,
    /// The bucket is left out.
    None,
    /// The value of the bucket before.
    Previous,
    /// A value on the line between the buckets before and after.
    Linear,
    /// A number.
    Number(f64),
}

/// Kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Field.
    Field,
    /// Tag.
    Tag,
}

/// Expression.
#[derive(Clone, Debug)]
pub enum Expression {
    /// Field or tag. Without a kind, a field is preferred.
    Name(String, Option<Kind>),
    /// All fields and tags, or all of a kind.
    All(Option<Kind>),
    /// Regular expression: fields and tags whose name contains a match, or the right side of `=~`.
    Regex(Regex),
    /// Constant.
    Constant(Cell),
    /// Duration, ns.
    Duration(i64),
    /// Function.
    Call(String, Vec<Expression>),
    /// Operator between two values.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// The left side contains a match of the right side; with `true`, it contains none.
    Matches(Box<Expression>, Regex, bool),
}

/// List of names.
#[derive(Clone, Debug)]
pub struct Show {
    /// Database that the statement names.
    pub database: Option<String>,
    /// Kind of names.
    pub list: List,
    /// Measurements, all if empty.
    pub sources: Vec<Source>,
    /// Condition on tags and times.
    pub condition: Option<Expression>,
    /// Part of the list.
    pub rows: Window,
}

/// Kind of names in a list.
#[derive(Clone, Debug)]
pub enum List {
    /// Databases.
    Databases,
    /// Retention policies.
    Policies,
    /// Measurements.
    Measurements,
    /// Names of tags.
    TagKeys,
    /// Values of tags.
    TagValues(Keys),
    /// Fields and their types.
    FieldKeys,
    /// Sources.
    Series,
    /// Number of sources.
    SeriesCount,
    /// Number of measurements.
    MeasurementCount,
}

/// Tags whose values are listed.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Tags with one of these names; with `true`, all others.
    Among(Vec<String>, bool),
    /// Tags whose name contains a match; with `true`, all others.
    Matching(Regex, bool),
}

impl Keys {
    /// Returns whether a tag is one of these.
    pub fn holds(&self, tag: &str) -> bool {
        match self {
            Keys::Among(names, others) => names.iter().any(|name| name == tag) != *others,
            Keys::Matching(regex, others) => regex.is_match(tag) != *others,
        }
    }
}
