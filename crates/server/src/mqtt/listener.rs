//! Port for devices that publish without a broker.
//!
//! The port takes messages of QoS 0 to 2 and rejects subscriptions. No session outlives its connection: a device sends
//! messages without an acknowledgement again when it connects. If requests need a token, a device presents the token as
//! its password.

use crate::accept::{Arrival, accept, close};
use crate::access::{Credentials, Denial, Token, Wanted};
use crate::app_state::AppState;
use crate::connections::Connection;
use crate::mqtt::exchange::Exchange;
use crate::mqtt::packets::{
    PortLimits, connack, disconnect, no_subscriptions, password, unauthorized,
};
use crate::mqtt::session::{Ended, Session};
use crate::shutdown::Stop;
use crate::tls::Inside;
use mqtt_protocol_core::mqtt::Version;
use mqtt_protocol_core::mqtt::packet::Packet;
use mqtt_protocol_core::mqtt::result_code::DisconnectReasonCode;
use mqtt_protocol_core::mqtt::role::Server;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tracing::Instrument;

/// Maximum time from the connection to the CONNECT.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Idle time of a device after which its connection may be closed for a new one. Devices connect again.
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Receives messages until the stop.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection: Arc<Connection>| {
        let (app, stop, span) = (of.clone(), until.clone(), arrival.span());
        let served = async move {
            let peer = arrival.peer;
            if let Err(ended) = attend(arrival, &app, &connection, stop).await {
                tracing::debug!("MQTT from {peer}: {ended}");
            }
        };
        served.instrument(span)
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

/// Serves one device.
async fn attend(
    arrival: Arrival,
    app: &Arc<AppState>,
    connection: &Arc<Connection>,
    mut stop: Stop,
) -> Result<(), Ended> {
    let max_packet = app.settings.mqtt.max_packet;
    let limits = PortLimits {
        max_packet,
        connection: arrival.number,
    };
    // Acknowledgements are written in one piece: waiting for more would only delay them.
    let _ = arrival.stream.set_nodelay(true);
    let stream = app.secure(arrival.stream, Inside::Mqtt).await;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    let mut session = Session::with_device(stream, max_packet);
    let peer = arrival.peer.ip();
    let opening = open(&mut session, limits, |connect| admit(app, connect, peer));
    let opened = tokio::select! {
        opened = tokio::time::timeout(CONNECT_TIME, opening) => opened,
        () = stop.wanted() => return Ok(()),
    };
    let (token, mut packets) = opened.map_err(|_| "no CONNECT arrived")??;
    let app = app.of(token.as_deref());
    let mut exchange = Exchange::with_device(&app, &stop);
    loop {
        if !app.access.is_valid(token.as_ref()) {
            return end(session, DisconnectReasonCode::NotAuthorized).await;
        }
        let serving = connection.serve();
        for packet in exchange.take(&mut session, packets).await? {
            if !answer(&mut session, &packet)? {
                return Ok(());
            }
        }
        session.flush().await?;
        drop(serving);
        packets = tokio::select! {
            // Packets may arrive all the time.
            biased;
            () = stop.wanted() => return end(session, DisconnectReasonCode::ServerShuttingDown).await,
            received = session.receive() => received?,
            () = connection.must_close() => {
                tracing::warn!("a device was idle the longest and is closed for another connection; raise max_connections");
                return end(session, DisconnectReasonCode::QuotaExceeded).await;
            }
        };
    }
}

/// Returns the token of a CONNECT, which is its password; `None` if requests need none.
fn admit(app: &AppState, connect: &Packet, peer: IpAddr) -> Result<Option<Arc<Token>>, Denial> {
    let credentials = match password(connect).map(str::from_utf8) {
        None => Credentials::Missing,
        Some(Ok(text)) => Credentials::Token(text.to_string()),
        Some(Err(_)) => Credentials::Unreadable,
    };
    app.access.admit(&credentials, Wanted::WRITE, peer)
}

/// Answers the CONNECT of a device. Returns its token and the packets after it.
async fn open(
    session: &mut Session<Server>,
    limits: PortLimits,
    admit: impl Fn(&Packet) -> Result<Option<Arc<Token>>, Denial>,
) -> Result<(Option<Arc<Token>>, Vec<Packet>), Ended> {
    loop {
        let mut packets = session.receive().await?;
        if packets.is_empty() {
            continue;
        }
        let first = packets.remove(0);
        let token = match admit(&first) {
            Ok(token) => token,
            Err(denial) => {
                let answer = unauthorized(&first);
                session.send(answer.map_err(|_| "the first packet is not a CONNECT")?);
                session.flush().await?;
                return Err(denial.to_string());
            }
        };
        let (answer, is_accepted) =
            connack(&first, limits).map_err(|_| "the first packet is not a CONNECT")?;
        session.send(answer);
        session.flush().await?;
        match is_accepted {
            true => return Ok((token, packets)),
            false => return Err("the CONNECT was rejected".to_string()),
        }
    }
}

/// Answers a packet that is not a message. Returns false if the device disconnects.
fn answer(session: &mut Session<Server>, packet: &Packet) -> Result<bool, Ended> {
    match packet {
        Packet::V3_1_1Disconnect(_) | Packet::V5_0Disconnect(_) => return Ok(false),
        Packet::V3_1_1Pingreq(_) | Packet::V5_0Pingreq(_) => return Ok(true),
        _ => {}
    }
    let rejection = no_subscriptions(packet).map_err(|error| error.to_string())?;
    let rejection = rejection.ok_or("a packet arrived that only a broker sends")?;
    session.send(rejection);
    Ok(true)
}

/// Ends a session with a reason.
async fn end(mut session: Session<Server>, reason: DisconnectReasonCode) -> Result<(), Ended> {
    // Version 3.1.1 has no DISCONNECT of a server.
    if session.version() == Version::V5_0 {
        let packet = disconnect(session.version(), reason).map_err(|error| error.to_string())?;
        session.send(packet);
        session.flush().await?;
    }
    Ok(())
}
