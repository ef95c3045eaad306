//! Port of PostgreSQL's protocol: encryption and password are checked here, the rest is passed on to the program.

use super::{WANTED, reason};
use crate::accept::{Arrival, accept, close};
use crate::access::{Credentials, Denial, Token};
use crate::app_state::AppState;
use crate::connections::Connection;
use crate::secure::Link;
use crate::shutdown::Stop;
use crate::tls::{Inside, begins_tls};
use anyhow::{Context, Result, bail, ensure};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::Instrument;

/// Idle time of a client after which its connection may be closed for a new one.
const LEAST_IDLE: Duration = Duration::from_secs(60);
/// Maximum time until a client has presented its token.
const OPEN_TIME: Duration = Duration::from_secs(20);
/// Time between two checks whether the token of a connection is still valid.
const CHECK_TIME: Duration = Duration::from_secs(1);

/// Codes in the first packet of a client, in place of a version.
const CANCEL: u32 = 80_877_102;
const ENCRYPT_BY_TLS: u32 = 80_877_103;
const ENCRYPT_BY_GSS: u32 = 80_877_104;
/// Maximum length of the first packet, as in PostgreSQL.
const MAX_START: usize = 10_000;
/// Maximum length of the packet with the password.
const MAX_PASSWORD: usize = 1000;

/// SQLSTATE of errors.
const WRONG_PASSWORD: &str = "28P01";
const NOT_PERMITTED: &str = "42501";
const NOT_ENCRYPTED: &str = "28000";
const NOT_RUNNING: &str = "57P03";

/// Passes connections on until the stop.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection: Arc<Connection>| {
        let (app, mut stop, span) = (of.clone(), until.clone(), arrival.span());
        let served = async move {
            let peer = arrival.peer;
            let served = tokio::select! {
                served = serve_client(arrival.stream, &app, peer.ip()) => served,
                () = stop.wanted() => Ok(()),
                () = connection.must_close() => Ok(()),
            };
            if let Err(error) = served {
                tracing::warn!("the PostgreSQL client {peer} was closed: {error:#}");
            }
        };
        served.instrument(span)
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

async fn serve_client(stream: TcpStream, app: &AppState, peer: IpAddr) -> Result<()> {
    // Messages are written in one piece: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let opened = tokio::time::timeout(OPEN_TIME, open(stream, app, peer)).await;
    let mut client = match opened.context("it presented no token in time")?? {
        Opened::Session(client) => client,
        Opened::Cancel(link, request) => return cancel(link, &request, app).await,
    };
    let mut program = match app.sql.connect(|addresses| addresses.postgres).await {
        Ok(program) => program,
        Err(error) => {
            let message = format!("{error:#}");
            return reject(&mut client.link, NOT_RUNNING, &message).await;
        }
    };
    let _ = program.set_nodelay(true);
    program.write_all(&client.start).await?;
    tokio::select! {
        // A connection that breaks off is the end of a connection.
        _ = tokio::io::copy_bidirectional(&mut client.link, &mut program) => Ok(()),
        () = until_invalid(app, client.token.as_ref()) => bail!("its token was revoked"),
    }
}

/// Waits until a connection that was admitted is no longer valid.
async fn until_invalid(app: &AppState, token: Option<&Arc<Token>>) {
    while app.access.is_valid(token) {
        tokio::time::sleep(CHECK_TIME).await;
    }
}

/// Passes a request to cancel a query on, and nothing that follows it: the client has presented no token. The client
/// waits until its connection is closed.
async fn cancel(link: Link, request: &[u8], app: &AppState) -> Result<()> {
    let mut program = app.sql.connect(|addresses| addresses.postgres).await?;
    program.write_all(request).await?;
    program.shutdown().await?;
    let mut answer = tokio::io::sink();
    let ended = tokio::io::copy(&mut program, &mut answer);
    let ended = tokio::time::timeout(OPEN_TIME, ended).await;
    drop(link);
    ended.context("seiner-sql did not end a request to cancel")??;
    Ok(())
}

/// Connection after its first packet.
enum Opened {
    /// Client that may send queries.
    Session(Client),
    /// Request to cancel a query of another connection, whose key it contains.
    Cancel(Link, Vec<u8>),
}

/// Client that may send queries.
struct Client {
    link: Link,
    /// First packet, for the program.
    start: Vec<u8>,
    /// Token; `None` if requests need none.
    token: Option<Arc<Token>>,
}

