//! Connections of a port. Their number is limited. If no permit is free, a new connection gets the permit of the
//! connection that has been idle longest. Idle connections therefore do not block other clients.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum time that a new connection waits for a permit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections of a port.
pub struct Connections {
    permits: Arc<Semaphore>,
    size: usize,
    /// Minimum idle time before a connection may be closed for another. Shorter pauses are usual between requests.
    least_idle: Duration,
    began: Instant,
    next: AtomicU64,
    open: Mutex<HashMap<u64, Weak<Connection>>>,
}

/// Connection. Its permit becomes free when it is dropped.
pub struct Connection {
    number: u64,
    connections: Arc<Connections>,
    /// Number of requests that are being answered.
    busy: AtomicUsize,
    /// Time of the last transfer, in ms since the start of the port.
    moved_ms: AtomicU64,
    closing: AtomicBool,
    close: Notify,
    _permit: OwnedSemaphorePermit,
}

/// Request that is being answered, until it is dropped.
pub struct Serving(Arc<Connection>);

impl Connections {
    /// Creates a port for at most `size` connections. A connection may be closed for another after an idle time of
    /// `least_idle`.
    pub fn new(size: usize, least_idle: Duration) -> Arc<Connections> {
        Arc::new(Connections {
            permits: Arc::new(Semaphore::new(size)),
            size,
            least_idle,
            began: crate::time::now(),
            next: AtomicU64::new(0),
            open: Mutex::new(HashMap::new()),
        })
    }

    /// Returns a permit if one is free.
    pub fn open(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(self.admit(permit))
    }

    /// Returns the permit of the connection that has been idle longest; `None` if all are busy.
    pub async fn replace_idle(self: &Arc<Self>) -> Option<Arc<Connection>> {
        self.longest_idle()?.close.notify_one();
        let permit = self.permits.clone().acquire_owned();
        let permit = tokio::time::timeout(CLOSE_TIMEOUT, permit)
            .await
            .ok()?
            .ok()?;
        Some(self.admit(permit))
    }

    fn admit(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Arc<Connection> {
        let connection = Arc::new(Connection {
            number: self.next.fetch_add(1, Relaxed),
            busy: AtomicUsize::new(0),
            moved_ms: AtomicU64::new(self.now_ms()),
            closing: AtomicBool::new(false),
            close: Notify::new(),
            _permit: permit,
            connections: self.clone(),
        });
        self.list()
            .insert(connection.number, Arc::downgrade(&connection));
        connection
    }

    /// Waits until all connections are closed.
    pub async fn all_closed(&self) {
        let _ = self.permits.acquire_many(self.size as u32).await;
    }

    fn longest_idle(&self) -> Option<Arc<Connection>> {
        let latest = self
            .now_ms()
            .checked_sub(self.least_idle.as_millis() as u64)?;
        // The references are dropped after the lock, because dropping the last one takes the lock.
        let open: Vec<Arc<Connection>> = self.list().values().filter_map(Weak::upgrade).collect();
        let idle = open.into_iter().filter(|connection| {
            !connection.is_busy()
                && !connection.closing.load(Relaxed)
                && connection.moved_ms.load(Relaxed) <= latest
        });
        let idle =
            idle.min_by_key(|connection| (connection.moved_ms.load(Relaxed), connection.number))?;
        (!idle.closing.swap(true, Relaxed)).then_some(idle)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn list(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Weak<Connection>>> {
        self.open
            .lock()
            .expect("nothing panics while it holds the list")
    }
}

impl Connection {
    /// Notes a transfer of bytes.
    pub fn note_transfer(&self) {
        self.moved_ms.store(self.connections.now_ms(), Relaxed);
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
        self.close.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.list().remove(&self.number);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.note_transfer();
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_idle_connection_is_closed_and_busy_ones_stay_open() {
        let connections = Connections::new(3, Duration::from_millis(20));
        let pause = || tokio::time::sleep(Duration::from_millis(30));
        let busy = connections.open().unwrap();
        let serving = busy.serve();
        let idle = connections.open().unwrap();
        pause().await;
        let young = connections.open().unwrap();
        assert!(connections.open().is_none());
        let closed = tokio::spawn(async move { idle.must_close().await });
        let fourth = connections.replace_idle().await.unwrap();
        closed.await.unwrap();
        // The first is busy, the others have just come.
        young.note_transfer();
        assert!(connections.replace_idle().await.is_none());
        drop(serving);
        pause().await;
        drop(fourth);
        assert!(connections.open().is_some());
        assert!(connections.longest_idle().is_some());
    }
}
