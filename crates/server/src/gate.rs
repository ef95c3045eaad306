//! Back-pressure: a bounded number of places, and no queue in front of them.
//!
//! Who finds no place is told to come again, at once. A queue would only hide the overload
//! until memory runs out.

use crate::meters::Meters;
use crate::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many places.
pub struct Gate {
    places: Arc<Semaphore>,
    count: usize,
    what: &'static str,
    remedy: String,
    meters: Arc<Meters>,
}

/// A place that is taken until this is dropped.
pub type Place = OwnedSemaphorePermit;

impl Gate {
    /// A gate with `count` places for `what`, a plural; `setting` is where the count comes from.
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

    /// A gate whose places no setting counts.
    pub fn fixed(count: usize, what: &'static str, meters: Arc<Meters>) -> Gate {
        Gate {
            remedy: "come again in a second".to_string(),
            ..Gate::new(count, what, "", meters)
        }
    }

    /// A place, if one is free.
    ///
    /// # Errors
    /// 503 with Retry-After if there is none.
    pub fn enter(&self) -> Result<Place, Refusal> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            self.meters.turned_away.fetch_add(1, Relaxed);
            Refusal::unavailable(format!(
                "{} {} in flight already; {}",
                self.count, self.what, self.remedy
            ))
        })
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.count - self.places.available_permits()
    }
}
