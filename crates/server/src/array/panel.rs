//! The page of an array: what `seiner raid serve --http` listens with, and what a server can take into its own addresses.

use super::{Report, metrics};
use crate::hosts::{self, Hosts};
use crate::metrics::CONTENT_TYPE;
use crate::refusal;
use anyhow::{Context, Result, bail};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How the array is now; none if it has been stopped. It may wait a moment.
pub type Source = Arc<dyn Fn() -> Option<Report> + Send + Sync>;

/// The page asks only where it came from, and needs nothing else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("page.html");

/// The page at `/`, figures at `/metrics`, everything at `/status`.
pub fn router(source: Source, address: SocketAddr) -> Router {
    let hosts = Hosts::new(address, Vec::new(), "ask by the address that it listens on");
    Router::new()
        .route("/", get(page))
        .route("/metrics", get(figures))
        .route("/status", get(status))
        .layer(middleware::from_fn(refusal::in_json))
        .layer(middleware::from_fn_with_state(hosts, hosts::guard))
        .with_state(source)
}

async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, PAGE).into_response()
}

async fn figures(State(source): State<Source>) -> Response {
    match report(source)
        .await
        .and_then(|report| metrics::text(report).ok())
    {
        Some(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        None => gone(),
    }
}

async fn status(State(source): State<Source>) -> Response {
    match report(source).await {
        Some(report) => Json(report).into_response(),
        None => gone(),
    }
}

fn gone() -> Response {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "the array has been stopped\n",
    )
        .into_response()
}

/// Asked on a thread that may wait.
async fn report(source: Source) -> Option<Report> {
    tokio::task::spawn_blocking(move || source()).await.ok()?
}

/// A listener with a thread of its own, until it is dropped.
pub struct Panel {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Panel {
    /// Listens on an address of this machine. Port 0 takes any that is free.
    ///
    /// # Errors
    /// If others could reach the address, or it cannot be listened on.
    pub fn listen(address: SocketAddr, source: Source) -> Result<Panel> {
        if !address.ip().is_loopback() {
            bail!(
                "{address} can be reached from outside, and the page asks nobody who they are: take 127.0.0.1 or [::1], and \
                 put something in front of it that does"
            );
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .with_context(|| format!("the page's address {address}"))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let served = axum::serve(listener, router(source, address)).into_future();
                tokio::select! {
                    served = served => {
                        if let Err(error) = served {
                            tracing::warn!("the page's port: {error}");
                        }
                    }
                    // Whether it was told or dropped is the same.
                    _ = stopped => {}
                }
            });
            // Somebody may still be asking an array that is being stopped.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new()
            .name("page".to_string())
            .spawn(serve)?;
        Ok(Panel {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        // A thread that has ended needs no telling.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            // It has told why on standard error.
            let _ = thread.join();
        }
    }
}
