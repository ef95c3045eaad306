//! Trimmed stripes: the members free their space, and the stripes read as zeroes afterwards.
//!
//! A stripe of zeroes matches its syndromes, which are zeroes as well. Therefore only whole stripes are
//! trimmed. Up to a region of stripes is trimmed by one operation per member. Parts of stripes are left
//! unchanged.

use super::{MemberState, Shard, Ticket};
use crate::block::Block;
use crate::request::{Action, Nanos, Outcome, Token};
use crate::stripe::StripeJob;
use std::ops::Range;

/// Stripes that are trimmed together.
pub struct Trim {
    stripes: Range<u64>,
    /// Number of stripes still owned by other operations.
    to_come: u64,
    /// Number of member operations in flight.
    outstanding: usize,
}

impl<B: Block> Shard<B> {
    /// Trims all stripes that lie completely within a run of blocks.
    pub(super) fn trim(&mut self, now: Nanos, token: Token, start: u64, blocks: u64) {
        let size = u64::from(self.geometry.stripe_blocks());
        let (mut first, end) = (start.div_ceil(size), (start + blocks) / size);
        let request = self.internal(token);
        while first < end {
            let region = first / self.settings.region_stripes;
            let next = end.min((region + 1) * self.settings.region_stripes);
            let trim = self.trims.insert(Trim {
                stripes: first..next,
                to_come: next - first,
                outstanding: 0,
            });
            self.pending(request).left += (next - first) as u32;
            for stripe in first..next {
                self.add_job(now, stripe, StripeJob::Trim { request, trim });
            }
            first = next;
        }
        self.answer_part(now, request);
    }

    fn trim_of(&mut self, trim: usize) -> &mut Trim {
        self.trims
            .get_mut(trim)
            .expect("a trim stays until its last operation has ended")
    }

    /// Registers that the trim now owns one of its stripes. The trim starts with the last one.
    pub(super) fn enlist(&mut self, now: Nanos, trim: usize) {
        let found = self.trim_of(trim);
        found.to_come -= 1;
        if found.to_come > 0 {
            return;
        }
        let stripes = found.stripes.clone();
        for stripe in stripes.clone() {
            let execution = self.running(stripe);
            (execution.writing, execution.noted) = (true, true);
            self.dirty.begin_trim(stripe);
        }
        let rows = u64::from(self.geometry.rows());
        let action = Action::Discard {
            start: self.geometry.member_block(stripes.start, 0),
            blocks: (stripes.end - stripes.start) * rows,
        };
        let used = |member: &usize| self.members[*member] != MemberState::Gone;
        let members: Vec<usize> = (0..self.members.len()).filter(used).collect();
        self.trim_of(trim).outstanding = members.len();
        self.counters.trimmed +=
            (stripes.end - stripes.start) * u64::from(self.geometry.stripe_blocks());
        if members.is_empty() {
            return self.end_trim(now, trim);
        }
        for member in members {
            self.issue(Ticket::Trim { trim, member }, member, action.clone());
        }
    }

    /// Handles the end of a member's discard.
    pub(super) fn discarded(
        &mut self,
        now: Nanos,
        trim: usize,
        member: usize,
        outcome: &Outcome<B>,
    ) {
        if !matches!(outcome, Outcome::Done) {
            self.lose_member(member);
        }
        let found = self.trim_of(trim);
        found.outstanding -= 1;
        if found.outstanding == 0 {
            self.end_trim(now, trim);
        }
    }

    fn end_trim(&mut self, now: Nanos, trim: usize) {
        let trim = self.trims.remove(trim).expect("the caller found the trim");
        trim.stripes
            .for_each(|stripe| self.finish(now, stripe, None));
    }
}
