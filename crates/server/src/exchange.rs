//! Requests that the server sends as a client of HTTP/1.

use crate::secure::Link;
use axum::http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::task::JoinSet;

/// Answer of a server, whose body is still to be read.
pub struct Exchange {
    /// Answer.
    pub answer: Response<Incoming>,
    /// Task of the connection. The connection ends when the set is dropped.
    _connection: JoinSet<hyper::Result<()>>,
}

/// Sends a request over a connection, and waits for the head of the answer.
///
/// # Errors
/// If the other side does not answer by HTTP.
pub async fn exchange<B>(link: Link, request: Request<B>) -> hyper::Result<Exchange>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(link)).await?;
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    Ok(Exchange {
        answer: sender.send_request(request).await?,
        _connection: connections,
    })
}
