//! Advice to the clients of a cluster's port: other ports that can receive more.
//!
//! A 503 names the ports that accept rows. A client that states its rate with [`RATE`] follows advice, so the answers to
//! its writes may name a better port, too. Clients that do not know these headers are not affected.

use crate::app_state::AppState;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

/// Header of a write: rows per second that this client sends to this port.
pub const RATE: &str = "x-seiner-rate";
/// Header of an answer: addresses of better ports, the best first, separated by commas.
pub const PORTS: &str = "x-seiner-ports";
/// Maximum number of addresses in an answer.
const MAX_PORTS: usize = 16;

/// Adds advice to the answer to a write.
pub fn advised(app: &AppState, request: &HeaderMap, mut response: Response) -> Response {
    let Some(cluster) = &app.cluster else {
        return response;
    };
    let ports = match response.status() {
        StatusCode::SERVICE_UNAVAILABLE => cluster.able_ports(),
        status if status.is_success() => {
            let better = rate(request).and_then(|rate| cluster.better_port(rate));
            better.into_iter().collect()
        }
        _ => Vec::new(),
    };
    let ports = ports[..ports.len().min(MAX_PORTS)].join(",");
    if let Ok(ports) = HeaderValue::try_from(&ports)
        && !ports.is_empty()
    {
        response.headers_mut().insert(PORTS, ports);
    }
    response
}

/// Returns the rate that a client states. A text that is no rate counts as none.
fn rate(request: &HeaderMap) -> Option<f64> {
    let rate: f64 = request.get(RATE)?.to_str().ok()?.parse().ok()?;
    (rate.is_finite() && rate >= 0.0).then_some(rate)
}
