//! Series of a store that reads all sources of a query in one scan: one thread at a time takes sources from the scan,
//! and evaluates them while other threads take others.

use crate::budget::{Budget, Hold};
use crate::error::Error;
use crate::labels::LabelTexts;
use crate::metric::Pick;
use crate::notes::Notes;
use crate::pool;
use crate::run::Run;
use crate::source::{Found, Source, bytes, next_piece};
use seiner_store::{Piece, Results};
use std::sync::Arc;

/// Bytes of a source in memory, after which its evaluation begins.
const SOURCE_BYTES: usize = 4 << 20;
/// Bytes of one item of work for a thread.
const BATCH_BYTES: usize = 512 << 10;
/// Share of the bytes that a query may hold, as another bound of a source and of an item. A few items per thread are in
/// memory, which leaves most of the bytes to the results.
const SHARE: usize = 64;
/// Maximum number of sources of one item of work.
const BATCH_SOURCES: usize = 64;

/// Iterator that groups pieces to sources, and sources to batches. It evaluates the rows of large sources itself.
pub struct Batches<'q, R> {
    pieces: Option<Results<'q, Piece>>,
    /// First piece of the next source.
    next: Option<Piece>,
    notes: &'q Notes,
    budget: &'q Arc<Budget>,
    pick: &'q Pick,
    create: &'q (dyn Fn() -> Result<R, Error> + Sync),
    texts: LabelTexts,
}

/// Source with rows that its evaluations have not received.
pub struct Waiting<R> {
    source: Source<R>,
    pieces: Vec<Piece>,
    bytes: usize,
    /// Account of the pieces.
    hold: Hold,
}

impl<R: Run> Waiting<R> {
    /// Passes the rows in memory to the evaluations.
    fn push(&mut self) -> Result<(), Error> {
        for piece in self.pieces.drain(..) {
            self.source.push(&piece)?;
        }
        self.hold.shrink(self.bytes);
        self.bytes = 0;
        Ok(())
    }
}

impl<R: Run> Iterator for Batches<'_, R> {
    type Item = Result<Vec<Waiting<R>>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_SOURCES && bytes < self.at_most(BATCH_BYTES) {
            match self.source() {
                Ok(Some(source)) => {
                    bytes += source.bytes;
                    batch.push(source);
                }
                Ok(None) => break,
                Err(error) => {
                    self.pieces = None;
                    return Some(Err(error));
                }
            }
        }
        (!batch.is_empty()).then_some(Ok(batch))
    }
}

impl<'q, R: Run> Batches<'q, R> {
    /// Groups the pieces of a scan.
    pub fn new(
        pieces: Results<'q, Piece>,
        notes: &'q Notes,
        budget: &'q Arc<Budget>,
        pick: &'q Pick,
        create: &'q (dyn Fn() -> Result<R, Error> + Sync),
    ) -> Batches<'q, R> {
        Batches {
            pieces: Some(pieces),
            next: None,
            notes,
            budget,
            pick,
            create,
            texts: LabelTexts::new(),
        }
    }

    /// Evaluates all series, and passes them on in the order of the sources.
    pub fn read(
        mut self,
        threads: usize,
        consume: &mut dyn FnMut(Found) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let budget = self.budget;
        let work = |batch| finish(batch, budget);
        let Some(first) = self.next() else {
            return Ok(());
        };
        match self.next() {
            // A single batch is not worth threads.
            None => consume(work(first?)?),
            Some(second) => {
                let batches = [first, second].into_iter().chain(self);
                pool::ordered(batches, threads, work, consume)
            }
        }
    }

    /// Returns a number of bytes, or less if the query may hold few bytes.
    fn at_most(&self, bytes: usize) -> usize {
        bytes.min(self.budget.limits().bytes / SHARE)
    }

    /// Returns the next source.
    fn source(&mut self) -> Result<Option<Waiting<R>>, Error> {
        let first = match self.next.take() {
            Some(piece) => piece,
            None => match self.piece()? {
                Some(piece) => piece,
                None => return Ok(None),
            },
        };
        let mut waiting = Waiting {
            source: Source::new(&first, self.pick, self.create, &mut self.texts)?,
            pieces: Vec::new(),
            bytes: 0,
            hold: Hold::new(self.budget, 0)?,
        };
        let mut piece = Some(first);
        while let Some(current) = piece {
            if current.source != waiting.source.number {
                self.next = Some(current);
                break;
            }
            self.budget.read(waiting.source.samples(&current))?;
            let bytes = bytes(&current);
            waiting.hold.grow(bytes)?;
            waiting.bytes += bytes;
            waiting.pieces.push(current);
            if waiting.bytes >= self.at_most(SOURCE_BYTES) {
                waiting.push()?;
            }
            piece = self.piece()?;
        }
        Ok(Some(waiting))
    }

    fn piece(&mut self) -> Result<Option<Piece>, Error> {
        let Some(pieces) = &mut self.pieces else {
            return Ok(None);
        };
        let next = next_piece(pieces, self.notes, self.budget);
        if !matches!(next, Ok(Some(_))) {
            self.pieces = None;
        }
        next
    }
}

/// Evaluates the rest of the sources of a batch.
fn finish<R: Run>(batch: Vec<Waiting<R>>, budget: &Budget) -> Result<Found, Error> {
    let mut found = Vec::new();
    for mut waiting in batch {
        budget.check()?;
        waiting.push()?;
        waiting.source.finish(&mut found)?;
    }
    Ok(found)
}
