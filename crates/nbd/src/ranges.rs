//! Range locks: no part of a block is changed while another command changes the block.
//!
//! Changes of whole blocks exclude only changes of parts; a change of parts excludes every other change. Waiting
//! changes keep their order: a later change that overlaps a waiting one waits behind it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Byte range of the blocks that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of the first byte.
    pub begin: u64,
    /// Exclusive end.
    pub end: u64,
    /// True if the command is a read-modify-write of parts of blocks.
    pub partial: bool,
}

impl Span {
    fn excludes(&self, other: &Span) -> bool {
        (self.partial || other.partial) && self.begin < other.end && other.begin < self.end
    }
}

type WaitingChange = Box<dyn FnOnce(RangeGuard) + Send>;

/// Active changes and waiting changes.
#[derive(Default)]
pub(crate) struct Ranges(Mutex<RangesState>);

#[derive(Default)]
struct RangesState {
    active: Vec<Option<Span>>,
    free: Vec<usize>,
    partial: usize,
    waiting: VecDeque<(Span, WaitingChange)>,
    /// True if a thread is starting waiting changes; it checks again before it stops.
    starting: bool,
}

/// Right to change blocks, held until it is dropped.
pub(crate) struct RangeGuard {
    ranges: Arc<Ranges>,
    index: usize,
}

impl Ranges {
    fn state(&self) -> MutexGuard<'_, RangesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a guard, or `None` if the change has to wait.
    pub fn try_enter(self: &Arc<Self>, span: Span) -> Option<RangeGuard> {
        let mut state = self.state();
        let free = state.is_free(&span, state.waiting.len());
        free.then(|| self.guard(&mut state, span))
    }

    /// Runs `change` with a guard, now or when the range is free.
    pub fn enter(self: &Arc<Self>, span: Span, change: impl FnOnce(RangeGuard) + Send + 'static) {
        let mut state = self.state();
        if state.is_free(&span, state.waiting.len()) {
            let guard = self.guard(&mut state, span);
            drop(state);
            change(guard);
        } else {
            state.waiting.push_back((span, Box::new(change)));
        }
    }

    fn guard(self: &Arc<Self>, state: &mut RangesState, span: Span) -> RangeGuard {
        RangeGuard {
            ranges: Arc::clone(self),
            index: state.insert(span),
        }
    }

    fn leave(self: &Arc<Self>, index: usize) {
        let mut state = self.state();
        state.remove(index);
        // A change may end before it returns and so re-enter this function. One loop starts all changes; recursion
        // would grow the stack.
        if state.waiting.is_empty() || std::mem::replace(&mut state.starting, true) {
            return;
        }
        while let Some((span, change)) = state.next() {
            let guard = self.guard(&mut state, span);
            drop(state);
            change(guard);
            state = self.state();
        }
        state.starting = false;
    }
}

impl RangesState {
    /// Returns whether a span may start although the first `ahead` waiting changes have not.
    fn is_free(&self, span: &Span, ahead: usize) -> bool {
        if !span.partial && self.partial == 0 && ahead == 0 {
            return true;
        }
        let mut active = self.active.iter().flatten();
        let mut waiting = self.waiting.iter().take(ahead);
        !active.any(|other| other.excludes(span)) && !waiting.any(|(other, _)| other.excludes(span))
    }

    fn next(&mut self) -> Option<(Span, WaitingChange)> {
        let mut indices = 0..self.waiting.len();
        let index = indices.find(|&index| self.is_free(&self.waiting[index].0, index))?;
        self.waiting.remove(index)
    }

    fn insert(&mut self, span: Span) -> usize {
        self.partial += usize::from(span.partial);
        match self.free.pop() {
            Some(index) => {
                self.active[index] = Some(span);
                index
            }
            None => {
                self.active.push(Some(span));
                self.active.len() - 1
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let span = self.active[index].take().expect("a guard is dropped once");
        self.partial -= usize::from(span.partial);
        self.free.push(index);
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        self.ranges.leave(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: u64, end: u64, partial: bool) -> Span {
        Span {
            begin,
            end,
            partial,
        }
    }

    #[test]
    fn changes_of_whole_blocks_overlap_and_changes_of_parts_do_not() {
        let ranges = Arc::new(Ranges::default());
        let whole = ranges.try_enter(span(0, 8, false)).unwrap();
        let same = ranges.try_enter(span(0, 8, false)).unwrap();
        assert!(ranges.try_enter(span(4, 6, true)).is_none());
        let beside = ranges.try_enter(span(8, 9, true)).unwrap();
        assert!(ranges.try_enter(span(8, 12, false)).is_none());
        drop((whole, same));
        assert!(ranges.try_enter(span(4, 6, true)).is_some());
        drop(beside);
    }

    #[test]
    fn waiting_changes_keep_their_order() {
        let ranges = Arc::new(Ranges::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = ranges.try_enter(span(0, 1, false)).unwrap();
        for (name, partial) in [("part", true), ("whole", false), ("another part", true)] {
            let order = Arc::clone(&order);
            ranges.enter(span(0, 1, partial), move |_| {
                order.lock().unwrap().push(name)
            });
        }
        // Whole blocks do not exclude the active whole ones, but a change of parts waits ahead of them.
        assert!(ranges.try_enter(span(0, 1, false)).is_none());
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        assert_eq!(*order.lock().unwrap(), ["part", "whole", "another part"]);
        assert!(ranges.try_enter(span(0, 1, true)).is_some());
    }

    #[test]
    fn many_waiting_changes_use_no_stack() {
        let ranges = Arc::new(Ranges::default());
        let first = ranges.try_enter(span(0, 1, true)).unwrap();
        let count = Arc::new(Mutex::new(0));
        for _ in 0..100_000 {
            let count = Arc::clone(&count);
            ranges.enter(span(0, 1, true), move |_| *count.lock().unwrap() += 1);
        }
        drop(first);
        assert_eq!(*count.lock().unwrap(), 100_000);
    }
}
