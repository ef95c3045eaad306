//! Lines with one sample each, from a stream, a datagram or a list into the store.

use crate::ingest::{BATCH_ROWS, MAX_LISTED, Outcome, RejectedLine, now};
use crate::intake::Lists;
use crate::text::TextIngest;
use crate::traffic::ProtocolCounters;
use memchr::{memchr, memrchr};
use seiner_model::Batch;
use seiner_store::{Error, Receipt, Store};
use seiner_wire::Skipped;
use seiner_wire::line::{Arena, LineNotation};
use std::sync::atomic::Ordering::Relaxed;

/// Maximum length of a line in bytes. A name has at most 16 KiB.
const MAX_LINE: usize = 32 << 10;

/// Decoder of a line. The number is the time `now` in ns.
type Decode<'s> = Box<
    dyn for<'b> Fn(&'b [u8], i64, &'b Arena, &mut Batch<'b>) -> Result<(), Skipped> + Send + 's,
>;

/// Ingest of lines by a decoder.
pub struct RowLines<'s> {
    store: &'s dyn Store,
    counters: &'s ProtocolCounters,
    decode: Decode<'s>,
    /// Beginning of a line whose end has not arrived yet.
    carry: Vec<u8>,
    /// True while the rest of a line that is too long is skipped.
    skipping: bool,
    /// Number of lines so far.
    line: u64,
    lists: Lists,
    arena: Arena,
    /// Line of each row of the batch.
    lines: Vec<u64>,
    outcome: Outcome,
}

impl<'s> RowLines<'s> {
    /// Creates an ingest at line 1.
    pub fn new(
        store: &'s dyn Store,
        counters: &'s ProtocolCounters,
        decode: impl for<'b> Fn(&'b [u8], i64, &'b Arena, &mut Batch<'b>) -> Result<(), Skipped>
        + Send
        + 's,
    ) -> RowLines<'s> {
        RowLines {
            store,
            counters,
            decode: Box::new(decode),
            carry: Vec::new(),
            skipping: false,
            line: 0,
            lists: Lists::default(),
            arena: Arena::new(),
            lines: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// Stores lines. The last one needs no newline.
    fn read(&mut self, text: &[u8]) -> Result<(), Error> {
        let now = now();
        let mut lines = Lines(text);
        while self.batch(&mut lines, now)? {}
        Ok(())
    }

    /// Stores records that are not lines of a text. They are numbered as lines are.
    ///
    /// # Errors
    /// If the store accepts no more.
    pub fn records(&mut self, records: &[&[u8]]) -> Result<(), Error> {
        let now = now();
        let mut records = records.iter().copied();
        while self.batch(&mut records, now)? {}
        Ok(())
    }

    /// Stores the lines of one batch. Returns true if the batch is full, so that there may be other lines.
    fn batch<'t>(
        &mut self,
        lines: &mut impl Iterator<Item = &'t [u8]>,
        now: i64,
    ) -> Result<bool, Error> {
        let mut batch = self.lists.batch();
        let mut rejected = Vec::new();
        let mut ignored = 0;
        self.lines.clear();
        let is_full = loop {
            if batch.rows.len() >= BATCH_ROWS || rejected.len() >= BATCH_ROWS {
                break true;
            }
            let Some(line) = lines.next() else {
                break false;
            };
            self.line += 1;
            let decoded = match line.len() > MAX_LINE {
                true => Err(too_long()),
                false => (self.decode)(line, now, &self.arena, &mut batch),
            };
            match decoded {
                Ok(()) => self.lines.resize(batch.rows.len(), self.line),
                Err(Skipped::NotANumber) => ignored += 1,
                Err(Skipped::Rejected(reason)) => rejected.push(RejectedLine {
                    line: self.line,
                    reason,
                }),
            }
        };
        let appended = match batch.rows.is_empty() {
            true => Ok(Receipt::default()),
            false => self.store.append(&LineNotation, &batch),
        };
        self.lists.take_back(batch);
        self.arena.clear();
        self.counters.ignored.fetch_add(ignored, Relaxed);
        self.note(appended, rejected)?;
        Ok(is_full)
    }

    fn note(
        &mut self,
        appended: Result<Receipt, Error>,
        mut rejected: Vec<RejectedLine>,
    ) -> Result<(), Error> {
        let mut number = rejected.len();
        let appended = appended.map(|receipt| {
            number += receipt.rejected_total;
            self.outcome.accepted += receipt.rows as u64;
            self.outcome.samples += receipt.samples as u64;
            self.outcome.position = self.outcome.position.max(receipt.position);
            self.counters.rows.fetch_add(receipt.rows as u64, Relaxed);
            let samples = receipt.samples as u64;
            self.counters.samples.fetch_add(samples, Relaxed);
            rejected.extend(receipt.rejected.iter().map(|(row, reason)| RejectedLine {
                line: self.lines[*row],
                reason: reason.to_string(),
            }));
        });
        self.outcome.rejected += number as u64;
        self.counters.rejected.fetch_add(number as u64, Relaxed);
        rejected.sort_by_key(|rejected| rejected.line);
        rejected.truncate(MAX_LISTED.saturating_sub(self.outcome.listed.len()));
        self.outcome.listed.append(&mut rejected);
        appended
    }

    fn reject(&mut self, reason: impl Into<String>) -> Result<(), Error> {
        self.line += 1;
        let rejected = RejectedLine {
            line: self.line,
            reason: reason.into(),
        };
        self.note(Ok(Receipt::default()), vec![rejected])
    }

    fn count_bytes(&self, bytes: usize) {
        self.counters.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Keeps the beginning of a line, unless the line is too long.
    fn keep(&mut self, begin: &[u8]) -> Result<(), Error> {
        if self.skipping || begin.is_empty() {
            return Ok(());
        }
        if self.carry.len() + begin.len() <= MAX_LINE {
            self.carry.extend_from_slice(begin);
            return Ok(());
        }
        self.skipping = true;
        self.carry.clear();
        let Skipped::Rejected(reason) = too_long() else {
            return Ok(());
        };
        self.reject(reason)
    }
}

