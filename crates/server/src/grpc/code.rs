//! Codes of gRPC for errors.

use crate::api_error::ApiError;
use axum::http::StatusCode;

pub const INVALID_ARGUMENT: i32 = 3;
pub const UNIMPLEMENTED: i32 = 12;
const RESOURCE_EXHAUSTED: i32 = 8;
const INTERNAL: i32 = 13;
pub const UNAVAILABLE: i32 = 14;
const DEADLINE_EXCEEDED: i32 = 4;
const PERMISSION_DENIED: i32 = 7;
const UNAUTHENTICATED: i32 = 16;

/// Returns the code of an error. Clients repeat requests with the codes `UNAVAILABLE` and `DEADLINE_EXCEEDED`.
pub fn of(error: &ApiError) -> i32 {
    match error.status() {
        StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        // There will be space if waiting helps.
        StatusCode::INSUFFICIENT_STORAGE if error.retry_s().is_some() => UNAVAILABLE,
        StatusCode::INSUFFICIENT_STORAGE => RESOURCE_EXHAUSTED,
        StatusCode::REQUEST_TIMEOUT => DEADLINE_EXCEEDED,
        StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
        StatusCode::FORBIDDEN => PERMISSION_DENIED,
        StatusCode::TOO_MANY_REQUESTS => RESOURCE_EXHAUSTED,
        status if status.is_client_error() => INVALID_ARGUMENT,
        _ => INTERNAL,
    }
}
