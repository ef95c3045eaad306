//! Exchange between head and log: what each has to know of the other, under the locks of both.

use crate::head::Head;
use crate::log::Log;
use seiner_platform::Clock;

/// Tells the head what it has to know of the log, and the log what the head wants. The time goes on.
pub(crate) fn inform(head: &mut Head, log: &mut Log, clock: &dyn Clock) {
    log.retention.advance(clock, head.next_block());
    log.bound_replay();
    if head.take_checkpoint_wanted() {
        log.set_checkpoint_due(true);
    }
    let surroundings = head.surroundings();
    log.retention.update_lateness(&mut surroundings.lateness);
    surroundings.is_log_behind = log.is_much_waiting();
    tell_memory(head, log);
}

/// Tells the head how much memory the log takes.
pub(crate) fn tell_memory(head: &mut Head, log: &Log) {
    let surroundings = head.surroundings();
    surroundings.log_memory = log.memory();
    surroundings.registry_memory = log.retention.memory();
}
