//! Select: whole series of a query, for callers whose memory can hold them.

use crate::answer::SeriesData;
use crate::block::present_rows;
use crate::error::Error;
use crate::query::rows::Rows;
use crate::query::scan::{Scan, SourceScan};
use seiner_store::IsOver;
use std::collections::VecDeque;

/// Series of a query, source by source, field by field.
pub struct Select<'a> {
    scan: Scan<'a>,
    ready: VecDeque<Result<SeriesData, Error>>,
}

impl<'a> Select<'a> {
    pub(super) fn new(scan: Scan<'a>) -> Select<'a> {
        Select {
            scan,
            ready: VecDeque::new(),
        }
    }

    /// Ends the iterator early when `is_over` returns true: without another item, or with
    /// [`Error::Abandoned`].
    pub fn until(self, is_over: IsOver) -> Self {
        Select {
            scan: self.scan.until(is_over),
            ..self
        }
    }

    /// Sets the number of threads that read and decode.
    pub fn threads(self, threads: usize) -> Self {
        Select {
            scan: self.scan.threads(threads),
            ..self
        }
    }
}

impl Iterator for Select<'_> {
    type Item = Result<SeriesData, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            match self.scan.next_source()?.and_then(SourceScan::into_series) {
                Ok((damages, series)) => {
                    self.ready.extend(damages.into_iter().map(Err));
                    self.ready.extend(series.into_iter().map(Ok));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl SourceScan<'_> {
    /// Returns damage, and the series with samples, all of them in memory.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Abandoned`].
    pub fn into_series(self) -> Result<(Vec<Error>, Vec<SeriesData>), Error> {
        let (damages, source, rows) = self.into_rows()?;
        let Rows { times, mut fields } = rows;
        let mut series = Vec::new();
        for column in source.own.wanted_columns() {
            let Some(field) = fields.get_mut(column).and_then(Option::take) else {
                continue;
            };
            let times: Vec<i64> = match &field.present {
                None => times.clone(),
                present => present_rows(&times, present).collect(),
            };
            if times.is_empty() {
                continue;
            }
            series.push(SeriesData {
                source: source.own.source,
                key: source.own.key.clone(),
                field: source.own.names()[column].clone(),
                times,
                values: field.values,
            });
        }
        Ok((damages, series))
    }
}
