//! The HTTP port: accepts connections, bounded in number, size and patience.

use crate::crowd::{Crowd, Member, Serving};
use crate::hosts::Local;
use crate::http;
use crate::shutdown::Stop;
use crate::socket::Socket;
use crate::station::Station;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The largest frame. At 64 KiB what a frame costs shows as some 10 ns a line; beyond 128 KiB
/// nothing more is gained, and each connection would hold the more memory.
const FRAME_BYTES: usize = 128 << 10;

/// The longest request head.
const HEAD_BYTES: usize = 32 << 10;

/// What a connection may take its time for.
#[derive(Clone, Copy)]
struct Patience {
    /// To be silent between requests, and to send the head of one.
    head: Duration,
    /// To read nothing of an answer.
    read: Duration,
    /// To be idle without giving way to a new connection that finds no place.
    idle: Duration,
}

const PATIENCE: Patience = Patience {
    head: Duration::from_secs(75),
    read: Duration::from_secs(30),
    idle: Duration::from_secs(1),
};

/// How long an idle connection that is to leave may take to end by itself.
const LEAVE_TIME: Duration = Duration::from_millis(100);

/// What a connection beyond the limit is told.
const FULL: &str = "{\"error\":\"too many connections; come again, or raise max_connections\",\
    \"code\":\"unavailable\",\"message\":\"too many connections; come again, or raise max_connections\"}";

/// Serves HTTP until the stop, then finishes the requests in flight.
pub async fn serve(listener: TcpListener, station: Arc<Station>, stop: Stop) {
    let router = http::router(station.clone());
    accept(listener, router, station, stop, PATIENCE).await;
}

async fn accept(
    listener: TcpListener,
    router: Router,
    station: Arc<Station>,
    mut stop: Stop,
    patience: Patience,
) {
    let crowd = Crowd::new(station.settings.max_connections, patience.idle);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    out_of_files(&error).await;
                    continue;
                }
            },
            () = stop.wanted() => break,
        };
        station.meters.connections.fetch_add(1, Relaxed);
        let (crowd, router) = (crowd.clone(), router.clone());
        let (station, stop) = (station.clone(), stop.clone());
        // Taken here, so that connections have places in the order in which they came.
        let place = crowd.enter();
        tokio::spawn(async move {
            let place = match place {
                Some(place) => Some(place),
                None => crowd.supplant().await,
            };
            match place {
                Some(member) => connection(stream, router, stop, member, patience).await,
                None => {
                    station.meters.turned_away.fetch_add(1, Relaxed);
                    turn_away(stream).await;
                }
            }
        });
    }
    drop(listener);
    crowd.emptied().await;
}

/// Too many open files is the likely reason why nothing can be accepted; it passes.
pub async fn out_of_files(error: &std::io::Error) {
    tracing::warn!("a connection was not accepted: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn turn_away(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{FULL}",
        FULL.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // A request that is thrown away unread would take the answer with it.
        stream.read(&mut [0; 4096]).await
    };
    // The answer fits the socket's buffer; where it does not, closing says enough.
    let _ = tokio::time::timeout(Duration::from_millis(50), told).await;
}

async fn connection(
    stream: TcpStream,
    router: Router,
    mut stop: Stop,
    member: Arc<Member>,
    patience: Patience,
) {
    // Answers are written in one piece: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().map(Local::of).ok();
    let router = TowerToHyperService::new(router);
    let busy = member.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(local) = local {
            request.extensions_mut().insert(local);
        }
        let serving = busy.serve();
        let answer = router.call(request);
        async move {
            let answer = answer.await?;
            Ok::<_, Infallible>(answer.map(|body| Answer {
                body,
                _serving: serving,
            }))
        }
    });
    let socket = Socket::new(stream, member.clone(), patience.read);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(FRAME_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.wanted() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = member.asked_to_leave() => {
            connection.as_mut().graceful_shutdown();
            loop {
                match timeout(LEAVE_TIME, connection.as_mut()).await {
                    Ok(served) => break served,
                    // A request came at the last moment.
                    Err(_) if member.is_busy() => {}
                    Err(_) => break Ok(()),
                }
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!("connection: {error}");
    }
}

/// A body of an answer, with which its connection is busy until all of it has been taken.
struct Answer {
    body: Body,
    _serving: Serving,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
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
    use axum::routing::get;
    use seiner_engine::{Engine, Options};
    use std::net::SocketAddr;
    use std::time::Instant;

    /// A port with little patience and a router of one large answer.
    async fn port(head_ms: u64, read_ms: u64) -> (SocketAddr, tempfile::TempDir) {
        let data = tempfile::tempdir().unwrap();
        let settings = crate::Settings {
            data: data.path().to_path_buf(),
            ..crate::Settings::default()
        };
        let engine = Engine::open_directory(&settings.data, Options::default()).unwrap();
        let station = Arc::new(Station::new(engine, None, settings));
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
            accept(listener, router, station, stop, patience).await;
        });
        (address, data)
    }

    /// How long until the server closes the connection.
    async fn closed_after(stream: &mut TcpStream) -> Duration {
        let began = Instant::now();
        let mut rest = Vec::new();
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
        began.elapsed()
    }

    #[tokio::test]
    async fn silent_and_slow_senders_of_heads_are_closed() {
        let (address, _data) = port(200, 10_000).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert!(closed_after(&mut silent).await < Duration::from_secs(3));
        let mut slow = TcpStream::connect(address).await.unwrap();
        let began = Instant::now();
        while slow.write_all(b"x").await.is_ok() {
            assert!(
                began.elapsed() < Duration::from_secs(3),
                "a byte now and then keeps it open"
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
    async fn readers_that_do_not_read_are_closed() {
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
