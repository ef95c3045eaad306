//! What a request is answered that cannot be done: JSON with the reason and the remedy.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seiner_engine::Error;
use serde_json::json;
use std::time::Duration;
use std::{fmt, io};

/// An error answer.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// In how many seconds it is worth another try, where that is known.
    retry_s: Option<u64>,
}

impl Refusal {
    /// 400: the request makes no sense.
    pub fn invalid(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::BAD_REQUEST,
            code: "invalid",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// 404: there is nothing here.
    pub fn not_found(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::NOT_FOUND,
            code: "not found",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// 408: the request came too slowly.
    pub fn too_slow(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "invalid",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// 413: the request is too large.
    pub fn too_large(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            code: "invalid",
            message: message.to_string(),
            retry_s: None,
        }
    }

    /// 503: not now; come again.
    pub fn unavailable(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "unavailable",
            message: message.to_string(),
            retry_s: Some(1),
        }
    }

    /// 507: there is no room; `wait`: in about how long there is.
    pub fn full(message: impl ToString, wait: Option<Duration>) -> Refusal {
        Refusal {
            status: StatusCode::INSUFFICIENT_STORAGE,
            code: "full",
            message: message.to_string(),
            retry_s: wait.map(|wait| wait.as_secs().max(1)),
        }
    }

    /// 500: it is our fault or the disk's.
    pub fn internal(message: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "internal",
            message: message.to_string(),
            retry_s: None,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::Poisoned(_) | Error::Closed => Refusal::unavailable(error),
            Error::Full { relief, .. } => Refusal::full(error, relief.wait()),
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
    use seiner_engine::Relief;

    #[test]
    fn a_full_store_says_whether_waiting_helps() {
        let answer = |relief| {
            let error = Error::Full {
                used: 9,
                budget: 8,
                relief,
            };
            let refusal = Refusal::from(error);
            let text = refusal.to_string();
            let response = refusal.into_response();
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
