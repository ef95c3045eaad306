//! HTTP port: accepts connections, with limits of number, size and time.

use crate::accept::{Arrival, accept, drive};
use crate::access::Peer;
use crate::app_state::AppState;
use crate::connections::{Connection, Serving};
use crate::hosts::Local;
use crate::http;
use crate::request_id::{HEADER, RequestId};
use crate::requests::{Client, RequestRecord};
use crate::secure::Link;
use crate::shutdown::Stop;
use crate::socket::Socket;
use crate::tls::Inside;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use http_body::{Frame, SizeHint};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::Instrument;

/// Maximum size of a frame. At 64 KiB the cost of a frame is about 10 ns a line; more than 128 KiB
/// gains nothing, and each connection would hold more memory.
const FRAME_BYTES: usize = 128 << 10;

/// Maximum length of a request head.
const HEAD_BYTES: usize = 32 << 10;

/// Time limits of a connection.
#[derive(Clone, Copy)]
struct Patience {
    /// Maximum silence between requests, and maximum time for the head of a request.
    head: Duration,
    /// Maximum time without reading from an answer.
    read: Duration,
    /// Idle time after which the connection may be closed for a new one without a permit.
    idle: Duration,
}

const PATIENCE: Patience = Patience {
    head: Duration::from_secs(75),
    read: Duration::from_secs(30),
    idle: Duration::from_secs(1),
};

/// Time for a client to end its idle connection before the server closes the connection.
const LEAVE_TIME: Duration = Duration::from_millis(100);

/// Answer to a connection beyond the limit, before the id of its request.
const FULL: &str = "{\"error\":\"too many connections; try again, or raise max_connections\",\
    \"code\":\"unavailable\",\"message\":\"too many connections; try again, or raise max_connections\",\
    \"request_id\":";

/// Encryption of the connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// TLS if there is a certificate.
    Any,
    /// None.
    Plain,
}

/// Serves HTTP until the stop, then finishes the requests in flight.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop, wire: Wire) {
    let router = http::router(app.clone());
    accept_all(listener, router, app, stop, PATIENCE, wire).await;
}

async fn accept_all(
    listener: TcpListener,
    router: Router,
    app: Arc<AppState>,
    stop: Stop,
    patience: Patience,
    wire: Wire,
) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection| {
        let (app, router, until) = (of.clone(), router.clone(), until.clone());
        async move {
            let client = Client {
                connection: arrival.number,
                address: arrival.peer,
            };
            // Answers are written in one piece: waiting for more would only delay them.
            let _ = arrival.stream.set_nodelay(true);
            let local = arrival.stream.local_addr().map(Local::of).ok();
            let secured = match wire {
                Wire::Any => app.secure(arrival.stream, Inside::Http1).await,
                Wire::Plain => Ok(Box::new(arrival.stream) as Link),
            };
            match secured {
                Ok(stream) => {
                    let ends = (local, client);
                    let of = (app, router);
                    serve_connection(stream, ends, of, until, connection, patience).await;
                }
                Err(error) => tracing::debug!("TLS with {}: {error}", client.address),
            }
        }
    };
    accept(listener, app, stop, patience.idle, serve, turn_away).await;
}

async fn turn_away(mut stream: TcpStream) {
    // The request is not read, so its own id is not known.
    let id = RequestId::generate();
    let body = format!("{FULL}\"{id}\"}}");
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n{HEADER}: {id}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let rejection = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Discarding an unread request would discard the answer as well.
        stream.read(&mut [0; 4096]).await
    };
    // The answer fits the buffer of the socket; otherwise closing the connection is answer enough.
    let _ = tokio::time::timeout(Duration::from_millis(50), rejection).await;
}

async fn serve_connection(
    stream: Link,
    (local, client): (Option<ConnectInfo<Local>>, Client),
    (app, router): (Arc<AppState>, Router),
    stop: Stop,
    slot: Arc<Connection>,
    patience: Patience,
) {
    let router = TowerToHyperService::new(router);
    let busy = slot.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut record, mut request) = RequestRecord::begin(&app, client, request);
        if let Some(local) = local {
            request.extensions_mut().insert(local);
        }
        request.extensions_mut().insert(Peer(client.address.ip()));
        let serving = busy.serve();
        let answer = router.call(request).instrument(record.span().clone());
        async move {
            let answer = record.answer(answer.await?).await;
            Ok::<_, Infallible>(answer.map(|body| Answer {
                body,
                record,
                _serving: serving,
            }))
        }
    });
    let socket = Socket::new(stream, slot.clone(), patience.read);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(FRAME_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let leave = |connection: Pin<&mut http1::Connection<_, _>>| connection.graceful_shutdown();
    let served = drive(connection, &slot, stop, LEAVE_TIME, leave).await;
    if let Err(error) = served {
        tracing::debug!("connection: {error}");
    }
}

/// Body of an answer. Its connection counts as busy until the whole body has been taken. Then its request is logged.
struct Answer {
    body: Body,
    record: RequestRecord,
    _serving: Serving,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let answer = self.get_mut();
        let polled = {
            let _in = answer.record.span().enter();
            Pin::new(&mut answer.body).poll_frame(context)
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            answer.record.count(bytes.len());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::app_state::Extensions;
    use axum::routing::get;
    use seiner_store::MemoryStore;
    use std::net::SocketAddr;
    use tokio::time::timeout;

    /// Returns a port with short time limits and a router with one large answer.
    async fn port(head_ms: u64, read_ms: u64) -> (SocketAddr, tempfile::TempDir) {
        let data = tempfile::tempdir().unwrap();
        let settings = crate::Settings {
            data: data.path().to_path_buf(),
            ..crate::Settings::default()
        };
        let store = Arc::new(MemoryStore::new());
        let access = Access::open(&settings).unwrap();
        let app = Arc::new(AppState::new(
            store,
            Extensions::default(),
            settings,
            (access, None),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let large = || async { vec![b'x'; 64 << 20] };
        let router = Router::new().route("/", get(large));
        let patience = Patience {
            head: Duration::from_millis(head_ms),
            read: Duration::from_millis(read_ms),
            idle: Duration::from_secs(1),
        };
        let (switch, stop) = crate::shutdown::stop();
        tokio::spawn(async move {
            let _switch = switch;
            accept_all(listener, router, app, stop, patience, Wire::Any).await;
        });
        (address, data)
    }

    /// Returns the time until the server closes the connection.
    async fn closed_after(stream: &mut TcpStream) -> Duration {
        let began = crate::time::now();
        let mut rest = Vec::new();
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
        began.elapsed()
    }

    #[tokio::test]
    async fn connections_with_silent_or_slow_heads_are_closed() {
        let (address, _data) = port(200, 10_000).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert!(closed_after(&mut silent).await < Duration::from_secs(3));
        let mut slow = TcpStream::connect(address).await.unwrap();
        let began = crate::time::now();
        while slow.write_all(b"x").await.is_ok() {
            assert!(
                began.elapsed() < Duration::from_secs(3),
                "single bytes keep the connection open"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET /none HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert!(closed_after(&mut idle).await < Duration::from_secs(3));
    }

    #[tokio::test]
    async fn connections_whose_clients_do_not_read_are_closed() {
        let (address, _data) = port(10_000, 200).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        let mut answer = Vec::new();
        let read = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        assert!(
            read.is_ok() && answer.len() < 64 << 20,
            "{} bytes",
            answer.len()
        );
    }
}
