//! Line protocol from a port into the store: the hot path.
//!
//! Bytes arrive in frames from the socket. Whole lines are parsed directly in the
//! frame; only a line that straddles two frames is copied. Rows go to the store in small
//! batches that stay in the processor's cache. No memory is allocated, and nothing is counted or logged, for a
//! single line.

use crate::intake::Lists;
use crate::traffic::ProtocolCounters;
use memchr::{memchr, memrchr};

use seiner_store::{Error, Receipt, Store};
use seiner_wire::line::{
    AddedTag, Arena, LineError, LineNotation, LineParser, LineReason, Precision,
};
use serde::Serialize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

/// Name of line protocol in metrics.
pub(crate) const PROTOCOL: &str = "line";

/// Maximum number of rows per call of the store. Writers take turns, and a turn lasts for one call: the more rows a
/// call has, the fewer threads sleep and wake. The rows and cells of a call still fit into the second-level cache.
pub(crate) const BATCH_ROWS: usize = 2048;

/// Maximum number of rejected lines that are listed.
pub(crate) const MAX_LISTED: usize = 100;

/// Rejected line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedLine {
    /// Number of the line in the text, from 1.
    pub line: u64,
    /// Reason, and the remedy.
    pub reason: String,
}

/// Result of a text.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of accepted rows.
    pub accepted: u64,
    /// Number of accepted samples.
    pub samples: u64,
    /// Number of rejected lines.
    pub rejected: u64,
    /// First rejected lines, in order.
    pub listed: Vec<RejectedLine>,
    /// Position for [`Store::wait_durable`]: when it is durable, all accepted rows are.
    pub position: u64,
}

/// Ingest of one text of line protocol, piece by piece, into a store.
pub struct LineIngest<'e> {
    store: &'e dyn Store,
    traffic: Option<&'e ProtocolCounters>,
    parser: LineParser,
    /// Tag that all lines get.
    tag: Option<AddedTag>,
    /// Beginning of a line whose end has not arrived yet.
    carry: Vec<u8>,
    /// Minimum length of the carry before it is parsed again. A text value with newlines can make
    /// one line of many, and parsing it again at each newline would take quadratic time.
    retry_at: usize,
    lists: Lists,
    arena: Arena,
    errors: Vec<LineError>,
    outcome: Outcome,
    /// Rows, samples and rejected lines that the counters include.
    reported: (u64, u64, u64),
}

