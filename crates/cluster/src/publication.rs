//! Publication: a port shows its load to the others, and learns theirs.

use crate::balance::Balance;
use crate::load::Rate;
use crate::locks::locked;
use crate::ports::{self, PortInfo};
use crate::rows::{Rows, RowsError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval at which a port publishes its load.
const INTERVAL: Duration = Duration::from_secs(1);

/// Load of a port, and the balance with the other ports.
#[derive(Default)]
pub(crate) struct Publication {
    /// Rates of accepted samples and rows.
    rates: Mutex<(Rate, Rate)>,
    /// Monotonic time of the last publication.
    last: AtomicU64,
    /// Clients that this port advises to use another one.
    balance: Mutex<Balance>,
}

impl Publication {
    /// Publishes a port, reads the list of ports, and plans the balance of load, if that is due. `now` is monotonic.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn publish(
        &self,
        now: u64,
        rows: &dyn Rows,
        info: impl FnOnce() -> PortInfo,
    ) -> Result<(), RowsError> {
        let last = self.last.load(Ordering::Relaxed);
        if last > 0 && now < last + INTERVAL.as_nanos() as u64 {
            return Ok(());
        }
        self.last.store(now, Ordering::Relaxed);
        let info = info();
        // Nobody reaches a port without an address.
        if !info.address.is_empty() {
            ports::publish(rows, &info)?;
        }
        let ports = ports::list(rows)?;
        locked(&self.balance).plan(now, &info, &ports);
        Ok(())
    }

    /// Returns the samples and rows per second, of the numbers that were accepted up to a monotonic time.
    pub fn rates(&self, now: u64, samples: u64, rows: u64) -> (f64, f64) {
        let mut rates = locked(&self.rates);
        (rates.0.note(now, samples), rates.1.note(now, rows))
    }

    /// Returns the address of the port to which a client should move that sends so many rows per second.
    pub fn better_port(&self, rows_per_second: f64) -> Option<String> {
        locked(&self.balance).better(rows_per_second)
    }

    /// Returns the addresses of the ports that can receive more, the least loaded one first.
    pub fn able_ports(&self) -> Vec<String> {
        locked(&self.balance).able()
    }
}
