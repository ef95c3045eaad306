//! Writes and flushes, from their arrival until their stripe takes them.

use super::{PendingRequest, Shard, Ticket};
use crate::block::Block;
use crate::merging::{Arrival, Verdict, WaitingWrites};
use crate::request::{Action, Failure, Nanos, Outcome, Token};
use crate::stripe::{Purpose, Stripe, WritePart};

impl<B: Block> Shard<B> {
    pub(super) fn write(
        &mut self,
        now: Nanos,
        token: Token,
        start: u64,
        data: Vec<B>,
        durable: bool,
    ) {
        let epoch = self.epoch;
        *self.unfinished.entry(epoch).or_default() += 1;
        let blocks = data.len() as u64;
        self.counters.user_writes += 1;
        self.counters.user_blocks_written += blocks;
        let pending = PendingRequest {
            token,
            since: now,
            left: 1,
            data: Vec::new(),
            failure: None,
            is_read: false,
            epoch: Some(epoch),
            member_flush: None,
        };
        let request = self.requests.insert(pending);
        let (mut data, mut next) = (data.into_iter(), start);
        for extent in self.geometry.extents(start, blocks) {
            self.pending(request).left += 1;
            let part: Vec<B> = data.by_ref().take(extent.blocks as usize).collect();
            let tag = self.strategy.arrived(&Arrival {
                now,
                stripe: extent.stripe,
                start: next,
                blocks: extent.blocks,
            });
            next += u64::from(extent.blocks);
            let stripe_blocks = self.geometry.stripe_blocks();
            let stripe = self
                .stripes
                .entry(extent.stripe)
                .or_insert_with(|| Stripe::new(stripe_blocks));
            stripe.push(WritePart {
                request,
                first: extent.first,
                data: part,
                arrived: now,
                tag,
                durable,
            });
            stripe.urgent |= durable;
            self.consider(now, extent.stripe);
        }
        self.answer_part(now, request);
    }

    /// Starts a flush: it waits for all earlier writes, and held writes start at once.
    pub(super) fn flush(&mut self, now: Nanos, token: Token) {
        let request = self.internal(token);
        self.epoch += 1;
        self.flushes.push((self.epoch, request));
        let waiting: Vec<u64> = self
            .stripes
            .iter()
            .filter(|(_, stripe)| !stripe.waiting.is_empty())
            .map(|(&number, _)| number)
            .collect();
        for number in waiting {
            if let Some(stripe) = self.stripes.get_mut(&number) {
                stripe.urgent = true;
                self.consider(now, number);
            }
        }
        self.flush_members(now);
    }

    /// Registers that a write has ended.
    pub(super) fn leave_epoch(&mut self, now: Nanos, epoch: u64) {
        let left = self
            .unfinished
            .get_mut(&epoch)
            .expect("a write is counted once");
        *left -= 1;
        if *left == 0 {
            self.unfinished.remove(&epoch);
            self.flush_members(now);
        }
    }

    /// Flushes the members for every flush that no longer waits for writes.
    fn flush_members(&mut self, now: Nanos) {
        let oldest = self
            .unfinished
            .first_key_value()
            .map_or(u64::MAX, |(&epoch, _)| epoch);
        let ready: Vec<usize> = self
            .flushes
            .extract_if(.., |(epoch, _)| *epoch <= oldest)
            .map(|(_, request)| request)
            .collect();
        for request in ready {
            self.pending(request).member_flush = Some(self.dirty.flush());
            if self.is_broken() {
                self.fail(request, Failure::Broken);
            }
            for member in 0..self.members.len() {
                if self.members[member] != super::MemberState::Gone {
                    self.pending(request).left += 1;
                    self.issue(Ticket::Flush { request, member }, member, Action::Flush);
                }
            }
            self.answer_part(now, request);
        }
    }

    /// Handles the end of a member's flush.
    pub(super) fn member_flushed(
        &mut self,
        now: Nanos,
        request: usize,
        member: usize,
        outcome: Outcome<B>,
    ) {
        if !matches!(outcome, Outcome::Done) {
            self.lose_member(member);
        }
        if self.is_broken() {
            self.fail(request, Failure::Broken);
        }
        let pending = self.pending(request);
        if let (1, None, Some(flush)) = (pending.left, pending.failure, pending.member_flush) {
            let writing = |stripe: &Stripe<B>| {
                stripe
                    .running
                    .as_ref()
                    .is_some_and(|running| running.writing)
            };
            let stripes = self.stripes.iter();
            let busy = stripes.filter(|(_, stripe)| writing(stripe));
            self.dirty.flushed(flush, busy.map(|(&at, _)| at));
        }
        self.answer_part(now, request);
    }

