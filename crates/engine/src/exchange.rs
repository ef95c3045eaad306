//! Exchange of figures between head and log, under the locks of both.

use crate::head::Head;
use crate::log::Log;
use seiner_platform::Clock;

/// Advances the time, copies figures of the log to the head, and passes requests of the head to the
/// log.
pub(crate) fn inform(head: &mut Head, log: &mut Log, clock: &dyn Clock) {
    log.retention.advance(clock, head.logged_block());
    log.bound_replay();
    if head.take_checkpoint_wanted() {
        log.set_checkpoint_due(true);
    }
    let log_figures = head.log_figures();
    log.retention.update_lateness(&mut log_figures.lateness);
    log_figures.is_log_behind = log.is_much_waiting();
    share_memory(head, log);
}

/// Copies the memory use of the log to the head.
pub(crate) fn share_memory(head: &mut Head, log: &Log) {
    let log_figures = head.log_figures();
    log_figures.log_memory = log.memory();
    log_figures.registry_memory = log.retention.memory();
}
