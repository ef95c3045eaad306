//! Names of the sources of rows.

use super::gather::Texts;
use super::ranges::Rows;
use super::roles::{Measurement, Named, Roles};
use arrow_array::RecordBatch;
use seiner_model::SourceKey;
use std::collections::HashMap;
use std::ops::Range;

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

    /// Returns runs of neighbouring rows of one source, of all rows. The source of a run may be that of the run before.
    pub fn runs(&self, rows: usize) -> Vec<Range<u32>> {
        let mut changes = vec![false; rows];
        self.columns()
            .for_each(|texts| texts.mark_changes(&mut changes));
        let mut end = 0;
        let runs = changes.chunk_by(|_, change| !change).map(|run| {
            let begin = end;
            end += run.len() as u32;
            begin..end
        });
        runs.collect()
    }

    /// Returns the rows of each source, in the order of the sources' first rows. Each run has rows of one source.
    pub fn groups(&self, runs: impl IntoIterator<Item = Range<u32>>) -> Vec<Rows> {
        let mut groups: Vec<Rows> = Vec::new();
        let mut known: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
        for run in runs {
            let group = *known
                .entry(self.texts(run.start as usize))
                .or_insert_with(|| {
                    groups.push(Rows::default());
                    groups.len() - 1
                });
            groups[group].push(run);
        }
        groups
    }

    fn columns(&self) -> impl Iterator<Item = &Texts<'a>> {
        let measurement = self.measurement.as_ref().ok();
        measurement
            .into_iter()
            .chain(self.tags.iter().map(|(_, texts)| texts))
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