    /// Gives an idle stripe to its most urgent user, or removes the stripe.
    pub(super) fn consider(&mut self, now: Nanos, number: u64) {
        let Some(stripe) = self.stripes.get_mut(&number) else {
            return;
        };
        if stripe.running.is_some() {
            return;
        }
        if let Some(job) = stripe.jobs.pop_front() {
            return self.begin(now, now, number, Purpose::Job(job), false);
        }
        if stripe.waiting.is_empty() {
            let stripe = self
                .stripes
                .remove(&number)
                .expect("the stripe was just found");
            if let Some(at) = stripe.wake {
                self.wakes.remove(&(at, number));
            }
            return self.strategy.idle(number);
        }
        if stripe.queued.is_some() {
            return;
        }
        let waiting = self.waiting_writes(now, number);
        let all = match self.strategy.judge(&waiting) {
            Verdict::Hold(until) if !self.stripes[&number].urgent && now < waiting.deadline => {
                return self.wake(number, until.min(waiting.deadline));
            }
            Verdict::Alone => false,
            Verdict::Together | Verdict::Hold(_) => true,
        };
        let held = std::mem::take(
            &mut self
                .stripes
                .get_mut(&number)
                .expect("the stripe was just found")
                .held,
        );
        self.counters.expired += u64::from(held && now >= waiting.deadline);
        if self.has_capacity() {
            self.start(now, now, number, all);
        } else {
            self.stripes
                .get_mut(&number)
                .expect("the stripe was just found")
                .queued = Some(now);
            self.queue.push_back(number);
        }
    }

    /// Starts a stripe that was queued for the members.
    pub(super) fn leave_queue(&mut self, now: Nanos, number: u64) {
        let Some(stripe) = self.stripes.get_mut(&number) else {
            return;
        };
        let Some(since) = stripe.queued.take() else {
            return;
        };
        if stripe.running.is_some() || !stripe.jobs.is_empty() {
            return self.consider(now, number);
        }
        let all = self.strategy.judge(&self.waiting_writes(now, number)) != Verdict::Alone;
        self.start(now, since, number, all);
    }

    fn waiting_writes(&self, now: Nanos, number: u64) -> WaitingWrites {
        let stripe = &self.stripes[&number];
        let oldest = stripe.waiting[0].arrived;
        WaitingWrites {
            now,
            stripe: number,
            requests: stripe.waiting.len() as u32,
            filled: stripe.filled,
            missing: self.geometry.stripe_blocks() - stripe.filled,
            oldest,
            deadline: oldest + self.settings.longest_hold,
            reads: self.reads,
        }
    }

    fn wake(&mut self, number: u64, at: Nanos) {
        let stripe = self
            .stripes
            .get_mut(&number)
            .expect("the caller holds the stripe");
        stripe.held = true;
        if let Some(before) = stripe.wake.replace(at) {
            self.wakes.remove(&(before, number));
        }
        self.wakes.insert((at, number));
    }

    /// Gives the stripe to the first waiting write, or to all of them.
    fn start(&mut self, now: Nanos, since: Nanos, number: u64, all: bool) {
        let stripe = self
            .stripes
            .get_mut(&number)
            .expect("the caller holds the stripe");
        if let Some(at) = stripe.wake.take() {
            self.wakes.remove(&(at, number));
        }
        let filled = stripe.filled;
        let parts = stripe.take(all);
        let blocks = if all {
            filled
        } else {
            parts[0].data.len() as u32
        };
        let full = blocks == self.geometry.stripe_blocks();
        for part in &parts {
            self.latencies.waited.note(now.saturating_sub(part.arrived));
            self.strategy
                .started(number, part.tag, part.data.len() as u32);
        }
        if full {
            self.counters.full += 1;
        } else {
            self.counters.partial += 1;
        }
        self.begin(now, since, number, Purpose::Write(parts), full);
    }
}
