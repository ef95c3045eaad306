//! What a request is answered that cannot be done: JSON with the reason and the remedy.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seiner_engine::Error;
use serde_json::json;
use std::{fmt, io};

/// An error answer.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    /// 400: the request makes no sense.
    pub fn invalid(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::BAD_REQUEST,
            code: "invalid",
            message: message.to_string(),
        }
    }

    /// 404: there is nothing here.
    pub fn not_found(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::NOT_FOUND,
            code: "not found",
            message: message.to_string(),
        }
    }

    /// 408: the request came too slowly.
    pub fn too_slow(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "invalid",
            message: message.to_string(),
        }
    }

    /// 413: the request is too large.
    pub fn too_large(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            code: "invalid",
            message: message.to_string(),
        }
    }

    /// 503: not now; come again.
    pub fn unavailable(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "unavailable",
            message: message.to_string(),
        }
    }

    /// 507: there is no room, and waiting alone gives none.
    pub fn full(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::INSUFFICIENT_STORAGE,
            code: "full",
            message: message.to_string(),
        }
    }

    /// 500: it is our fault or the disk's.
    pub fn internal(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "internal",
            message: message.to_string(),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::Poisoned(_) | Error::Closed => Refusal::unavailable(error),
            Error::Full { .. } => Refusal::full(error),
            Error::Selector(_) | Error::Query(_) => Refusal::invalid(error),
            Error::UnknownSource(_) => Refusal::not_found(error),
            _ => Refusal::internal(error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// Through code that only knows errors of input and output, a refusal comes wrapped in one.
impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        io::Error::other(refusal)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        error
            .downcast::<Refusal>()
            .unwrap_or_else(Refusal::internal)
    }
}

/// Blocking work fails only by a panic, which is our bug.
impl From<tokio::task::JoinError> for Refusal {
    fn from(error: tokio::task::JoinError) -> Refusal {
        Refusal::internal(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.message, "code": self.code, "message": self.message });
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
