//! Reads: from pending writes, from members, or decoded.

use super::{PendingRequest, Shard, Ticket};
use crate::block::Block;
use crate::geometry::{Extent, Level};
use crate::request::{Action, Nanos, Token};
use crate::stripe::{Purpose, Stripe, StripeJob};

/// Source of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The member of this column.
    Member(usize),
    /// The other blocks of the row, by decoding.
    Decoded,
}

impl<B: Block> Shard<B> {
    pub(super) fn read(&mut self, now: Nanos, token: Token, start: u64, blocks: u64) {
        let data = vec![None; blocks as usize];
        self.counters.user_reads += 1;
        self.counters.user_blocks_read += blocks;
        let request = self.requests.insert(PendingRequest {
            token,
            since: now,
            left: 1,
            data,
            failure: None,
            is_read: true,
            epoch: None,
            member_flush: None,
        });
        self.reads += 1;
        self.strategy.read_began(now);
        let mut offset = 0;
        for extent in self.geometry.extents(start, blocks) {
            self.read_extent(now, request, offset, extent);
            offset += extent.blocks as usize;
        }
        self.answer_part(now, request);
    }

    /// Reads blocks of one stripe: pending blocks from memory, the others in as few pieces as possible.
    fn read_extent(&mut self, now: Nanos, request: usize, offset: usize, extent: Extent) {
        self.turn += 1;
        let mut piece: Option<(Source, u32, u32)> = None;
        for index in extent.first..extent.first + extent.blocks {
            let known = self
                .stripes
                .get(&extent.stripe)
                .and_then(|stripe| stripe.pending(&self.geometry, index))
                .cloned();
            if let Some(block) = known {
                let at = offset + (index - extent.first) as usize;
                self.pending(request).data[at] = Some(block);
                continue;
            }
            let source = self.source(extent.stripe, index);
            match &mut piece {
                Some((same, first, blocks)) if *same == source && *first + *blocks == index => {
                    *blocks += 1
                }
                _ => {
                    let last = piece.replace((source, index, 1));
                    self.read_piece(now, request, offset, extent, last);
                }
            }
        }
        self.read_piece(now, request, offset, extent, piece);
    }

    fn source(&self, stripe: u64, index: u32) -> Source {
        let columns = self.geometry.members();
        let readable = |column: &usize| self.readable(stripe, *column);
        let column = match self.geometry.level() {
            // Before the copies are made equal, a read might return a copy that is not kept.
            Level::Raid1 if self.is_resyncing(stripe) => None,
            Level::Raid1 => (0..columns)
                .map(|copy| (copy + self.turn) % columns)
                .find(readable),
            _ => Some(self.geometry.cell(index).0).filter(readable),
        };
        column.map_or(Source::Decoded, Source::Member)
    }

    fn is_resyncing(&self, stripe: u64) -> bool {
        let resyncs = |job: &StripeJob| matches!(job, StripeJob::Resync { .. });
        self.stripes.get(&stripe).is_some_and(|stripe| {
            let running = stripe.running.as_ref().map(|running| &running.purpose);
            stripe.jobs.iter().any(resyncs)
                || matches!(running, Some(Purpose::Job(job)) if resyncs(job))
        })
    }

    fn read_piece(
        &mut self,
        now: Nanos,
        request: usize,
        offset: usize,
        extent: Extent,
        piece: Option<(Source, u32, u32)>,
    ) {
        let Some((source, first, blocks)) = piece else {
            return;
        };
        let offset = offset + (first - extent.first) as usize;
        let stripe = extent.stripe;
        self.pending(request).left += 1;
        match source {
            Source::Decoded => self.add_job(
                now,
                stripe,
                StripeJob::Read {
                    request,
                    offset,
                    first,
                    blocks,
                },
            ),
            Source::Member(column) => {
                let member = self.geometry.member(stripe, column);
                let (_, row) = self.geometry.cell(first);
                let start = self.geometry.member_block(stripe, row);
                let ticket = Ticket::Direct {
                    request,
                    offset,
                    stripe,
                    first,
                    blocks,
                    member,
                };
                self.issue(ticket, member, Action::Read { start, blocks });
            }
        }
    }

    /// Stores blocks of a read.
    pub(super) fn fill(&mut self, now: Nanos, request: usize, offset: usize, data: Vec<B>) {
        let pending = self.pending(request);
        for (at, block) in data.into_iter().enumerate() {
            pending.data[offset + at] = Some(block);
        }
        self.answer_part(now, request);
    }

    /// Queues a job that needs exclusive use of a stripe.
    pub(super) fn add_job(&mut self, now: Nanos, stripe: u64, job: StripeJob) {
        let blocks = self.geometry.stripe_blocks();
        self.stripes
            .entry(stripe)
            .or_insert_with(|| Stripe::new(blocks))
            .jobs
            .push_back(job);
        self.consider(now, stripe);
    }
}
