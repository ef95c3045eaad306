//! Series of a store that divides the sources of a query: each thread scans some sources and evaluates them, so that no
//! rows pass from one thread to another.

use crate::budget::{Budget, Hold};
use crate::error::Error;
use crate::labels::LabelTexts;
use crate::metric::Pick;
use crate::notes::Notes;
use crate::pool;
use crate::run::Run;
use crate::source::{Found, Source, bytes, next_piece};
use seiner_store::Parts;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of sources that are evaluated first, to estimate the work on the others.
const FIRST_SOURCES: usize = 16;
/// Share of the sources that are evaluated first.
const FIRST_SHARE: usize = 8;
/// Minimum number of samples for which threads are begun: about a millisecond of work.
const THREAD_SAMPLES: usize = 100_000;
/// Number of samples that are decoded in the time in which a source is found.
const SAMPLES_PER_SOURCE: usize = 200;
/// Samples of one item of work, about two milliseconds: a thread that waits for an item should not wait for long, and
/// items should be few.
const PART_SAMPLES: usize = 200_000;
/// Number of series after which the time and the reader of a query are examined.
const CHECKED: usize = 16;
/// Approximate bytes of the values that one item of work results in.
const PART_BYTES: usize = 512 << 10;
/// Share of the bytes that a query may hold, as another bound of the results of an item.
const SHARE: usize = 64;

/// Sources of a query, and the evaluation of their series.
pub struct Divided<'q, R> {
    /// Sources.
    pub parts: &'q dyn Parts,
    /// Notes of the query.
    pub notes: &'q Notes,
    /// Budget of the query.
    pub budget: &'q Arc<Budget>,
    /// Fields.
    pub pick: &'q Pick,
    /// Creates the evaluation of a series.
    pub create: &'q (dyn Fn() -> Result<R, Error> + Sync),
}

/// Series of some sources.
#[derive(Default)]
struct Evaluated {
    found: Found,
    /// Number of samples that were read.
    samples: usize,
}

impl<R: Run> Divided<'_, R> {
    /// Evaluates all series on up to `threads` threads, and passes them on in the order of the sources.
    pub fn read(
        &self,
        threads: usize,
        consume: &mut dyn FnMut(Found) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let sources = self.parts.sources();
        let first = (sources / FIRST_SHARE).clamp(1, FIRST_SOURCES).min(sources);
        let evaluated = self.evaluate(0..first)?;
        let per_source = evaluated.samples / first.max(1) + SAMPLES_PER_SOURCE;
        let values = evaluated.found.iter().map(|(_, values)| values.bytes());
        let bytes = values.sum::<usize>() / first.max(1);
        consume(evaluated.found)?;
        let threads = match per_source.saturating_mul(sources - first) < THREAD_SAMPLES {
            true => 1,
            false => threads,
        };
        let most = PART_BYTES.min(self.budget.limits().bytes / SHARE);
        let len = (most / bytes.max(1)).min(PART_SAMPLES / per_source).max(1);
        let starts = (first..sources).step_by(len);
        let parts = starts.map(|start| Ok(start..(start + len).min(sources)));
        let work = |part| Ok(self.evaluate(part)?.found);
        pool::ordered(parts, threads, work, consume)
    }

    /// Evaluates the series of some sources.
    fn evaluate(&self, sources: Range<usize>) -> Result<Evaluated, Error> {
        let mut evaluated = Evaluated::default();
        let mut pieces = self.parts.scan(sources);
        let mut current: Option<Source<R>> = None;
        let mut texts = LabelTexts::new();
        while let Some(piece) = next_piece(&mut pieces, self.notes, self.budget)? {
            let _rows = Hold::new(self.budget, bytes(&piece))?;
            let source = match current.take() {
                Some(source) if source.number == piece.source => source,
                earlier => {
                    self.finish(earlier, &mut evaluated.found)?;
                    Source::new(&piece, self.pick, self.create, &mut texts)?
                }
            };
            let source = current.insert(source);
            let samples = source.samples(&piece);
            self.budget.read(samples)?;
            evaluated.samples += samples;
            source.push(&piece)?;
        }
        self.finish(current, &mut evaluated.found)?;
        // A scan that was abandoned ends without some of the sources.
        self.budget.check()?;
        Ok(evaluated)
    }

    fn finish(&self, source: Option<Source<R>>, found: &mut Found) -> Result<(), Error> {
        if found.len().is_multiple_of(CHECKED) {
            self.budget.check()?;
        }
        source.map_or(Ok(()), |source| source.finish(found))
    }
}
