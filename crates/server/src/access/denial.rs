//! Reasons to deny a request, and their answers.

use super::scope::Scope;
use crate::api_error::ApiError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt;

/// Challenge of a 401. `Basic` would make browsers ask for a password before the page can.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"seiner\"");

/// Reason to deny a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The request has no token.
    Missing,
    /// The token is wrong or revoked.
    Wrong,
    /// The token is wrong, as were too many before. A retry is possible after this number of seconds.
    TooMany(u64),
    /// The token has not the scope.
    Scope {
        /// Name of the token.
        token: String,
        /// Scopes of the token.
        has: String,
        /// Scope that the request needs.
        needs: Scope,
    },
    /// The token has a selector, which the address cannot enforce.
    Selector {
        /// Name of the token.
        token: String,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::Missing => f.write_str(
                "this server needs a token; send the header Authorization: Bearer TOKEN, or create a token with \
                 `seiner token create NAME --scope read,write`",
            ),
            Denial::Wrong => f.write_str(
                "the token is wrong or revoked; `seiner token list` shows the tokens of this server",
            ),
            Denial::TooMany(seconds) => write!(
                f,
                "too many wrong tokens came from this address; try again in {seconds} s with a right one"
            ),
            Denial::Scope { token, has, needs } => write!(
                f,
                "the token {token} has the scope {has}, and this request needs the scope {}; create a token with it",
                needs.name()
            ),
            Denial::Selector { token } => write!(
                f,
                "the token {token} is limited to some sources, which this address cannot enforce; use a token without \
                 `where`"
            ),
        }
    }
}

impl Denial {
    /// Returns the error of HTTP. The header of a challenge is missing.
    pub fn error(&self) -> ApiError {
        match self {
            Denial::Missing | Denial::Wrong => {
                ApiError::with(StatusCode::UNAUTHORIZED, "unauthorized", self)
            }
            Denial::TooMany(seconds) => ApiError::too_many(self, *seconds),
            Denial::Scope { .. } | Denial::Selector { .. } => ApiError::forbidden(self),
        }
    }
}

impl IntoResponse for &Denial {
    fn into_response(self) -> Response {
        let mut response = self.error().into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, CHALLENGE);
        }
        response
    }
}
