//! Series of a query for readers that use one series after the other, in bounded memory.
//!
//! The series of a small source are in memory. Those of other sources are read field by field, when they are used.

use crate::error::Error;
use crate::query::scan::{Scan, SourceScan};
use seiner_store::{LongSeries, Part, Results, Samples};
use std::collections::VecDeque;
use std::sync::Arc;

/// Series of a scan, source by source, field by field.
pub(crate) struct SeriesScan<'a> {
    scan: Scan<'a>,
    ready: VecDeque<Result<Next<'a>, Error>>,
}

enum Next<'a> {
    Found(Samples<'a>),
    /// A field that may have no samples.
    Field(Arc<SourceScan<'a>>, Arc<str>),
}

impl<'a> SeriesScan<'a> {
    pub fn new(scan: Scan<'a>) -> SeriesScan<'a> {
        SeriesScan {
            scan,
            ready: VecDeque::new(),
        }
    }

    fn add(&mut self, mut source: SourceScan<'a>) -> Result<(), Error> {
        if source.is_small() {
            let (damages, series) = source.into_series()?;
            self.ready.extend(damages.into_iter().map(Err));
            let series = series.into_iter().map(Samples::Whole);
            self.ready.extend(series.map(Next::Found).map(Ok));
            return Ok(());
        }
        self.ready.extend(source.take_damage().map(Err));
        let source = Arc::new(source);
        for (field, _) in source.fields() {
            self.ready.push_back(Ok(Next::Field(source.clone(), field)));
        }
        Ok(())
    }
}

impl<'a> Iterator for SeriesScan<'a> {
    type Item = Result<Samples<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let added = match self.ready.pop_front() {
                Some(Ok(Next::Found(samples))) => return Some(Ok(samples)),
                Some(Ok(Next::Field(source, field))) => self.look_at(source, field),
                Some(Err(error)) => return Some(Err(error)),
                None => self.scan.next_source()?.and_then(|source| self.add(source)),
            };
            if let Err(error) = added {
                return Some(Err(error));
            }
        }
    }
}

impl<'a> SeriesScan<'a> {
    /// Adds a field if it has samples. Reads up to the first sample. Without any sample, the damage
    /// is returned.
    fn look_at(&mut self, source: Arc<SourceScan<'a>>, field: Arc<str>) -> Result<(), Error> {
        let mut damages = Vec::new();
        for part in parts(&source, &field) {
            match part {
                Ok(_) => {
                    let key = source.key().clone();
                    let name = field.clone();
                    let long = LongSeries::new(key, name, move || -> Results<'a, Part> {
                        Box::new(parts(&source, &field))
                    });
                    self.ready.push_front(Ok(Next::Found(Samples::Long(long))));
                    return Ok(());
                }
                Err(damage @ Error::Damage { .. }) => damages.push(damage),
                Err(error) => return Err(error),
            }
        }
        for damage in damages.into_iter().rev() {
            self.ready.push_front(Err(damage));
        }
        Ok(())
    }
}

fn parts<'a>(
    source: &SourceScan<'a>,
    field: &str,
) -> impl Iterator<Item = Result<Part, Error>> + use<'a> {
    let pieces = source.pieces_of(field);
    pieces.filter_map(|piece| match piece {
        Ok(piece) => {
            let column = piece.fields.into_iter().next()?.column?;
            Some(Ok((piece.times, column.values)))
        }
        Err(error) => Some(Err(error)),
    })
}
