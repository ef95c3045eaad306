//! Limiter: a fixed number of places without a queue.
//!
//! A client without a place is refused at once, with the advice to retry. A queue would only hide the overload
//! until memory runs out.

use crate::meters::Meters;
use crate::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limiter with a fixed number of places.
pub struct Gate {
    places: Arc<Semaphore>,
    count: usize,
    what: &'static str,
    remedy: String,
    meters: Arc<Meters>,
}

/// Place that is taken until it is dropped.
pub type Place = OwnedSemaphorePermit;

impl Gate {
    /// Creates a limiter with `count` places for `what`, a plural; `setting` is the setting of the count.
    pub fn new(
        count: usize,
        what: &'static str,
        setting: &'static str,
        meters: Arc<Meters>,
    ) -> Gate {
        Gate {
            places: Arc::new(Semaphore::new(count)),
            count,
            what,
            remedy: format!("come again in a second, or raise {setting}"),
            meters,
        }
    }

    /// Creates a limiter whose count is not a setting.
    pub fn fixed(count: usize, what: &'static str, meters: Arc<Meters>) -> Gate {
        Gate {
            remedy: "come again in a second".to_string(),
            ..Gate::new(count, what, "", meters)
        }
    }

    /// Returns a place, if one is free.
    ///
    /// # Errors
    /// 503 with Retry-After if all places are taken.
    pub fn enter(&self) -> Result<Place, Refusal> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            self.meters.turned_away.fetch_add(1, Relaxed);
            Refusal::unavailable(format!(
                "{} {} in flight already; {}",
                self.count, self.what, self.remedy
            ))
        })
    }

    /// Returns the number of places taken.
    pub fn taken(&self) -> usize {
        self.count - self.places.available_permits()
    }
}
