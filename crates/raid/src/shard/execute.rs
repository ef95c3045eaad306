//! Work on a stripe: reads missing blocks, computes, writes.

use super::{MemberState, Shard, Ticket};
use crate::block::Block;
use crate::geometry::Level;
use crate::grid::{CellRange, Grid, GridPlan};
use crate::request::{Action, Failure, Nanos, Outcome};
use crate::stripe::{Execution, Purpose, StripeJob, WritePart};

impl<B: Block> Shard<B> {
    /// Begins an execution on a stripe, for a write or a job.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        since: Nanos,
        number: u64,
        purpose: Purpose<B>,
        full: bool,
    ) {
        let rows = match &purpose {
            Purpose::Write(parts) => self.rows_of(
                parts
                    .iter()
                    .map(|part| (part.first, part.data.len() as u32)),
            ),
            Purpose::Job(StripeJob::Read { first, blocks, .. }) => {
                self.rows_of([(*first, *blocks)])
            }
            Purpose::Job(StripeJob::Trim { .. }) => 0..0,
            Purpose::Job(_) => 0..self.geometry.rows(),
        };
        let mut grid = Grid::new(self.geometry, rows.start, rows.end - rows.start, |column| {
            !self.readable(number, column)
        });
        match &purpose {
            Purpose::Write(parts) => self.fill_in(&mut grid, parts),
            Purpose::Job(StripeJob::Read { first, blocks, .. }) => {
                (*first..first + blocks)
                    .map(|index| self.geometry.cell(index))
                    .for_each(|(column, row)| grid.want(column, row));
            }
            Purpose::Job(StripeJob::Rebuild { member, .. }) => {
                let column = self.geometry.column(number, *member);
                rows.for_each(|row| grid.want(column, row));
            }
            Purpose::Job(StripeJob::Scrub { .. }) => {
                // A scrub ignores columns that cannot be read.
                let columns = 0..self.geometry.members();
                let columns = columns.filter(|&column| self.readable(number, column));
                columns.for_each(|column| rows.clone().for_each(|row| grid.want(column, row)));
            }
            Purpose::Job(StripeJob::Trim { .. }) => {}
            Purpose::Job(StripeJob::Resync { .. }) => {
                let columns = 0..self.geometry.data_columns();
                columns.for_each(|column| rows.clone().for_each(|row| grid.want(column, row)));
            }
        }
        let careful = matches!(purpose, Purpose::Job(StripeJob::Read { .. }));
        let trim = match purpose {
            Purpose::Job(StripeJob::Trim { trim, .. }) => Some(trim),
            _ => None,
        };
        let execution = Execution {
            purpose,
            grid,
            outstanding: 0,
            writing: false,
            durable: false,
            noted: false,
            full,
            partly_lost: false,
            rebuilds: false,
            careful,
            started: since,
        };
        let stripe = self
            .stripes
            .get_mut(&number)
            .expect("the caller holds the stripe");
        stripe.running = Some(execution);
        if let Some(trim) = trim {
            return self.enlist(now, trim);
        }
        if self.doubtful.contains(&number) && !full {
            return self.finish(now, number, Some(Failure::Doubtful { stripe: number }));
        }
        self.advance(now, number);
    }

    fn fill_in(&self, grid: &mut Grid<B>, parts: &[WritePart<B>]) {
        for part in parts {
            for (at, block) in part.data.iter().enumerate() {
                let (column, row) = self.geometry.cell(part.first + at as u32);
                grid.write(column, row, block.clone());
            }
        }
    }

    /// Returns the range of rows that blocks of a stripe touch.
    fn rows_of(&self, pieces: impl IntoIterator<Item = (u32, u32)>) -> std::ops::Range<u32> {
        let (mut start, mut end) = (u32::MAX, 0);
        for (first, blocks) in pieces {
            let ((left, top), (right, bottom)) = (
                self.geometry.cell(first),
                self.geometry.cell(first + blocks - 1),
            );
            let (top, bottom) = if left == right {
                (top, bottom + 1)
            } else {
                (0, self.geometry.rows())
            };
            start = start.min(top);
            end = end.max(bottom);
        }
        start..end
    }

    pub(super) fn running(&mut self, number: u64) -> &mut Execution<B> {
        let stripe = self
            .stripes
            .get_mut(&number)
            .expect("a stripe stays while an execution holds it");
        stripe
            .running
            .as_mut()
            .expect("an execution holds the stripe")
    }

    /// Reads missing blocks. If none is missing, computes and writes.
    fn advance(&mut self, now: Nanos, number: u64) {
        let live = self.writable(number);
        let level = self.geometry.level();
        let mirror = level == Level::Raid1;
        let adopts = self.settings.checksums;
        let checked = self.settings.checked_above;
        let execution = self.running(number);
        let resync = matches!(execution.purpose, Purpose::Job(StripeJob::Resync { .. }));
        // Any copy of a mirror is valid. Otherwise, lost data cannot be decoded from syndromes that may not
        // match.
        if resync && !mirror && execution.grid.data_is_lost() {
            // Remaining blocks keep their contents and get matching checksums. A redundant syndrome shows
            // whether the row is consistent.
            let spare = level == Level::Raid6 && !checked;
            let unread = execution.grid.unread();
            if (adopts || spare) && !unread.is_empty() {
                return unread
                    .into_iter()
                    .for_each(|range| self.read_cells(number, range, false));
            }
            if spare && execution.grid.fits_without_lost() && !self.doubtful.contains(&number) {
                return self.finish(now, number, None);
            }
            if checked {
                return self.finish(now, number, None);
            }
            self.doubt_changes += u64::from(self.doubtful.insert(number));
            return self.finish(now, number, Some(Failure::Doubtful { stripe: number }));
        }
        match execution.grid.plan(|column| live[column]) {
            // Copies of a mirror must be made equal, even if neighbouring blocks are lost.
            GridPlan::Impossible if resync && mirror && !execution.partly_lost => {
                execution.partly_lost = true;
                execution.grid.forgo_lost_rows();
                self.advance(now, number)
            }
            GridPlan::Impossible => self.give_up(now, number),
            GridPlan::Read(_, ranges) => {
                let careful = execution.careful;
                for range in ranges {
                    self.read_cells(number, range, careful);
                }
            }
            GridPlan::Ready(method) => {
                execution.grid.compute(method, |column| live[column]);
                if resync {
                    execution.grid.encode_anew();
                }
                let scrub = matches!(execution.purpose, Purpose::Job(StripeJob::Scrub { .. }));
                let sound = !scrub || execution.grid.verify();
                if !sound {
                    let failure = Failure::Inconsistent { stripe: number };
                    return self.finish(now, number, Some(failure));
                }
                let repaired = execution.grid.write_back(|column| live[column]);
                if !matches!(execution.purpose, Purpose::Job(StripeJob::Rebuild { .. })) {
                    self.counters.repaired += repaired.len() as u64;
                    for column in repaired {
                        self.repaired[self.geometry.member(number, column)] += 1;
                    }
                }
                self.deliver(now, number);
                self.write_cells(now, number, &live);
            }
        }
    }

    fn read_cells(&mut self, number: u64, range: CellRange, careful: bool) {
        let member = self.geometry.member(number, range.column);
        let step = if careful { 1 } else { range.rows };
        for row in (range.row..range.row + range.rows).step_by(step as usize) {
            let ticket = Ticket::Cells {
                stripe: number,
                range: CellRange {
                    row,
                    rows: step,
                    ..range
                },
                member,
            };
            let (start, blocks) = (self.geometry.member_block(number, row), step);
            let purpose = &self.running(number).purpose;
            // A crash may have come between a block and its checksum.
            let action = match purpose {
                Purpose::Job(StripeJob::Resync { .. }) => Action::Adopt { start, blocks },
                _ => Action::Read { start, blocks },
            };
            self.issue(ticket, member, action);
            self.running(number).outstanding += 1;
        }
    }

    /// Answers a read with the blocks that were read or decoded.
    fn deliver(&mut self, now: Nanos, number: u64) {
        let geometry = self.geometry;
        let execution = self.running(number);
        if let Purpose::Job(StripeJob::Read {
            request,
            offset,
            first,
            blocks,
        }) = execution.purpose
        {
            let cells = (first..first + blocks).map(|index| geometry.cell(index));
            let data = cells.map(|(column, row)| {
                execution
                    .grid
                    .found(column, row)
                    .expect("the plan read the cell")
                    .clone()
            });
            let data = data.collect();
            self.fill(now, request, offset, data);
        }
    }

    fn write_cells(&mut self, now: Nanos, number: u64, live: &[bool]) {
        let geometry = self.geometry;
        let execution = self.running(number);
        execution.writing = true;
        if let Purpose::Job(StripeJob::Rebuild { member, .. }) = execution.purpose {
            execution.rebuilds = live[geometry.column(number, member)];
        }
        let durable = match &execution.purpose {
            Purpose::Write(parts) => parts.iter().any(|part| part.durable),
            // Rebuilt or repaired blocks count as present from now on, so they must survive a power cut.
            Purpose::Job(_) => true,
        };
        execution.durable = durable;
        // Until the member is complete, the blocks of a rebuild are not read and need not match the others.
        let rebuild = matches!(execution.purpose, Purpose::Job(StripeJob::Rebuild { .. }));
        let writes = execution.grid.writes(|column| live[column]);
        execution.outstanding = writes.len() as u32;
        if writes.is_empty() {
            return self.finish(now, number, None);
        }
        if !rebuild {
            self.note_begin(number);
        }
        for (range, data) in writes {
            let member = self.geometry.member(number, range.column);
            let ticket = Ticket::Cells {
                stripe: number,
                range,
                member,
            };
            let start = self.geometry.member_block(number, range.row);
            self.issue(
                ticket,
                member,
                Action::Write {
                    start,
                    data,
                    durable,
                },
            );
        }
    }

    /// Notes that the syndromes of a stripe may not match until its writes are durable.
    fn note_begin(&mut self, number: u64) {
        self.running(number).noted = true;
        self.dirty.begin(number, self.marks_alone());
    }

    /// Handles the end of an operation on cells.
    pub(super) fn cells(
        &mut self,
        now: Nanos,
        number: u64,
        range: CellRange,
        member: usize,
        outcome: Outcome<B>,
    ) {
        let execution = self.running(number);
        execution.outstanding -= 1;
        let writing = execution.writing;
        match outcome {
            Outcome::Read(data) => {
                for (row, block) in (range.row..).zip(data) {
                    execution.grid.learn(range.column, row, block);
                }
            }
            Outcome::Done => {}
            Outcome::Unreadable | Outcome::Corrupt if !writing && range.rows > 1 => {
                self.read_cells(number, range, true)
            }
            Outcome::Unreadable if !writing => execution.grid.lose(range.column, range.row),
            Outcome::Corrupt if !writing => {
                execution.grid.lose(range.column, range.row);
                self.counters.corrupt += 1;
                self.corrupt[member] += 1;
            }
            Outcome::Unreadable | Outcome::Corrupt | Outcome::Gone => self.lose_member(member),
        }
        if self.running(number).outstanding > 0 {
            return;
        }
        if writing {
            self.finish(now, number, None)
        } else {
            self.advance(now, number)
        }
    }

    /// Ends the work with an error: too much of the stripe is lost.
    fn give_up(&mut self, now: Nanos, number: u64) {
        self.finish(now, number, Some(Failure::Lost { stripe: number }));
    }

    /// Ends the work on a stripe and releases the stripe.
    pub(super) fn finish(&mut self, now: Nanos, number: u64, failure: Option<Failure>) {
        let unwritten = self.writable(number).iter().filter(|&&live| !live).count();
        let lost = unwritten > self.geometry.syndromes() || self.running(number).partly_lost;
        let failure = failure.or(lost.then_some(Failure::Lost { stripe: number }));
        let stripe = self
            .stripes
            .get_mut(&number)
            .expect("the caller holds the stripe");
        let execution = stripe.running.take().expect("the caller holds the stripe");
        if execution.noted {
            let durable = execution.durable && failure.is_none();
            self.dirty.end(number, durable);
        }
        match execution.purpose {
            Purpose::Write(parts) => {
                if execution.full && failure.is_none() {
                    self.doubt_changes += u64::from(self.doubtful.remove(&number));
                }
                self.strategy
                    .written(now, execution.started, execution.full);
                for part in parts {
                    self.strategy.ended(now, part.tag, part.data.len() as u32);
                    self.end(now, part.request, failure);
                }
            }
            Purpose::Job(StripeJob::Trim { request, .. }) => {
                if failure.is_none() {
                    self.doubt_changes += u64::from(self.doubtful.remove(&number));
                }
                self.end(now, request, failure);
            }
            // A read is answered as soon as its blocks are known, before they are written back.
            Purpose::Job(StripeJob::Read { .. }) if execution.writing => {}
            Purpose::Job(
                StripeJob::Read { request, .. }
                | StripeJob::Resync { request }
                | StripeJob::Scrub { request },
            ) => self.end(now, request, failure),
            Purpose::Job(StripeJob::Rebuild { request, member }) => {
                if failure.is_none() && execution.rebuilds {
                    self.mark_rebuilt(member, number);
                }
                self.end(now, request, failure);
            }
        }
        self.consider(now, number);
    }

    fn end(&mut self, now: Nanos, request: usize, failure: Option<Failure>) {
        if let Some(failure) = failure {
            self.fail(request, failure);
        }
        self.answer_part(now, request);
    }

    fn mark_rebuilt(&mut self, member: usize, number: u64) {
        let stripes = self.geometry.stripes();
        let (sharding, own) = (self.sharding, self.number);
        if let MemberState::Rebuilding { below, done } = &mut self.members[member] {
            done.insert(number);
            while *below < stripes && (done.remove(below) || sharding.shard(*below) != own) {
                *below += 1;
            }
            if *below == stripes {
                self.members[member] = MemberState::Up;
            }
        }
    }
}
