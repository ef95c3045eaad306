//! Page of an array: the listener of `seiner raid serve --http`, and the same page among a server's own addresses.

use super::{ArrayMonitor, Report, metrics};
use crate::api_error;
use crate::hosts::{self, Hosts};
use crate::metric_text::CONTENT_TYPE;
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

/// Content security policy: the page loads resources from its own origin only.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("page.html");

/// Returns the routes: the page at `/`, metrics at `/metrics`, the whole report at `/status`.
pub fn router(array: Arc<dyn ArrayMonitor>, address: SocketAddr) -> Router {
    let hosts = Hosts::new(address, Vec::new(), "use the address that it listens on");
    Router::new()
        .route("/", get(page))
        .route("/metrics", get(metrics_of_array))
        .route("/status", get(status))
        .layer(middleware::from_fn(api_error::in_json))
        .layer(middleware::from_fn_with_state(hosts, hosts::guard))
        .with_state(array)
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

async fn metrics_of_array(State(array): State<Arc<dyn ArrayMonitor>>) -> Response {
    match report(array)
        .await
        .and_then(|report| metrics::text(report).ok())
    {
        Some(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        None => gone(),
    }
}

async fn status(State(array): State<Arc<dyn ArrayMonitor>>) -> Response {
    match report(array).await {
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

/// Requests the report on a thread that may block.
async fn report(array: Arc<dyn ArrayMonitor>) -> Option<Report> {
    tokio::task::spawn_blocking(move || array.report())
        .await
        .ok()?
}

/// Listener with a thread of its own, until it is dropped.
pub struct Panel {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Panel {
    /// Listens on a loopback address. Port 0 takes any free port.
    ///
    /// # Errors
    /// If other hosts could reach the address, or the listener cannot be opened.
    pub fn listen(address: SocketAddr, array: Arc<dyn ArrayMonitor>) -> Result<Panel> {
        if !address.ip().is_loopback() {
            bail!(
                "{address} can be reached from other hosts, and the page has no authentication: use 127.0.0.1 or [::1], and put a \
                 proxy with authentication in front of it"
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
                let served = axum::serve(listener, router(array, address)).into_future();
                tokio::select! {
                    served = served => {
                        if let Err(error) = served {
                            tracing::warn!("the port of the page: {error}");
                        }
                    }
                    // A message and a dropped sender mean the same.
                    _ = stopped => {}
                }
            });
            // A request may still query an array that is being stopped.
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

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        // A thread that has ended needs no message.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            // The thread has printed its error.
            let _ = thread.join();
        }
    }
}
