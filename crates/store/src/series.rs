//! Series that may have more samples than fit into memory.

use crate::answer::SeriesData;
use crate::error::Error;
use seiner_model::{Column, SourceKey};
use std::sync::Arc;

/// Items of an answer. An [`Error::Damage`] among them stands for unreadable data; the following
/// items are valid. Any other error is the last item.
pub type Results<'a, T> = Box<dyn Iterator<Item = Result<T, Error>> + Send + 'a>;

/// Part of a series: times in ns, strictly ascending over all parts, and the same number of values.
pub type Part = (Vec<i64>, Column);

/// Samples of one series.
pub enum Samples<'a> {
    /// All samples.
    Whole(SeriesData),
    /// Samples that are read from the store during use.
    Long(LongSeries<'a>),
}

/// Series that is read from the store in parts. It has at least one sample.
pub struct LongSeries<'a> {
    key: Arc<SourceKey>,
    field: Arc<str>,
    read: Box<dyn Fn() -> Results<'a, Part> + Send + 'a>,
}

impl<'a> LongSeries<'a> {
    /// Creates a series from its name and a function that begins to read it.
    pub fn new(
        key: Arc<SourceKey>,
        field: Arc<str>,
        read: impl Fn() -> Results<'a, Part> + Send + 'a,
    ) -> LongSeries<'a> {
        LongSeries {
            key,
            field,
            read: Box::new(read),
        }
    }

    /// Returns the measurement and tags.
    pub fn key(&self) -> &SourceKey {
        &self.key
    }

    /// Returns the name of the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Reads the samples from the beginning. Every call returns the same parts, as of the moment of
    /// the query.
    pub fn parts(&self) -> Results<'a, Part> {
        (self.read)()
    }
}
