//! Session over a socket: bytes become packets, and packets become bytes.
//!
//! The state machine of the protocol is that of `mqtt-protocol-core`. This module adds the socket and the timers. A
//! fault of the other side ends the session with a reason, after the packets before the fault.

use crate::secure::Link;
use mqtt_protocol_core::mqtt::common::Cursor;
use mqtt_protocol_core::mqtt::connection::{
    ConnectionOptions, Event, MQTT_PACKET_SIZE_NO_LIMIT, TimerKind,
};
use mqtt_protocol_core::mqtt::packet::{GenericPacketTrait, Packet};
use mqtt_protocol_core::mqtt::result_code::MqttError;
use mqtt_protocol_core::mqtt::role::{Client, RoleType, Server};
use mqtt_protocol_core::mqtt::{Connection, Version};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// Number of bytes read from a socket at once. Their messages are stored together.
const FRAME_BYTES: usize = 64 << 10;
/// Maximum time for writing to a socket.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Reason of the end of a session, for people.
pub type Ended = String;

/// Session with a broker or a device.
pub struct Session<R: RoleType> {
    connection: Connection<R>,
    stream: Link,
    frame: Vec<u8>,
    /// Bytes to be written.
    out: Vec<u8>,
    timers: Timers,
    /// Maximum time from a PINGREQ to its answer.
    ping_time: Duration,
    ended: Option<Ended>,
    /// Packets that were received, and not returned yet.
    packets: Vec<Packet>,
}

/// Times at which the state machine wants to be called.
#[derive(Default)]
struct Timers {
    send_ping: Option<Instant>,
    expect_ping: Option<Instant>,
    expect_answer: Option<Instant>,
}

impl Timers {
    fn at(&mut self, kind: TimerKind) -> &mut Option<Instant> {
        match kind {
            TimerKind::PingreqSend => &mut self.send_ping,
            TimerKind::PingreqRecv => &mut self.expect_ping,
            TimerKind::PingrespRecv => &mut self.expect_answer,
        }
    }

    /// Returns the first timer that fires.
    fn first(&self) -> Option<(Instant, TimerKind)> {
        let all = [
            (self.send_ping, TimerKind::PingreqSend),
            (self.expect_ping, TimerKind::PingreqRecv),
            (self.expect_answer, TimerKind::PingrespRecv),
        ];
        let set = all.into_iter().filter_map(|(at, kind)| Some((at?, kind)));
        set.min_by_key(|(at, _)| *at)
    }
}

impl Session<Client> {
    /// Creates a session with a broker. A broker of version 3.1.1 does not receive the maximum length of a packet, and
    /// would repeat a longer one for ever. So the session takes packets of any length from that broker. The session
    /// ends if a ping has no answer within `ping_time`.
    pub fn with_broker(
        stream: Link,
        version: Version,
        max_packet: u32,
        ping_time: Duration,
    ) -> Session<Client> {
        let max_packet = match version {
            Version::V5_0 => max_packet,
            _ => MQTT_PACKET_SIZE_NO_LIMIT,
        };
        let mut session = Session::new(stream, version, max_packet);
        session.ping_time = ping_time;
        let ms = ping_time.as_millis() as u64;
        session.connection.set_pingresp_recv_timeout(ms);
        session
    }

    /// Returns a free packet identifier.
    pub fn packet_id(&mut self) -> Result<u16, Ended> {
        self.connection
            .acquire_packet_id()
            .map_err(|error| error.to_string())
    }
}

impl Session<Server> {
    /// Creates a session with a device. Its first packet defines the version.
    pub fn with_device(stream: Link, max_packet: u32) -> Session<Server> {
        let mut session = Session::new(stream, Version::Undetermined, max_packet);
        session.connection.set_auto_ping_response(true);
        session
    }
}

impl<R: RoleType> Session<R> {
    fn new(stream: Link, version: Version, max_packet: u32) -> Session<R> {
        let options = ConnectionOptions::new().maximum_packet_size_recv(max_packet);
        Session {
            connection: Connection::with_options(version, options),
            stream,
            frame: vec![0; FRAME_BYTES],
            out: Vec::new(),
            timers: Timers::default(),
            ping_time: Duration::ZERO,
            ended: None,
            packets: Vec::new(),
        }
    }

    /// Returns the version of the protocol.
    pub fn version(&self) -> Version {
        self.connection.get_protocol_version()
    }

    /// Waits for packets. The result is empty if only timers fired. A call that is dropped loses no packet.
    ///
    /// # Errors
    /// If the session ended.
    pub async fn receive(&mut self) -> Result<Vec<Packet>, Ended> {
        if let Some(ended) = self.ended.take() {
            // The reason is sent to a client of version 5, if it still reads.
            let _ = self.flush().await;
            return Err(ended);
        }
        // Bytes may arrive all the time.
        if self.timers.send_ping.is_some_and(|at| at <= Instant::now()) {
            self.fire(TimerKind::PingreqSend);
            self.flush().await?;
        }
        let timer = self.timers.first();
        let fired = async {
            match timer {
                Some((at, kind)) => {
                    tokio::time::sleep_until(at).await;
                    kind
                }
                None => std::future::pending().await,
            }
        };
        // Bytes that have arrived count before timers, which may have fired while the store was busy.
        tokio::select! {
            biased;
            read = self.stream.read(&mut self.frame) => match read {
                Ok(0) => return Err("the other side closed the connection".to_string()),
                Ok(len) => self.take(len),
                Err(error) => return Err(error.to_string()),
            },
            kind = fired => self.fire(kind),
        }
        self.flush().await?;
        Ok(std::mem::take(&mut self.packets))
    }

