//! Answers.

use crate::cell::Cell;
use crate::zone::Zone;

/// Answer of one statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Tables of the answer: one for each measurement and each group of tags.
    pub tables: Vec<Table>,
    /// Time zone of dates, if the statement has one.
    pub zone: Option<Zone>,
    /// Warnings, such as data that could not be read.
    pub warnings: Vec<String>,
}

/// Table of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name, such as the measurement. Empty for tables without a name.
    pub name: String,
    /// Tags by which rows were grouped, sorted by name. An absent tag has an empty value.
    pub tags: Vec<(String, String)>,
    /// Names of the columns. If the first is `time`, the first value of each row is the time in ns.
    pub columns: Vec<String>,
    /// Rows, with as many values as columns. An absent value is null.
    pub rows: Vec<Vec<Option<Cell>>>,
}
