//! Processor time, which is independent of the load that other programs put on the machine.

use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of the calling thread in seconds.
pub fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
