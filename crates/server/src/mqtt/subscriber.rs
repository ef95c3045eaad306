//! Subscriber of a broker. A connection that ends is followed by another one, after a delay that grows.
//!
//! The session at the broker outlives the connection and the process: the broker repeats messages without an
//! acknowledgement. Nothing here delays the start of the server.

use crate::app_state::AppState;
use crate::host::host_name;
use crate::mqtt::exchange::Exchange;
use crate::mqtt::packets::{
    Login, connect, connected, disconnect, rejected_filters, subscribe as request,
};
use crate::mqtt::session::{Ended, Session};
use crate::port;
use crate::secure::{self, Security};
use crate::settings::{Broker, MqttSettings, MqttVersion};
use crate::shutdown::Stop;
use mqtt_protocol_core::mqtt::Version;
use mqtt_protocol_core::mqtt::packet::Packet;
use mqtt_protocol_core::mqtt::result_code::DisconnectReasonCode;
use mqtt_protocol_core::mqtt::role::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Environment variable with the password of the broker's user.
const PASSWORD: &str = "SEINER_MQTT_PASSWORD";
/// Time before another connection: at first, and at most.
const DELAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Maximum time for a connection, and for the answer to a CONNECT.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum time from a PINGREQ to its answer.
const PING_TIME: Duration = Duration::from_secs(20);
/// Maximum silence of the client.
const KEEP_ALIVE_S: u16 = 60;

/// Subscribes to a broker until the stop.
pub async fn subscribe(broker: Broker, app: Arc<AppState>, mut stop: Stop) {
    let mut delay = DELAY.0;
    loop {
        // A task of its own: a panic must not end the subscription. Dropping the set ends the task.
        let mut task = JoinSet::new();
        let was_connected = {
            let (broker, app, stop) = (broker.clone(), app.clone(), stop.clone());
            task.spawn(port::polled(attend(broker, app, stop)));
            task.join_next().await
        };
        let (reason, was_connected) = match was_connected {
            Some(Ok(Ok(()))) | None => {
                app.mqtt.note_stopped();
                return;
            }
            Some(Ok(Err(end))) => (end.reason, end.was_connected),
            Some(Err(error)) => (error.to_string(), false),
        };
        if app.mqtt.note_disconnected(&reason) {
            tracing::warn!("the connection to the MQTT broker {broker} failed or ended: {reason}");
        }
        if was_connected {
            delay = DELAY.0;
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stop.wanted() => return,
        }
        delay = (2 * delay).min(DELAY.1);
    }
}

/// End of a connection that was not intended.
struct End {
    reason: Ended,
    was_connected: bool,
}

/// Receives messages over one connection. Returns at the stop of the server.
async fn attend(broker: Broker, app: Arc<AppState>, mut stop: Stop) -> Result<(), End> {
    let failed = |reason| End {
        reason,
        was_connected: false,
    };
    let opened = tokio::select! {
        opened = tokio::time::timeout(CONNECT_TIME, open(&broker, &app)) => opened,
        () = stop.wanted() => return Ok(()),
    };
    let opened = opened.map_err(|_| failed("the broker does not answer".to_string()))?;
    let (mut session, packets) = opened.map_err(failed)?;
    app.mqtt.note_connected();
    tracing::info!("connected to the MQTT broker {broker}");
    let received = receive(&mut session, packets, &app, stop).await;
    received.map_err(|reason| End {
        reason,
        was_connected: true,
    })
}

/// Connects and subscribes. Returns the session, and the packets that arrived after the CONNACK.
async fn open(broker: &Broker, app: &AppState) -> Result<(Session<Client>, Vec<Packet>), Ended> {
    let settings = &app.settings.mqtt;
    let password = password(broker, settings).await?;
    let security = match broker.is_encrypted {
        true => Security::Tls(settings.ca_file.clone()),
        false => Security::Plain,
    };
    let stream = secure::connect(&broker.host, broker.port, &security).await?;
    let version = match settings.version {
        MqttVersion::V3 => Version::V3_1_1,
        MqttVersion::V5 => Version::V5_0,
    };
    let mut session = Session::with_broker(stream, version, settings.max_packet, PING_TIME);
    let client_id = client_id(app);
    let login = Login {
        client_id: &client_id,
        user: &broker.user,
        password: password.as_deref(),
        keep_alive_s: KEEP_ALIVE_S,
        session_s: u32::try_from(settings.session.as_secs().max(1)).unwrap_or(u32::MAX),
    };
    session.send(connect(version, &login).map_err(|error| error.to_string())?);
    session.flush().await?;
    let mut packets = session.receive().await?;
    while packets.is_empty() {
        packets = session.receive().await?;
    }
    let answer = connected(&packets.remove(0));
    answer.ok_or("the first packet of the broker is not a CONNACK")??;
    // The rules may differ from those of an earlier process.
    let mut filters: Vec<&str> = settings.topics.iter().map(|rule| rule.filter()).collect();
    filters.sort_unstable();
    filters.dedup();
    let id = session.packet_id()?;
    let packet = request(version, id, &filters, settings.acknowledged);
    session.send(packet.map_err(|error| error.to_string())?);
    session.flush().await?;
    Ok((session, packets))
}

/// Stores messages until the stop.
async fn receive(
    session: &mut Session<Client>,
    mut packets: Vec<Packet>,
    app: &Arc<AppState>,
    mut stop: Stop,
) -> Result<(), Ended> {
    let mut exchange = Exchange::with_broker(app, &stop);
    loop {
        for packet in exchange.take(session, packets).await? {
            if let Packet::V5_0Disconnect(packet) = &packet {
                let code = packet.reason_code();
                let code = code.map_or_else(String::new, |code| format!(" ({code})"));
                return Err(format!("the broker ended the connection{code}"));
            }
            if let Some(rejected) = rejected_filters(&packet)
                && let Some((_, code)) = rejected.first()
            {
                let count = rejected.len();
                let reason = format!(
                    "the broker rejects {count} subscriptions ({code}); check the topics, and the permissions of the user"
                );
                tracing::warn!("{reason}");
                app.mqtt.note_rejected_subscriptions(reason);
            }
        }
        packets = tokio::select! {
            // Packets may arrive all the time. The broker repeats those that are not acknowledged.
            biased;
            () = stop.wanted() => break,
            received = session.receive() => received?,
        };
    }
    let reason = DisconnectReasonCode::NormalDisconnection;
    let packet = disconnect(session.version(), reason).map_err(|error| error.to_string())?;
    session.send(packet);
    // The session at the broker stays.
    let _ = session.flush().await;
    Ok(())
}

/// Returns the client identifier, which is the same after a restart.
fn client_id(app: &AppState) -> String {
    let settings = &app.settings;
    match settings.mqtt.client_id.as_str() {
        "" => {
            format!("seiner-{}-{}", host_name(), settings.listen.port())
        }
        given => given.to_string(),
    }
}

/// Returns the password of the broker's user. The file is read at each connection, so that it may change.
async fn password(broker: &Broker, settings: &MqttSettings) -> Result<Option<String>, Ended> {
    if broker.user.is_empty() {
        return Ok(None);
    }
    let Some(path) = settings.password_file.clone() else {
        return Ok(std::env::var(PASSWORD).ok());
    };
    let name = path.display().to_string();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let read = read.map_err(|error| error.to_string())?;
    let text = read.map_err(|error| format!("mqtt_password_file {name}: {error}"))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_string()))
}
