//! Limiter: a fixed number of permits without a queue.
//!
//! A client without a permit is rejected at once, with the advice to retry. A queue would only hide the overload
//! until memory runs out.

use crate::api_error::ApiError;
use crate::traffic::TrafficCounters;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limiter with a fixed number of permits.
pub struct Limiter {
    permits: Arc<Semaphore>,
    count: usize,
    what: &'static str,
    remedy: String,
    traffic: Arc<TrafficCounters>,
}

/// Permit, held until it is dropped.
pub type Permit = OwnedSemaphorePermit;

impl Limiter {
    /// Creates a limiter with `count` permits for `what`, a plural; `setting` is the setting of the count.
    pub fn new(
        count: usize,
        what: &'static str,
        setting: &'static str,
        traffic: Arc<TrafficCounters>,
    ) -> Limiter {
        Limiter {
            permits: Arc::new(Semaphore::new(count)),
            count,
            what,
            remedy: format!("try again in a second, or raise {setting}"),
            traffic,
        }
    }

    /// Creates a limiter whose count is not a setting.
    pub fn fixed(count: usize, what: &'static str, traffic: Arc<TrafficCounters>) -> Limiter {
        Limiter {
            remedy: "try again in a second".to_string(),
            ..Limiter::new(count, what, "", traffic)
        }
    }

    /// Returns a permit, if one is free.
    ///
    /// # Errors
    /// 503 with Retry-After if all permits are taken.
    pub fn acquire(&self) -> Result<Permit, ApiError> {
        self.permits.clone().try_acquire_owned().map_err(|_| {
            self.traffic.rejected_requests.fetch_add(1, Relaxed);
            ApiError::unavailable(format!(
                "{} {} already in progress; {}",
                self.count, self.what, self.remedy
            ))
        })
    }

    /// Returns the number of permits in use.
    pub fn in_use(&self) -> usize {
        self.count - self.permits.available_permits()
    }
}
