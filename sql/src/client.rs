//! HTTP client of the server that holds the data. An answer that breaks off is an error.

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::net::TcpStream;

/// Maximum length of an answer that is kept in memory: lists of names, and errors.
const MAX_JSON_BYTES: usize = 64 << 20;
/// Maximum time for a connection to be established, and for a list of names to arrive.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Address of a server. Each request opens a connection of its own, so that a query that ends early closes it.
#[derive(Clone, Debug)]
pub struct Client {
    authority: String,
    /// Header with the token; `None` if the server needs none.
    authorization: Option<HeaderValue>,
}

impl Client {
    /// Reads an address such as `http://127.0.0.1:7670`.
    ///
    /// # Errors
    /// If the address is not one of plain HTTP with a host.
    pub fn new(address: &str) -> Result<Client> {
        let wrong = || {
            error(format!(
                "server {address:?} is not an address such as http://127.0.0.1:7670"
            ))
        };
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if uri.scheme_str() != Some("http") || uri.path() != "/" || uri.query().is_some() {
            return Err(wrong());
        }
        let port = authority.port_u16().unwrap_or(7670);
        Ok(Client {
            authority: format!("{}:{port}", authority.host()),
            authorization: None,
        })
    }

    /// Returns the client with a token for the server.
    ///
    /// # Errors
    /// If the token is not visible ASCII.
    pub fn with_token(self, token: &str) -> Result<Client> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| error("SEINER_TOKEN is not visible ASCII"))?;
        value.set_sensitive(true);
        Ok(Client {
            authorization: Some(value),
            ..self
        })
    }

    /// Sends a GET request and returns the answer if its status is a success.
    ///
    /// # Errors
    /// If the server cannot be reached, or with the text of the server's error.
    pub async fn get(&self, path: &str, pairs: &[(&str, &str)]) -> Result<Response<Incoming>> {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish();
        let mut request = Request::get(format!("{path}?{query}")).header("host", &self.authority);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|wrong| error(format!("request {path}: {wrong}")))?;
        let unreachable = |reason: String| {
            error(format!(
                "server {} cannot be reached: {reason}",
                self.authority
            ))
        };
        let socket = tokio::time::timeout(TIMEOUT, TcpStream::connect(&self.authority))
            .await
            .map_err(|_| unreachable("no answer in 30 s".into()))?
            .map_err(|reason| unreachable(reason.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(|reason| unreachable(reason.to_string()))?;
        tokio::spawn(connection);
        let answer = sender
            .send_request(request)
            .await
            .map_err(|reason| unreachable(reason.to_string()))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = self.whole(answer).await.unwrap_or_default();
        Err(error(format!(
            "server: {}",
            error_text(&body).unwrap_or(status.to_string())
        )))
    }

    /// Requests a JSON value.
    ///
    /// # Errors
    /// As [`Client::get`]; also if the answer is too long or not of type `T`.
    pub async fn json<T: DeserializeOwned>(&self, path: &str, pairs: &[(&str, &str)]) -> Result<T> {
        let late = |_| error(format!("server: {path} took longer than 30 s"));
        let body = tokio::time::timeout(TIMEOUT, async {
            self.whole(self.get(path, pairs).await?).await
        });
        let body = body.await.map_err(late)??;
        serde_json::from_slice(&body).map_err(|wrong| error(format!("server: {path}: {wrong}")))
    }

    async fn whole(&self, answer: Response<Incoming>) -> Result<Bytes> {
        let body = Limited::new(answer.into_body(), MAX_JSON_BYTES)
            .collect()
            .await;
        Ok(body
            .map_err(|reason| error(format!("server: {reason}")))?
            .to_bytes())
    }
}

/// Returns the text in `{"error":…}`, where the error is a text or an object with a `message`.
fn error_text(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str())?;
    Some(text.to_string())
}

/// Returns an error with this text.
pub fn error(text: impl Into<String>) -> DataFusionError {
    DataFusionError::Execution(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_plain_http() {
        assert_eq!(
            Client::new("http://127.0.0.1:80").unwrap().authority,
            "127.0.0.1:80"
        );
        assert_eq!(Client::new("http://[::1]").unwrap().authority, "[::1]:7670");
        for wrong in ["https://a", "127.0.0.1:80", "http://a/b", "http://a?b"] {
            assert!(Client::new(wrong).is_err(), "{wrong}");
        }
    }
}