    /// Passes bytes of the frame to the state machine.
    fn take(&mut self, len: usize) {
        let mut at = 0;
        while at < len && self.ended.is_none() {
            let mut cursor = Cursor::new(&self.frame[at..len]);
            let events = self.connection.recv(&mut cursor);
            at += cursor.position() as usize;
            self.handle(events);
        }
    }

    fn fire(&mut self, kind: TimerKind) {
        *self.timers.at(kind) = None;
        let events = self.connection.notify_timer_fired(kind);
        self.handle(events);
        if kind != TimerKind::PingreqSend {
            let silent = "the other side was silent for longer than the keep-alive time";
            self.ended = Some(silent.to_string());
        }
    }

    fn handle(&mut self, events: Vec<Event>) {
        let faults = |event: &Event| match event {
            Event::NotifyError(error) => Some(fault(*error)),
            _ => None,
        };
        let fault = events.iter().find_map(faults);
        for event in events {
            match event {
                Event::NotifyPacketReceived(packet) => self.packets.push(packet),
                Event::RequestSendPacket { packet, .. } => {
                    self.out.extend_from_slice(&packet.to_continuous_buffer());
                }
                Event::NotifyPacketIdReleased(_) => {}
                Event::RequestTimerReset { kind, duration_ms } => {
                    let after = Duration::from_millis(duration_ms);
                    *self.timers.at(kind) = Some(Instant::now() + after);
                }
                Event::RequestTimerCancel(kind) => *self.timers.at(kind) = None,
                Event::NotifyError(_) | Event::RequestClose => {
                    let reason = fault
                        .as_deref()
                        .unwrap_or("the protocol ends the connection");
                    self.ended.get_or_insert_with(|| reason.to_string());
                }
            }
        }
    }

    /// Adds a packet to those that the next [`Session::flush`] writes.
    pub fn send(&mut self, packet: Packet) {
        let events = self.connection.send(packet);
        self.handle(events);
    }

    /// Writes all packets that were sent.
    ///
    /// # Errors
    /// If the other side does not take them.
    pub async fn flush(&mut self) -> Result<(), Ended> {
        if self.out.is_empty() {
            return Ok(());
        }
        let write = async {
            self.stream.write_all(&self.out).await?;
            // Encryption may keep bytes.
            self.stream.flush().await
        };
        let written = tokio::time::timeout(WRITE_TIME, write).await;
        self.out.clear();
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the other side does not read".to_string()),
        }
    }

    /// Waits for other work without reading. Pings are sent meanwhile.
    ///
    /// # Errors
    /// If the other side does not take a ping.
    pub async fn while_busy<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Ended> {
        let mut work = pin!(work);
        let done = loop {
            let Some(at) = self.timers.send_ping else {
                break work.await;
            };
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = tokio::time::sleep_until(at) => {
                    self.fire(TimerKind::PingreqSend);
                    self.flush().await?;
                }
            }
        };
        // The answers to pings were not read.
        if let Some(at) = &mut self.timers.expect_answer {
            *at = (*at).max(Instant::now() + self.ping_time);
        }
        Ok(done)
    }
}

/// Returns the error of the state machine for people.
fn fault(error: MqttError) -> Ended {
    match error {
        MqttError::PacketTooLarge => {
            "a packet is longer than mqtt_max_packet; send shorter ones, or raise it".to_string()
        }
        error => format!("the other side violates the protocol ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::packets::{Login, connect, connected};
    use tokio::net::{TcpListener, TcpStream};

    const PING: [u8; 2] = [0xc0, 0];
    const PONG: [u8; 2] = [0xd0, 0];

    /// Returns a session that is connected, and the socket of the broker.
    async fn pair() -> (Session<Client>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let mut broker = listener.accept().await.unwrap().0;
        let ping_time = Duration::from_millis(300);
        let stream = Box::new(stream);
        let mut session = Session::with_broker(stream, Version::V3_1_1, 1024, ping_time);
        let login = Login {
            client_id: "a",
            user: "",
            password: None,
            keep_alive_s: 1,
            session_s: 1,
        };
        session.send(connect(session.version(), &login).unwrap());
        session.flush().await.unwrap();
        let mut request = [0; 15];
        broker.read_exact(&mut request).await.unwrap();
        broker.write_all(&[0x20, 2, 0, 0]).await.unwrap();
        let packets = session.receive().await.unwrap();
        assert_eq!(connected(&packets[0]), Some(Ok(())));
        (session, broker)
    }

    #[tokio::test]
    async fn a_silent_broker_is_noticed() {
        let (mut session, mut broker) = pair().await;
        let mut ping = [0; 2];
        for _ in 0..2 {
            assert_eq!(session.receive().await.unwrap().len(), 0);
            broker.read_exact(&mut ping).await.unwrap();
            assert_eq!(ping, PING);
            broker.write_all(&PONG).await.unwrap();
            assert_eq!(session.receive().await.unwrap().len(), 1);
        }
        let began = Instant::now();
        let ended = loop {
            if let Err(ended) = session.receive().await {
                break ended;
            }
        };
        assert!(ended.contains("silent"), "{ended}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn pings_are_sent_while_the_store_is_busy() {
        let (mut session, mut broker) = pair().await;
        let busy = tokio::time::sleep(Duration::from_millis(1600));
        session.while_busy(busy).await.unwrap();
        let mut ping = [0; 2];
        broker.read_exact(&mut ping).await.unwrap();
        assert_eq!(ping, PING);
        // The answer was not read in time, but arrived.
        broker.write_all(&PONG).await.unwrap();
        assert_eq!(session.receive().await.unwrap().len(), 1);
    }
}
