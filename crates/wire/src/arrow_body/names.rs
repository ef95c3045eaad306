//! Names of the sources of rows.

use super::gather::Texts;
use super::roles::{Measurement, Named, Roles};
use arrow_array::RecordBatch;
use seiner_model::SourceKey;
use std::collections::HashMap;

/// Columns that name the source of a row.
pub struct Names<'a> {
    /// Column of measurements, or the measurement of all rows.
    pub measurement: Result<Texts<'a>, &'a str>,
    /// Names of tags with their columns.
    pub tags: Vec<(&'a str, Texts<'a>)>,
}

impl<'a> Names<'a> {
    /// Finds the columns of names.
    pub fn new(batch: &'a RecordBatch, roles: &'a Roles) -> Names<'a> {
        let texts = |column: usize| Texts::new(batch.column(column).as_ref());
        let tags = roles.tags.iter();
        Names {
            measurement: match &roles.measurement {
                Measurement::Column(column) => Ok(texts(*column)),
                Measurement::Text(text) => Err(text),
            },
            tags: tags
                .map(|Named { name, column }| (name.as_str(), texts(*column)))
                .collect(),
        }
    }

    /// Returns the rows of each source, in the order of the sources' first rows.
    pub fn groups(&self, rows: &[u32]) -> Vec<Vec<u32>> {
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut known: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
        let mut current = 0;
        let mut last = None;
        for &number in rows {
            let row = number as usize;
            if last.is_none_or(|last| !self.is_same(row, last)) {
                current = *known.entry(self.texts(row)).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
            }
            groups[current].push(number);
            last = Some(row);
        }
        groups
    }

    /// Returns the number of runs of neighbouring rows of one source.
    pub fn runs(&self, rows: usize) -> usize {
        1 + (1..rows).filter(|row| !self.is_same(*row, row - 1)).count()
    }

    fn columns(&self) -> impl Iterator<Item = &Texts<'a>> {
        let measurement = self.measurement.as_ref().ok();
        measurement
            .into_iter()
            .chain(self.tags.iter().map(|(_, texts)| texts))
    }

    fn is_same(&self, row: usize, other: usize) -> bool {
        self.columns().all(|texts| texts.is_same(row, other))
    }

    fn texts(&self, row: usize) -> Vec<Option<&'a str>> {
        self.columns().map(|texts| texts.get(row)).collect()
    }

    /// Returns the source of a row, or why it has none.
    pub fn key(&self, row: usize) -> Result<SourceKey, String> {
        let measurement = match &self.measurement {
            Ok(texts) => texts.get(row).ok_or("the row has no measurement")?,
            Err(text) => text,
        };
        let tags = self.tags.iter();
        let tags = tags.filter_map(|(name, texts)| Some((*name, texts.get(row)?)));
        SourceKey::new(measurement, tags).map_err(|error| error.to_string())
    }
}