/// Lines of a text, without their newlines. The last one needs none.
struct Lines<'t>(&'t [u8]);

impl<'t> Iterator for Lines<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let (line, rest) = match memchr(b'\n', self.0) {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        Some(line)
    }
}

impl TextIngest for RowLines<'_> {
    fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.count_bytes(piece.len());
        let Some(last) = memrchr(b'\n', piece) else {
            return self.keep(piece);
        };
        let mut lines = &piece[..=last];
        if self.skipping || !self.carry.is_empty() {
            let first = memchr(b'\n', lines).map_or(lines.len(), |end| end + 1);
            if !std::mem::take(&mut self.skipping) {
                let mut carry = std::mem::take(&mut self.carry);
                carry.extend_from_slice(&lines[..first]);
                self.read(&carry)?;
                carry.clear();
                self.carry = carry;
            }
            lines = &lines[first..];
        }
        self.read(lines)?;
        self.keep(&piece[last + 1..])
    }

    fn end(&mut self) -> Result<(), Error> {
        let carry = std::mem::take(&mut self.carry);
        match carry.trim_ascii().is_empty() {
            true => Ok(()),
            false => self.reject(
                "the line has no newline at its end, so that the end of it may be missing; end each line with one",
            ),
        }
    }

    fn whole(&mut self, text: &[u8]) -> Result<(), Error> {
        self.count_bytes(text.len());
        self.read(text)
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn take_listed(&mut self) -> Vec<RejectedLine> {
        std::mem::take(&mut self.outcome.listed)
    }
}

fn too_long() -> Skipped {
    Skipped::Rejected(format!("the line is longer than {MAX_LINE} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_store::MemoryStore;
    use seiner_wire::graphite::decode_line;

    fn ingest<'s>(store: &'s MemoryStore, counters: &'s ProtocolCounters) -> RowLines<'s> {
        RowLines::new(store, counters, decode_line)
    }

    #[test]
    fn pieces_give_the_same_rows_as_the_whole() {
        let text = b"a 1 1\nb nan 1\nbad\n\nc;t=u 2 2\nd 3 3\n";
        for len in 1..text.len() {
            let (store, counters) = (MemoryStore::new(), ProtocolCounters::default());
            let mut ingest = ingest(&store, &counters);
            for piece in text.chunks(len) {
                ingest.take(piece).unwrap();
            }
            ingest.end().unwrap();
            let outcome = ingest.outcome();
            assert_eq!((outcome.accepted, outcome.rejected), (3, 1), "{len}");
            assert_eq!(outcome.listed[0].line, 3);
            assert_eq!(counters.ignored.load(Relaxed), 1);
            assert_eq!(counters.bytes.load(Relaxed), text.len() as u64);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_stored() {
        let (store, counters) = (MemoryStore::new(), ProtocolCounters::default());
        let mut ingest = ingest(&store, &counters);
        for _ in 0..10 {
            ingest.take(&[b'x'; 10_000]).unwrap();
        }
        ingest.take(b"x 1 1\na 1 1\nb 1").unwrap();
        ingest.end().unwrap();
        assert_eq!(ingest.outcome().accepted, 1);
        let lines: Vec<u64> = ingest.take_listed().iter().map(|line| line.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn a_datagram_needs_no_newline_and_is_not_joined_with_the_next() {
        let (store, counters) = (MemoryStore::new(), ProtocolCounters::default());
        let mut ingest = ingest(&store, &counters);
        ingest.whole(b"a 1 1\nb 1 1").unwrap();
        ingest.whole(b"c 1 1").unwrap();
        assert_eq!(ingest.outcome().accepted, 3);
    }
}
