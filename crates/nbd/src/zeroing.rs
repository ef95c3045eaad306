//! Writing of zeroes, one piece after the other, for exports without a command for it.

use crate::export::{Command, Completion, Export, Fault};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes written at once.
const PIECE: u64 = 1 << 20;

struct Zeroing {
    export: Arc<dyn Export>,
    zeroes: Vec<u8>,
    end: u64,
    durable: bool,
    state: Mutex<ZeroingState>,
}

struct ZeroingState {
    next: u64,
    /// True if a piece is being written.
    writing: bool,
    /// True if a thread is in `run`; it checks again before it returns.
    running: bool,
    fault: Option<Fault>,
    completion: Option<Completion>,
}

/// Writes zeroes to a range of whole blocks.
pub(crate) fn write(
    export: &Arc<dyn Export>,
    offset: u64,
    length: u64,
    durable: bool,
    completion: Completion,
) {
    let zeroing = Zeroing {
        export: Arc::clone(export),
        zeroes: vec![0; length.min(PIECE) as usize],
        end: offset + length,
        durable,
        state: Mutex::new(ZeroingState {
            next: offset,
            writing: false,
            running: false,
            fault: None,
            completion: Some(completion),
        }),
    };
    Arc::new(zeroing).run();
}

impl Zeroing {
    fn state(&self) -> MutexGuard<'_, ZeroingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pieces while each one completes before `submit` returns; otherwise the completion calls this function
    /// again. One loop writes all pieces, because recursion would grow the stack with every piece.
    fn run(self: &Arc<Self>) {
        let mut state = self.state();
        if std::mem::replace(&mut state.running, true) {
            return;
        }
        while !state.writing {
            if state.next == self.end || state.fault.is_some() {
                let (completion, fault) = (state.completion.take(), state.fault.take());
                drop(state);
                return match (completion, fault) {
                    (Some(completion), Some(fault)) => completion.fail(fault),
                    (Some(completion), None) => completion.done(),
                    (None, _) => {}
                };
            }
            let offset = state.next;
            let length = PIECE.min(self.end - offset);
            state.next += length;
            state.writing = true;
            drop(state);
            let this = Arc::clone(self);
            let ended = Completion::then(move |result| {
                let mut state = this.state();
                state.writing = false;
                state.fault = result.err();
                drop(state);
                this.run();
            });
            let command = Command::Write {
                offset,
                data: &self.zeroes[..length as usize],
                durable: self.durable,
            };
            self.export.submit(command, ended);
            state = self.state();
        }
        state.running = false;
    }
}