impl<'e> LineIngest<'e> {
    /// Creates an ingest at line 1. Counts go to `traffic`, if given.
    pub fn new(
        store: &'e dyn Store,
        traffic: Option<&'e ProtocolCounters>,
        precision: Precision,
    ) -> LineIngest<'e> {
        LineIngest {
            store,
            traffic,
            parser: LineParser::new(precision),
            tag: None,
            carry: Vec::new(),
            retry_at: 0,
            lists: Lists::default(),
            arena: Arena::new(),
            errors: Vec::new(),
            outcome: Outcome::default(),
            reported: (0, 0, 0),
        }
    }

    /// Rejects lines that land in 1970 because their precision is missing; see
    /// [`LineParser::refuse_1970`].
    #[must_use]
    pub fn reject_1970(mut self, reject: bool) -> LineIngest<'e> {
        self.parser = self.parser.refuse_1970(reject);
        self
    }

    /// Gives each time the unit that its number suggests; see [`LineParser::guess_unit`].
    #[must_use]
    pub fn guess_unit(mut self, guess: bool) -> LineIngest<'e> {
        self.parser = self.parser.guess_unit(guess);
        self
    }

    /// Adds a tag to all lines.
    #[must_use]
    pub fn add_tag(mut self, tag: Option<AddedTag>) -> LineIngest<'e> {
        self.tag = tag;
        self
    }

    /// Parses the next bytes of the text.
    ///
    /// # Errors
    /// If the store accepts no more. Rejected lines are not an error, but part of the result.
    pub fn take(&mut self, frame: &[u8]) -> Result<(), Error> {
        let taken = self.take_frame(frame);
        self.report(frame.len());
        taken
    }

    fn take_frame(&mut self, frame: &[u8]) -> Result<(), Error> {
        let mut rest = frame;
        if !self.carry.is_empty() {
            let line_end = memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
            self.carry.extend_from_slice(&rest[..line_end]);
            rest = &rest[line_end..];
            self.read_carry(false)?;
            if !self.carry.is_empty() {
                self.carry.extend_from_slice(rest);
                return self.read_carry(false);
            }
        }
        let done = self.read(rest, false)?;
        self.carry.extend_from_slice(&rest[done..]);
        Ok(())
    }

    /// Parses the last line, if it had no newline, and returns the result of the text.
    ///
    /// # Errors
    /// The errors of [`LineIngest::take`].
    pub fn finish(mut self) -> Result<Outcome, Error> {
        self.retry_at = 0;
        let taken = if self.carry.is_empty() {
            Ok(())
        } else {
            self.read_carry(true)
        };
        self.report(0);
        taken.map(|()| self.outcome)
    }

    /// Parses a text that is complete, such as a datagram. The last line needs no newline.
    ///
    /// # Errors
    /// The errors of [`LineIngest::take`].
    pub fn whole(&mut self, text: &[u8]) -> Result<(), Error> {
        let taken = self.read(text, true).map(|_| ());
        self.parser.end_text();
        self.report(text.len());
        taken
    }

    /// Ends a text as [`LineIngest::end_lines`] does, and returns its result.
    ///
    /// # Errors
    /// The errors of [`LineIngest::take`].
    pub fn finish_lines(mut self) -> Result<Outcome, Error> {
        self.end_lines().map(|()| self.outcome)
    }

    /// Ends a text that may have been cut off anywhere. The last line is
    /// rejected if it has no newline: it may be the beginning of another value.
    ///
    /// # Errors
    /// The errors of [`LineIngest::take`].
    pub fn end_lines(&mut self) -> Result<(), Error> {
        self.retry_at = 0;
        let taken = self.read_carry(false);
        let carry = std::mem::take(&mut self.carry);
        let rest = carry.trim_ascii_start();
        if taken.is_ok() && !rest.is_empty() && !rest.starts_with(b"#") {
            self.errors.push(LineError {
                line: self.parser.line(),
                reason: LineReason::NoNewline,
            });
            self.note_rejected(Receipt::default());
        }
        self.report(0);
        taken
    }

    /// Returns the result of the text so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns the rejected lines that were listed since the last call.
    pub fn take_listed(&mut self) -> Vec<RejectedLine> {
        std::mem::take(&mut self.outcome.listed)
    }

    /// Adds new counts to the counters.
    fn report(&mut self, bytes: usize) {
        let Some(traffic) = self.traffic else { return };
        let (rows, samples, rejected) = self.reported;
        self.reported = (
            self.outcome.accepted,
            self.outcome.samples,
            self.outcome.rejected,
        );
        traffic.bytes.fetch_add(bytes as u64, Relaxed);
        traffic.rows.fetch_add(self.reported.0 - rows, Relaxed);
        traffic
            .samples
            .fetch_add(self.reported.1 - samples, Relaxed);
        traffic
            .rejected
            .fetch_add(self.reported.2 - rejected, Relaxed);
    }

    fn read_carry(&mut self, last: bool) -> Result<(), Error> {
        let has_line = last
            || memrchr(b'\n', &self.carry).is_some()
            || self.carry.len() > LineParser::MAX_LINE;
        if !has_line || self.carry.len() < self.retry_at {
            return Ok(());
        }
        let mut carry = std::mem::take(&mut self.carry);
        let done = self.read(&carry, last)?;
        carry.drain(..done);
        self.retry_at = if carry.is_empty() { 0 } else { 2 * carry.len() };
        self.carry = carry;
        Ok(())
    }

    /// Parses whole lines from the front of `text` into the store. Returns the number of bytes parsed.
    fn read(&mut self, text: &[u8], last: bool) -> Result<usize, Error> {
        let now = now();
        let mut done = 0;
        loop {
            let mut batch = self.lists.batch();
            let (arena, errors) = (&self.arena, &mut self.errors);
            done += self.parser.parse(
                &text[done..],
                last,
                now,
                BATCH_ROWS,
                arena,
                &mut batch,
                errors,
            );
            if let Some(tag) = &self.tag {
                tag.add(&mut batch, arena);
            }
            let full = batch.rows.len() >= BATCH_ROWS;
            let appended = if batch.rows.is_empty() {
                Ok(None)
            } else {
                self.store.append(&LineNotation, &batch).map(Some)
            };
            self.lists.take_back(batch);
            self.arena.clear();
            self.note(appended?);
            if !full {
                return Ok(done);
            }
        }
    }

    fn note(&mut self, receipt: Option<Receipt>) {
        let rejected = if let Some(receipt) = &receipt {
            self.outcome.accepted += receipt.rows as u64;
            self.outcome.samples += receipt.samples as u64;
            self.outcome.position = self.outcome.position.max(receipt.position);
            receipt.rejected_total
        } else {
            0
        };
        if rejected > 0 || !self.errors.is_empty() {
            self.note_rejected(receipt.unwrap_or_default());
        }
    }

    #[cold]
    fn note_rejected(&mut self, receipt: Receipt) {
        self.outcome.rejected += (self.errors.len() + receipt.rejected_total) as u64;
        let left = MAX_LISTED.saturating_sub(self.outcome.listed.len());
        let unread = self.errors.drain(..);
        let unread = unread.take(left).map(|error| RejectedLine {
            line: error.line,
            reason: error.reason.to_string(),
        });
        let mut rejected: Vec<RejectedLine> = unread.collect();
        for (row, reason) in receipt.rejected.into_iter().take(left) {
            rejected.push(RejectedLine {
                line: self.parser.line_of_row(row),
                reason: reason.to_string(),
            });
        }
        rejected.sort_by_key(|rejected| rejected.line);
        rejected.truncate(left);
        self.outcome.listed.append(&mut rejected);
    }
}

/// Returns the wall time in ns since 1970.
pub fn now() -> i64 {
    crate::time::wall()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i64)
}
