//! Processor time: what a trial takes of it is the same on a machine that is busy with other things.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of the calling thread so far, s.
pub fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
