//! Error answers: JSON with the reason and the remedy.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use seiner_store::Error;
use serde_json::{Value, json};
use std::time::Duration;
use std::{fmt, io};

/// Maximum length of an error message that other code produced.
const MESSAGE_BYTES: usize = 64 << 10;
/// Remedy for a full file system.
const FREE_SPACE: &str =
    "free space on the file system of the data directory (`df`, `df -i`), and send it again";
/// Time after which other processes may have freed space.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Error answer.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Time in seconds after which a retry is useful, if known.
    retry_s: Option<u64>,
}

impl ApiError {
    /// Creates a 400: the request is not valid.
    pub fn invalid(message: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::BAD_REQUEST,
            code: "invalid",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// Creates a 403: the client may not make this request.
    pub fn forbidden(message: impl ToString) -> ApiError {
        ApiError::with(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Creates a 421: the request is for another host.
    pub fn misdirected(message: impl ToString) -> ApiError {
        ApiError::with(StatusCode::MISDIRECTED_REQUEST, "invalid", message)
    }

    /// Creates a 405: the address has other methods.
    pub fn other_method(message: impl ToString) -> ApiError {
        ApiError::with(StatusCode::METHOD_NOT_ALLOWED, "invalid", message)
    }

    /// Creates an answer with any status.
    pub(crate) fn with(status: StatusCode, code: &'static str, message: impl ToString) -> ApiError {
        ApiError {
            status,
            code,
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the code in the answer.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the time in seconds after which a retry is useful, if known.
    pub(crate) fn retry_s(&self) -> Option<u64> {
        self.retry_s
    }

    /// Creates a 404: the address does not exist.
    pub fn not_found(message: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::NOT_FOUND,
            code: "not found",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// Creates a 408: the request came too slowly.
    pub fn too_slow(message: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "invalid",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// Creates a 413: the request is too large.
    pub fn too_large(message: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            code: "invalid",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// Creates a 503: the client must retry later.
    pub fn unavailable(message: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "unavailable",
            message: message.to_string(),
            retry_s: Some(1),
        }
    }

    /// Creates a 507: there is no space. `wait` is the approximate time until there is.
    pub fn full(message: impl ToString, wait: Option<Duration>) -> ApiError {
        ApiError {
            status: StatusCode::INSUFFICIENT_STORAGE,
            code: "full",
            message: message.to_string(),
            retry_s: wait.map(|wait| wait.as_secs().max(1)),
        }
    }

    /// Creates a 429: the client made too many wrong requests. A retry is possible after `retry_s` seconds.
    pub fn too_many(message: impl ToString, retry_s: u64) -> ApiError {
        ApiError {
            retry_s: Some(retry_s),
            ..ApiError::with(StatusCode::TOO_MANY_REQUESTS, "too many", message)
        }
    }

    /// Creates a 500: the server or its disk failed.
    pub fn internal(message: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "internal",
            message: message.to_string(),
            retry_s: None,
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        match error {
            Error::Poisoned(_) | Error::Closed => ApiError::unavailable(error),
            Error::Full { relief, .. } => ApiError::full(error, relief.wait()),
            Error::Selector(_) | Error::Query(_) | Error::Rejected(_) | Error::Abandoned => {
                ApiError::invalid(error)
            }
            Error::UnknownSource(_) => ApiError::not_found(error),
            // Too few replicas of a cluster answer.
            Error::Io {
                error: ref cause, ..
            } if cause.kind() == io::ErrorKind::TimedOut => ApiError::unavailable(error),
            // The limit is that of the file system, whatever the budget is: other processes may free space.
            _ if error.is_out_of_space() => {
                ApiError::full(format!("{error}; {FREE_SPACE}"), Some(TRY_AGAIN))
            }
            _ => ApiError::internal(error),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// Finds an error answer inside an error of input and output, which wraps it.
impl From<ApiError> for io::Error {
    fn from(error: ApiError) -> io::Error {
        io::Error::other(error)
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> ApiError {
        error
            .downcast::<ApiError>()
            .unwrap_or_else(ApiError::internal)
    }
}

/// Blocking work fails only by a panic, which is a bug of the server.
impl From<tokio::task::JoinError> for ApiError {
    fn from(error: tokio::task::JoinError) -> ApiError {
        ApiError::internal(error)
    }
}

/// Body of every error answer.
pub fn body(code: &str, message: &str) -> Value {
    json!({ "error": message, "code": code, "message": message })
}

/// Returns the code of an error answer that other code produced.
fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not found",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_server_error() => "internal",
        _ => "invalid",
    }
}

/// Converts error answers that no handler made into JSON, such as those of unreadable parameters.
pub async fn in_json(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    // OTLP answers have the encoding of their requests.
    let own_kinds = [&b"application/json"[..], b"application/x-protobuf"];
    let is_own = |kind: &HeaderValue| own_kinds.iter().any(|own| kind.as_bytes().starts_with(own));
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !(status.is_client_error() || status.is_server_error()) || kind.is_some_and(is_own) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, MESSAGE_BYTES).await;
    let text = text.unwrap_or_default();
    let message = match String::from_utf8_lossy(&text).trim() {
        "" => status.canonical_reason().unwrap_or("rejected").to_string(),
        text => text.to_string(),
    };
    let answer = ApiError::with(status, code(status), message).into_response();
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        parts.headers.remove(name);
    }
    let (new, body) = answer.into_parts();
    parts.headers.extend(new.headers);
    Response::from_parts(parts, body)
}

/// Reason of a failure of the server, an extension of its answer, for the log. Reasons of other errors quote the client's
/// data, and are in its answer only.
#[derive(Clone, Debug)]
pub struct Reason(pub String);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = body(self.code, &self.message);
        let mut response = (self.status, Json(body)).into_response();
        if self.status.is_server_error() {
            response.extensions_mut().insert(Reason(self.message));
        }
        if let Some(seconds) = self.retry_s {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_store::Relief;

    #[test]
    fn a_file_system_without_space_is_no_fault_of_the_server() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = Error::Io {
                context: "writing journal-00000001".to_string(),
                error: kind.into(),
            };
            let response = ApiError::from(error).into_response();
            assert_eq!(response.status(), StatusCode::INSUFFICIENT_STORAGE);
            assert!(response.headers().contains_key(header::RETRY_AFTER));
        }
    }

    #[test]
    fn the_error_of_a_full_store_states_whether_waiting_helps() {
        let answer = |relief| {
            let error = Error::Full {
                used: 7,
                reserved: 1,
                budget: 8,
                relief,
            };
            let error = ApiError::from(error);
            let text = error.to_string();
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::INSUFFICIENT_STORAGE);
            let after = response.headers().get(header::RETRY_AFTER).cloned();
            (text, after.map(|after| after.to_str().unwrap().to_string()))
        };
        let (text, after) = answer(Relief::None);
        assert!(
            text.contains("waiting does not help") && after.is_none(),
            "{text}"
        );
        let (text, after) = answer(Relief::After(Duration::from_secs(7200)));
        assert!(text.contains("in about 2h"), "{text}");
        assert_eq!(after.as_deref(), Some("7200"));
    }
}
