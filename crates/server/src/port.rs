//! Threads of the ports: a thread that polls sockets must not wait for the disk.

use seiner_platform::critical::{self, Section};
use std::future::Future;
use std::pin::pin;
use tokio::task::JoinHandle;
use tracing::Span;

/// Polls a task of a port. In debug builds a call of the disk within a poll panics; work that may wait runs by
/// [`waiting`] or on a thread that may block.
pub async fn polled<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    std::future::poll_fn(|context| {
        let _section = Section::enter();
        task.as_mut().poll(context)
    })
    .await
}

/// Runs work that may wait on a thread that may block. Its lines in the log have the id of the present request.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
}

/// Runs work that may wait for the disk. The other tasks of this thread move to another thread first.
pub fn waiting<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(|| critical::aside(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::{Directory, Disk};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn disk_work_on_a_port_is_detected() {
        let data = tempfile::tempdir().unwrap();
        let disk = std::sync::Arc::new(Directory::open(data.path()).unwrap());
        let on = disk.clone();
        let polls = tokio::spawn(polled(async move { on.list().is_ok() }));
        assert_eq!(polls.await.is_err(), cfg!(debug_assertions));
        let on = disk.clone();
        let waits = tokio::spawn(polled(async move { waiting(|| on.list().is_ok()) }));
        assert!(waits.await.unwrap());
        let blocks = tokio::spawn(polled(async move {
            tokio::task::spawn_blocking(move || disk.list().is_ok()).await
        }));
        assert!(blocks.await.unwrap().unwrap());
    }
}
