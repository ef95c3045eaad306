//! Exchange of messages and acknowledgements in a session.

use crate::app_state::AppState;
use crate::mqtt::ingest;
use crate::mqtt::packets::{Publish, Received, Verdict, acknowledgement, completion};
use crate::mqtt::session::{Ended, Session};
use crate::mqtt::{PROTOCOL, mapping};
use crate::shutdown::Stop;
use mqtt_protocol_core::mqtt::packet::Packet;
use mqtt_protocol_core::mqtt::role::RoleType;
use seiner_wire::mqtt::Mapping;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Receiver of the messages of one session.
pub struct Exchange {
    app: Arc<AppState>,
    mapping: Mapping,
    stop: Stop,
    /// True if messages with the flag `retain` are old ones, which a broker sends because of a new subscription.
    ignores_retained: bool,
    /// Time of the last message. Each message has a time of its own.
    last: i64,
}

impl Exchange {
    /// Creates the receiver of the messages of a broker.
    pub fn with_broker(app: &Arc<AppState>, stop: &Stop) -> Exchange {
        Exchange {
            ignores_retained: true,
            ..Exchange::with_device(app, stop)
        }
    }

    /// Creates the receiver of the messages of a device.
    pub fn with_device(app: &Arc<AppState>, stop: &Stop) -> Exchange {
        Exchange {
            app: app.clone(),
            mapping: mapping(&app.settings),
            stop: stop.clone(),
            ignores_retained: false,
            last: i64::MIN,
        }
    }

    /// Stores the messages among packets, then acknowledges them. Returns the other packets, in their order.
    ///
    /// # Errors
    /// If the session ended, or the server stops while the store does not accept rows.
    pub async fn take<R: RoleType>(
        &mut self,
        session: &mut Session<R>,
        packets: Vec<Packet>,
    ) -> Result<Vec<Packet>, Ended> {
        let (mut messages, mut others) = (Vec::new(), Vec::new());
        for packet in packets {
            self.last = crate::ingest::now().max(self.last.saturating_add(1));
            match Publish::of(packet, self.last) {
                Received::Message(message) if self.ignores_retained && message.is_retained() => {
                    let counters = self.app.traffic.protocol(PROTOCOL);
                    counters.ignored.fetch_add(1, Relaxed);
                    self.acknowledge(session, &message, None)?;
                }
                Received::Message(message) => messages.push(message),
                Received::Other(other) => {
                    match completion(&other).map_err(|error| error.to_string())? {
                        Some(answer) => session.send(answer),
                        None => others.push(other),
                    }
                }
            }
        }
        if !messages.is_empty() {
            let storing = ingest::store(&self.app, &self.mapping, &messages, self.stop.clone());
            let verdicts = session.while_busy(storing).await?;
            let verdicts = verdicts.ok_or("the server stops")?;
            for (message, verdict) in messages.iter().zip(verdicts) {
                self.acknowledge(session, message, verdict)?;
            }
        }
        session.flush().await?;
        Ok(others)
    }

    fn acknowledge<R: RoleType>(
        &self,
        session: &mut Session<R>,
        message: &Publish,
        verdict: Verdict,
    ) -> Result<(), Ended> {
        let packet = acknowledgement(session.version(), message.reply(), verdict);
        if let Some(packet) = packet.map_err(|error| error.to_string())? {
            session.send(packet);
        }
        Ok(())
    }
}
