//! Messages to an Alertmanager.

use crate::exchange::exchange;
use crate::secure::{self, Security};
use crate::settings::TargetAddress;
use axum::http::{Request, header};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::Value;
use std::time::Duration;

/// Maximum time of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Address of alerts in an Alertmanager.
const PATH: &str = "/api/v2/alerts";

/// Sends alerts.
///
/// # Errors
/// A sentence for people, if the Alertmanager cannot be reached in 10 s, or rejects the alerts.
pub async fn post(address: &TargetAddress, alerts: &[Value]) -> Result<(), String> {
    let sent = tokio::time::timeout(PATIENCE, send(address, alerts)).await;
    sent.map_err(|_| format!("there was no answer in {} s", PATIENCE.as_secs()))?
}

async fn send(address: &TargetAddress, alerts: &[Value]) -> Result<(), String> {
    let text = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
    let security = Security::of(address.is_encrypted, None);
    let socket = secure::connect(&address.host, address.port(), &security).await?;
    let prefix = address.path.as_deref().unwrap_or_default();
    let request = Request::post(format!("{}{PATH}", prefix.trim_end_matches('/')))
        .header(header::HOST, address.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(text)))
        .map_err(|error| format!("the request is invalid: {error}"))?;
    let sent = exchange(socket, request).await;
    let answer = sent
        .map_err(|error| format!("it did not answer by HTTP: {error}"))?
        .answer;
    match answer.status().is_success() {
        true => Ok(()),
        false => Err(format!("it answered {}", answer.status())),
    }
}
