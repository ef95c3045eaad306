//! Limiters: a fixed number of permits, or of bytes, without a queue.
//!
//! A client without a permit is rejected at once, with the advice to retry. A queue would only hide the overload
//! until memory runs out.

use crate::api_error::ApiError;
use crate::traffic::TrafficCounters;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum length of a body that is in memory as a whole, before and after decompression, in bytes. `max_body` may be
/// less.
pub const MAX_WHOLE_BODY: u64 = 32 << 20;

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

/// Limiter of the bytes of bodies that are in memory as a whole.
pub struct ByteLimiter {
    kib: Arc<Semaphore>,
    traffic: Arc<TrafficCounters>,
}

impl ByteLimiter {
    /// Creates a limiter of a number of bytes.
    pub fn new(bytes: u64, traffic: Arc<TrafficCounters>) -> ByteLimiter {
        let kib = usize::try_from(bytes >> 10).unwrap_or(usize::MAX);
        ByteLimiter {
            kib: Arc::new(Semaphore::new(kib.min(Semaphore::MAX_PERMITS))),
            traffic,
        }
    }

    /// Returns a permit for a number of bytes, which is rounded up to KiB.
    ///
    /// # Errors
    /// 503 with Retry-After if other bodies take too much memory.
    pub fn acquire(&self, bytes: usize) -> Result<Permit, ApiError> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        self.kib
            .clone()
            .try_acquire_many_owned(kib)
            .map_err(|_| {
                self.traffic.rejected_requests.fetch_add(1, Relaxed);
                ApiError::unavailable(
                    "the bodies of other writes take all memory for bodies; try again in a second, or send shorter bodies",
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_free_again_after_use() {
        let traffic = Arc::new(TrafficCounters::new());
        let limiter = ByteLimiter::new(4096, traffic.clone());
        let first = limiter.acquire(3000).unwrap();
        assert!(limiter.acquire(2000).is_err());
        assert!(limiter.acquire(usize::MAX).is_err());
        drop(first);
        assert!(limiter.acquire(4096).is_ok());
        assert_eq!(traffic.rejected_requests.load(Relaxed), 2);
    }
}
