//! Connections of a port: limited in number. A new connection without a place takes the place of the connection
//! that has been idle longest, so that clients with open connections do not block others.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum time that a new connection waits for a place.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections of a port.
pub struct Connections {
    places: Arc<Semaphore>,
    size: usize,
    /// Minimum idle time before a connection may be closed for another. Shorter pauses are part of a conversation.
    least_idle: Duration,
    began: Instant,
    next: AtomicU64,
    members: Mutex<HashMap<u64, Weak<Member>>>,
}

/// Connection. Its place becomes free when it is dropped.
pub struct Member {
    number: u64,
    crowd: Arc<Connections>,
    /// Number of requests that are being answered.
    busy: AtomicUsize,
    /// Time of the last transfer, in ms since the start of the port.
    moved_ms: AtomicU64,
    leaving: AtomicBool,
    leave: Notify,
    _place: OwnedSemaphorePermit,
}

/// Request that is being answered, until it is dropped.
pub struct Serving(Arc<Member>);

impl Connections {
    /// Creates a port for at most `size` connections. A connection may be closed for another after an idle time of
    /// `least_idle`.
    pub fn new(size: usize, least_idle: Duration) -> Arc<Connections> {
        Arc::new(Connections {
            places: Arc::new(Semaphore::new(size)),
            size,
            least_idle,
            began: Instant::now(),
            next: AtomicU64::new(0),
            members: Mutex::new(HashMap::new()),
        })
    }

    /// Returns a place if one is free.
    pub fn enter(self: &Arc<Self>) -> Option<Arc<Member>> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        Some(self.admit(place))
    }

    /// Returns the place of the connection that has been idle longest; `None` if all are busy.
    pub async fn replace_idle(self: &Arc<Self>) -> Option<Arc<Member>> {
        self.longest_idle()?.leave.notify_one();
        let place = self.places.clone().acquire_owned();
        let place = tokio::time::timeout(LEAVE_TIMEOUT, place)
            .await
            .ok()?
            .ok()?;
        Some(self.admit(place))
    }

    fn admit(self: &Arc<Self>, place: OwnedSemaphorePermit) -> Arc<Member> {
        let member = Arc::new(Member {
            number: self.next.fetch_add(1, Relaxed),
            busy: AtomicUsize::new(0),
            moved_ms: AtomicU64::new(self.now_ms()),
            leaving: AtomicBool::new(false),
            leave: Notify::new(),
            _place: place,
            crowd: self.clone(),
        });
        self.members()
            .insert(member.number, Arc::downgrade(&member));
        member
    }

    /// Waits until all connections are closed.
    pub async fn all_closed(&self) {
        let _ = self.places.acquire_many(self.size as u32).await;
    }

    fn longest_idle(&self) -> Option<Arc<Member>> {
        let latest = self
            .now_ms()
            .checked_sub(self.least_idle.as_millis() as u64)?;
        // Upgraded members are dropped after the lock, because dropping the last reference takes the lock.
        let members: Vec<Arc<Member>> = self.members().values().filter_map(Weak::upgrade).collect();
        let idle = members.into_iter().filter(|member| {
            !member.is_busy()
                && !member.leaving.load(Relaxed)
                && member.moved_ms.load(Relaxed) <= latest
        });
        let idle = idle.min_by_key(|member| (member.moved_ms.load(Relaxed), member.number))?;
        (!idle.leaving.swap(true, Relaxed)).then_some(idle)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn members(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Weak<Member>>> {
        self.members
            .lock()
            .expect("nothing panics while it holds the members")
    }
}

impl Member {
    /// Notes a transfer of bytes.
    pub fn moved(&self) {
        self.moved_ms.store(self.crowd.now_ms(), Relaxed);
    }

    /// Notes a request that is being answered.
    pub fn serve(self: &Arc<Self>) -> Serving {
        self.busy.fetch_add(1, Relaxed);
        Serving(self.clone())
    }

    /// Returns whether a request is being answered.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    /// Waits until this connection must close for another.
    pub async fn must_close(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.members().remove(&self.number);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.moved();
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_idle_gives_way_and_the_busy_stay() {
        let crowd = Connections::new(3, Duration::from_millis(20));
        let pause = || tokio::time::sleep(Duration::from_millis(30));
        let busy = crowd.enter().unwrap();
        let serving = busy.serve();
        let idle = crowd.enter().unwrap();
        pause().await;
        let young = crowd.enter().unwrap();
        assert!(crowd.enter().is_none());
        let leaver = tokio::spawn(async move { idle.must_close().await });
        let fourth = crowd.replace_idle().await.unwrap();
        leaver.await.unwrap();
        // The first is busy, the others have just come.
        young.moved();
        assert!(crowd.replace_idle().await.is_none());
        drop(serving);
        pause().await;
        drop(fourth);
        assert!(crowd.enter().is_some());
        assert!(crowd.longest_idle().is_some());
    }
}
