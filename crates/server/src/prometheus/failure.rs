//! Errors in the form of Prometheus: `{"status":"error","errorType":"bad_data","error":"…"}`.

use crate::api_error::ApiError;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seiner_promql::Error;
use serde_json::json;

/// Code of an error of the evaluation.
const EXECUTION: &str = "execution";
/// Code of a query whose time is over.
const TIMEOUT: &str = "timeout";

/// Error answer.
#[derive(Debug)]
pub struct Failure(ApiError);

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        Failure(error)
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Failure {
        Failure(error.into())
    }
}

/// Converts an error of a query.
pub fn of_query(error: Error) -> ApiError {
    match error {
        Error::Invalid(_) => ApiError::invalid(error),
        Error::Execution(_) | Error::Limit(_) => {
            ApiError::with(StatusCode::UNPROCESSABLE_ENTITY, EXECUTION, error)
        }
        Error::TimedOut | Error::Canceled => {
            ApiError::with(StatusCode::SERVICE_UNAVAILABLE, TIMEOUT, error)
        }
        Error::Store(error) => error.into(),
        other => ApiError::internal(other),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(of_query(error))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let kind = match self.0.code() {
            "invalid" => "bad_data",
            "not found" => "not_found",
            known @ (EXECUTION | TIMEOUT | "unavailable") => known,
            _ => "internal",
        };
        let body = json!({ "status": "error", "errorType": kind, "error": self.0.to_string() });
        let mut response = (self.0.status(), Json(body)).into_response();
        if let Some(seconds) = self.0.retry_s() {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
