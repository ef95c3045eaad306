//! Acceptance of connections, the same for all ports.

use crate::app_state::AppState;
use crate::connections::{Connection, Connections};
use crate::port;
use crate::shutdown::Stop;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tracing::Span;

/// Connection that has arrived.
pub struct Arrival {
    /// Socket.
    pub stream: TcpStream,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Number, unique among the connections of the server.
    pub number: u64,
}

impl Arrival {
    /// Returns the span of the connection, which gives its number to the lines of the log. Ports of HTTP have a span per
    /// request instead.
    pub fn span(&self) -> Span {
        tracing::error_span!("connection", connection_id = self.number)
    }
}

/// Accepts connections until the stop, and waits until all are closed. `serve` serves a connection in a task of its own.
/// If all permits are taken by busy connections, `turn_away` ends the connection. A connection may be closed for another
/// after an idle time of `least_idle`.
pub async fn accept<S, Served, T, Turned>(
    listener: TcpListener,
    app: Arc<AppState>,
    mut stop: Stop,
    least_idle: Duration,
    serve: S,
    turn_away: T,
) where
    S: Fn(Arrival, Arc<Connection>) -> Served + Clone + Send + 'static,
    Served: Future<Output = ()> + Send,
    T: Fn(TcpStream) -> Turned + Clone + Send + 'static,
    Turned: Future<Output = ()> + Send,
{
    let connections = Connections::new(app.settings.max_connections, least_idle);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    out_of_files(&error).await;
                    continue;
                }
            },
            () = stop.wanted() => break,
        };
        let arrival = Arrival {
            stream,
            peer,
            number: app.traffic.connections.fetch_add(1, Relaxed),
        };
        let (app, connections) = (app.clone(), connections.clone());
        let (serve, turn_away) = (serve.clone(), turn_away.clone());
        // The permit is taken here, so that connections get permits in the order of their arrival.
        let opened = connections.open();
        tokio::spawn(port::polled(async move {
            let opened = match opened {
                Some(connection) => Some(connection),
                None => connections.replace_idle().await,
            };
            match opened {
                Some(connection) => serve(arrival, connection).await,
                None => {
                    app.traffic.rejected_requests.fetch_add(1, Relaxed);
                    turn_away(arrival.stream).await;
                }
            }
        }));
    }
    drop(listener);
    connections.all_closed().await;
}

/// Closes a connection without an answer.
pub async fn close(stream: TcpStream) {
    drop(stream);
}

/// Logs that a connection was not accepted, and waits. The usual cause is too many open files, which is temporary.
async fn out_of_files(error: &std::io::Error) {
    tracing::warn!("a connection was not accepted: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Drives a connection of HTTP to its end. `leave` asks its client to end it: at the stop, or if another connection needs
/// the permit. In the latter case, the client has `leave_time` before the server closes the connection.
pub async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    slot: &Connection,
    mut stop: Stop,
    leave_time: Duration,
    leave: impl Fn(Pin<&mut C>),
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    tokio::select! {
        served = connection.as_mut() => served,
        () = stop.wanted() => {
            leave(connection.as_mut());
            connection.await
        }
        () = slot.must_close() => {
            leave(connection.as_mut());
            loop {
                match timeout(leave_time, connection.as_mut()).await {
                    Ok(served) => break served,
                    // A request came at the last moment.
                    Err(_) if slot.is_busy() => {}
                    Err(_) => break Ok(()),
                }
            }
        }
    }
}