/// Begins a connection.
async fn open(mut stream: TcpStream, app: &AppState, peer: IpAddr) -> Result<Opened> {
    let is_secured = app.tls.is_some();
    if is_secured && begins_tls(&stream).await? {
        return open_secured(stream, app, peer).await;
    }
    loop {
        let start = packet(&mut stream, MAX_START).await?;
        match code(&start) {
            ENCRYPT_BY_TLS if is_secured => {
                stream.write_all(b"S").await?;
                return open_secured(stream, app, peer).await;
            }
            ENCRYPT_BY_TLS | ENCRYPT_BY_GSS => stream.write_all(b"N").await?,
            // Clients cancel without encryption.
            CANCEL => return Ok(Opened::Cancel(Box::new(stream), start)),
            _ if is_secured => {
                let message = "this server accepts encrypted connections only; set sslmode=require";
                return reject(&mut stream, NOT_ENCRYPTED, message).await;
            }
            _ => return admit(Box::new(stream), start, app, peer).await,
        }
    }
}

async fn open_secured(stream: TcpStream, app: &AppState, peer: IpAddr) -> Result<Opened> {
    let mut link = app.secure(stream, Inside::Postgres).await?;
    let start = packet(&mut link, MAX_START).await?;
    match code(&start) {
        CANCEL => Ok(Opened::Cancel(link, start)),
        _ => admit(link, start, app, peer).await,
    }
}

/// Asks for a password, if requests need a token, and checks it.
async fn admit(mut link: Link, start: Vec<u8>, app: &AppState, peer: IpAddr) -> Result<Opened> {
    let mut credentials = Credentials::Missing;
    if app.access.is_required() {
        credentials = password(&mut link).await?;
    }
    match app.access.admit(&credentials, WANTED, peer) {
        Ok(token) => Ok(Opened::Session(Client { link, start, token })),
        Err(denial) => {
            let state = match denial {
                Denial::Missing | Denial::Wrong | Denial::TooMany(_) => WRONG_PASSWORD,
                Denial::Scope { .. } | Denial::Selector { .. } => NOT_PERMITTED,
            };
            let message = reason(&denial, "any user and the token as password");
            reject(&mut link, state, &message).await
        }
    }
}

/// Asks for the password in clear text: it is a random token, and TLS encrypts it.
async fn password(link: &mut Link) -> Result<Credentials> {
    const ASK: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];
    link.write_all(&ASK).await?;
    link.flush().await?;
    let kind = link.read_u8().await?;
    ensure!(kind == b'p', "it sent no password");
    let answer = packet(link, MAX_PASSWORD).await?;
    let text = &answer[4..];
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    Ok(match std::str::from_utf8(text) {
        Ok("") => Credentials::Missing,
        Ok(text) => Credentials::Token(text.to_string()),
        Err(_) => Credentials::Unreadable,
    })
}

/// Reads a packet, which begins with its length.
async fn packet(stream: &mut (impl AsyncRead + Unpin), longest: usize) -> Result<Vec<u8>> {
    let len = stream.read_u32().await? as usize;
    ensure!(
        (4..=longest).contains(&len),
        "its first bytes are not of PostgreSQL's protocol"
    );
    let mut packet = vec![0; len];
    packet[..4].copy_from_slice(&(len as u32).to_be_bytes());
    stream.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}

/// Returns the code of a first packet, or its version.
fn code(packet: &[u8]) -> u32 {
    match packet.get(4..8) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Sends an error that ends the connection, and returns it.
async fn reject<T>(
    stream: &mut (impl AsyncWrite + Unpin),
    state: &str,
    message: &str,
) -> Result<T> {
    let message = message.replace('\0', " ");
    let fields = format!("SFATAL\0VFATAL\0C{state}\0M{message}\0\0");
    let mut error = vec![b'E'];
    error.extend_from_slice(&(fields.len() as u32 + 4).to_be_bytes());
    error.extend_from_slice(fields.as_bytes());
    stream.write_all(&error).await?;
    stream.shutdown().await?;
    bail!("{message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn packets_have_a_limit() {
        let whole = [0, 0, 0, 8, 4, 210, 22, 47];
        let read = packet(&mut &whole[..], MAX_START).await.unwrap();
        assert_eq!((read.as_slice(), code(&read)), (&whole[..], ENCRYPT_BY_TLS));
        for wrong in [
            &[][..],
            &[0, 0, 0, 3],
            &[0, 0, 0, 8, 1],
            b"GET / HTTP/1.1\r\n",
        ] {
            assert!(packet(&mut &wrong[..], MAX_START).await.is_err());
        }
        let shortest = packet(&mut &[0, 0, 0, 4][..], MAX_START).await.unwrap();
        assert_eq!(code(&shortest), 0);
    }

    #[tokio::test]
    async fn errors_have_the_form_of_the_protocol() {
        let mut sent = Vec::new();
        let error: Result<()> = reject(&mut sent, NOT_ENCRYPTED, "set\0sslmode").await;
        error.unwrap_err();
        assert_eq!(sent[0], b'E');
        assert_eq!(sent[1..5], (sent.len() as u32 - 1).to_be_bytes());
        assert!(sent.ends_with(b"SFATAL\0VFATAL\0C28000\0Mset sslmode\0\0"));
    }
}
