//! Packets of both versions of the protocol, behind one interface.

use mqtt_protocol_core::mqtt::Version;
use mqtt_protocol_core::mqtt::packet::{
    MaximumPacketSize, Packet, Property, Qos, ReceiveMaximum, RetainHandling,
    SessionExpiryInterval, SubEntry, SubOpts, v3_1_1, v5_0,
};
use mqtt_protocol_core::mqtt::result_code::{
    ConnectReasonCode, ConnectReturnCode, DisconnectReasonCode, MqttError, PubackReasonCode,
    PubrecReasonCode, SubackReasonCode, SubackReturnCode, UnsubackReasonCode,
};
use seiner_wire::mqtt::{Message, Part};

/// Message with the time of its reception.
pub struct Publish {
    packet: PublishPacket,
    /// Time of reception in ns since 1970.
    pub received: i64,
}

/// Packet by its type.
pub enum Received {
    /// PUBLISH.
    Message(Publish),
    /// Any other type.
    Other(Packet),
}

enum PublishPacket {
    V3(v3_1_1::Publish),
    V5(v5_0::Publish),
}

/// Acknowledgement that a message needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// None: QoS 0.
    None,
    /// PUBACK: QoS 1.
    Puback(u16),
    /// PUBREC: QoS 2.
    Pubrec(u16),
}

impl Publish {
    /// Returns the message of a packet, or the packet if it has another type.
    pub fn of(packet: Packet, received: i64) -> Received {
        let packet = match packet {
            Packet::V3_1_1Publish(publish) => PublishPacket::V3(publish),
            Packet::V5_0Publish(publish) => PublishPacket::V5(publish),
            other => return Received::Other(other),
        };
        Received::Message(Publish { packet, received })
    }

    /// Returns topic, payload and time.
    pub fn message(&self) -> Message<'_> {
        let (topic, payload) = match &self.packet {
            PublishPacket::V3(packet) => (packet.topic_name(), packet.payload()),
            PublishPacket::V5(packet) => (packet.topic_name(), packet.payload()),
        };
        Message {
            topic,
            payload: payload.as_slice(),
            received: self.received,
        }
    }

    /// Returns whether the broker sends the message because of a new subscription, not because of a new message.
    pub fn is_retained(&self) -> bool {
        match &self.packet {
            PublishPacket::V3(packet) => packet.retain(),
            PublishPacket::V5(packet) => packet.retain(),
        }
    }

    /// Returns the acknowledgement that the message needs.
    pub fn reply(&self) -> Reply {
        let (qos, id) = match &self.packet {
            PublishPacket::V3(packet) => (packet.qos(), packet.packet_id()),
            PublishPacket::V5(packet) => (packet.qos(), packet.packet_id()),
        };
        match (qos, id) {
            (Qos::AtLeastOnce, Some(id)) => Reply::Puback(id),
            (Qos::ExactlyOnce, Some(id)) => Reply::Pubrec(id),
            _ => Reply::None,
        }
    }
}

/// Part of a message that was rejected; `None` if it is stored.
pub type Verdict = Option<Part>;

/// Returns the acknowledgement of a message.
pub fn acknowledgement(
    version: Version,
    reply: Reply,
    verdict: Verdict,
) -> Result<Option<Packet>, MqttError> {
    let packet = match (reply, version) {
        (Reply::None, _) => return Ok(None),
        (Reply::Puback(id), Version::V5_0) => {
            let code = match verdict {
                None => PubackReasonCode::Success,
                Some(Part::Topic) => PubackReasonCode::TopicNameInvalid,
                Some(Part::Payload) => PubackReasonCode::PayloadFormatInvalid,
            };
            let packet = v5_0::Puback::builder().packet_id(id).reason_code(code);
            Packet::V5_0Puback(packet.build()?)
        }
        (Reply::Pubrec(id), Version::V5_0) => {
            // A failure would end the exchange, and the sender need not expect one here: a rejected message is logged.
            let code = PubrecReasonCode::Success;
            let packet = v5_0::Pubrec::builder().packet_id(id).reason_code(code);
            Packet::V5_0Pubrec(packet.build()?)
        }
        (Reply::Puback(id), _) => {
            Packet::V3_1_1Puback(v3_1_1::Puback::builder().packet_id(id).build()?)
        }
        (Reply::Pubrec(id), _) => {
            Packet::V3_1_1Pubrec(v3_1_1::Pubrec::builder().packet_id(id).build()?)
        }
    };
    Ok(Some(packet))
}

/// Returns the PUBCOMP for a PUBREL, if the packet is one.
pub fn completion(packet: &Packet) -> Result<Option<Packet>, MqttError> {
    Ok(match packet {
        Packet::V3_1_1Pubrel(packet) => {
            let packet = v3_1_1::Pubcomp::builder().packet_id(packet.packet_id());
            Some(Packet::V3_1_1Pubcomp(packet.build()?))
        }
        Packet::V5_0Pubrel(packet) => {
            let packet = v5_0::Pubcomp::builder().packet_id(packet.packet_id());
            Some(Packet::V5_0Pubcomp(packet.build()?))
        }
        _ => None,
    })
}

/// Values of a CONNECT of the subscriber.
pub struct Login<'a> {
    pub client_id: &'a str,
    pub user: &'a str,
    pub password: Option<&'a str>,
    pub keep_alive_s: u16,
    pub session_s: u32,
}

/// Returns the CONNECT of the subscriber, with a session that outlives the connection.
pub fn connect(version: Version, login: &Login<'_>) -> Result<Packet, MqttError> {
    if version == Version::V5_0 {
        let properties: Vec<Property> = vec![
            SessionExpiryInterval::new(login.session_s)?.into(),
            // Mosquitto sends 20 messages ahead unless a client states more.
            ReceiveMaximum::new(u16::MAX)?.into(),
        ];
        let mut packet = v5_0::Connect::builder()
            .client_id(login.client_id)?
            .clean_start(false)
            .keep_alive(login.keep_alive_s)
            .props(properties);
        if !login.user.is_empty() {
            packet = packet.user_name(login.user)?;
            if let Some(password) = login.password {
                packet = packet.password(password)?;
            }
        }
        return Ok(Packet::V5_0Connect(packet.build()?));
    }
    let mut packet = v3_1_1::Connect::builder()
        .client_id(login.client_id)?
        .clean_session(false)
        .keep_alive(login.keep_alive_s);
    if !login.user.is_empty() {
        packet = packet.user_name(login.user)?;
        if let Some(password) = login.password {
            packet = packet.password(password)?;
        }
    }
    Ok(Packet::V3_1_1Connect(packet.build()?))
}

/// Returns the result of a CONNACK, if the packet is one.
pub fn connected(packet: &Packet) -> Option<Result<(), String>> {
    let (is_accepted, code) = match packet {
        Packet::V3_1_1Connack(packet) => {
            let code = packet.return_code();
            (code == ConnectReturnCode::Accepted, code.to_string())
        }
        Packet::V5_0Connack(packet) => {
            let code = packet.reason_code();
            (code == ConnectReasonCode::Success, code.to_string())
        }
        _ => return None,
    };
    Some(match is_accepted {
        true => Ok(()),
        false => Err(format!(
            "the broker rejects the connection ({code}); check the user, the password and mqtt_version"
        )),
    })
}

/// Returns the SUBSCRIBE for topic filters.
pub fn subscribe(
    version: Version,
    id: u16,
    filters: &[&str],
    is_acknowledged: bool,
) -> Result<Packet, MqttError> {
    let qos = match is_acknowledged {
        true => Qos::AtLeastOnce,
        false => Qos::AtMostOnce,
    };
    let options = match version {
        Version::V5_0 => SubOpts::new()
            .set_qos(qos)
            .set_rh(RetainHandling::DoNotSendRetained),
        _ => SubOpts::new().set_qos(qos),
    };
    let entries = filters.iter().map(|filter| SubEntry::new(*filter, options));
    let entries: Vec<SubEntry> = entries.collect::<Result<_, _>>()?;
    Ok(match version {
        Version::V5_0 => {
            let packet = v5_0::Subscribe::builder().packet_id(id).entries(entries);
            Packet::V5_0Subscribe(packet.build()?)
        }
        _ => {
            let packet = v3_1_1::Subscribe::builder().packet_id(id).entries(entries);
            Packet::V3_1_1Subscribe(packet.build()?)
        }
    })
}

/// Returns the rejections in a SUBACK, if the packet is one: index of the filter, and reason.
pub fn rejected_filters(packet: &Packet) -> Option<Vec<(usize, String)>> {
    let failure =
        |(index, is_failure, code): (usize, bool, String)| is_failure.then_some((index, code));
    match packet {
        Packet::V3_1_1Suback(packet) => {
            let codes = packet.return_codes().into_iter().enumerate();
            let codes = codes
                .map(|(index, code)| (index, code == SubackReturnCode::Failure, code.to_string()));
            Some(codes.filter_map(failure).collect())
        }
        Packet::V5_0Suback(packet) => {
            let codes = packet.reason_codes().into_iter().enumerate();
            let codes = codes.map(|(index, code)| (index, code.is_failure(), code.to_string()));
            Some(codes.filter_map(failure).collect())
        }
        _ => None,
    }
}

/// Returns a DISCONNECT. Version 3.1.1 has no reasons.
pub fn disconnect(version: Version, reason: DisconnectReasonCode) -> Result<Packet, MqttError> {
    Ok(match version {
        Version::V5_0 => {
            Packet::V5_0Disconnect(v5_0::Disconnect::builder().reason_code(reason).build()?)
        }
        _ => Packet::V3_1_1Disconnect(v3_1_1::Disconnect::builder().build()?),
    })
}

/// Returns the password of a CONNECT; `None` if there is none.
pub fn password(packet: &Packet) -> Option<&[u8]> {
    match packet {
        Packet::V5_0Connect(connect) => connect.password(),
        Packet::V3_1_1Connect(connect) => connect.password(),
        _ => None,
    }
}

/// Returns the rejection of a CONNECT without a permitted token.
pub fn unauthorized(packet: &Packet) -> Result<Packet, MqttError> {
    match packet {
        Packet::V5_0Connect(_) => {
            let builder = v5_0::Connack::builder().session_present(false);
            let answer = builder.reason_code(ConnectReasonCode::NotAuthorized);
            Ok(Packet::V5_0Connack(answer.build()?))
        }
        Packet::V3_1_1Connect(_) => {
            let builder = v3_1_1::Connack::builder().session_present(false);
            let answer = builder.return_code(ConnectReturnCode::NotAuthorized);
            Ok(Packet::V3_1_1Connack(answer.build()?))
        }
        _ => Err(MqttError::ProtocolError),
    }
}

/// Returns the answer of the port for devices to a CONNECT, and whether the connection is accepted.
pub fn connack(packet: &Packet, limits: PortLimits) -> Result<(Packet, bool), MqttError> {
    match packet {
        Packet::V5_0Connect(connect) => {
            let is_authentication =
                |property: &Property| matches!(property, Property::AuthenticationMethod(_));
            let is_accepted = !connect.props().iter().any(is_authentication);
            let builder = v5_0::Connack::builder().session_present(false);
            let builder = match is_accepted {
                true => {
                    let properties = limits.properties(connect.client_id().is_empty())?;
                    builder
                        .reason_code(ConnectReasonCode::Success)
                        .props(properties)
                }
                false => builder.reason_code(ConnectReasonCode::BadAuthenticationMethod),
            };
            Ok((Packet::V5_0Connack(builder.build()?), is_accepted))
        }
        Packet::V3_1_1Connect(connect) => {
            let is_accepted = connect.clean_session() || !connect.client_id().is_empty();
            let code = match is_accepted {
                true => ConnectReturnCode::Accepted,
                false => ConnectReturnCode::IdentifierRejected,
            };
            let builder = v3_1_1::Connack::builder()
                .session_present(false)
                .return_code(code);
            Ok((Packet::V3_1_1Connack(builder.build()?), is_accepted))
        }
        _ => Err(MqttError::ProtocolError),
    }
}

/// Limits that the port for devices states to a client of version 5.
#[derive(Clone, Copy)]
pub struct PortLimits {
    pub max_packet: u32,
    /// Number of the connection, for the identifier of a client without one.
    pub connection: u64,
}

impl PortLimits {
    fn properties(self, needs_identifier: bool) -> Result<Vec<Property>, MqttError> {
        use mqtt_protocol_core::mqtt::packet::{
            AssignedClientIdentifier, SharedSubscriptionAvailable, SubscriptionIdentifierAvailable,
            WildcardSubscriptionAvailable,
        };
        let mut properties: Vec<Property> = vec![
            // No session outlives its connection. There is no maximum of messages ahead: clients such as paho exceed it
            // when they connect again, and would be disconnected for ever.
            SessionExpiryInterval::new(0)?.into(),
            MaximumPacketSize::new(self.max_packet)?.into(),
            WildcardSubscriptionAvailable::new(0)?.into(),
            SubscriptionIdentifierAvailable::new(0)?.into(),
            SharedSubscriptionAvailable::new(0)?.into(),
        ];
        if needs_identifier {
            let name = format!("seiner-{}", self.connection);
            properties.push(AssignedClientIdentifier::new(name.as_str())?.into());
        }
        Ok(properties)
    }
}

/// Returns the rejection of a SUBSCRIBE or UNSUBSCRIBE, if the packet is one.
pub fn no_subscriptions(packet: &Packet) -> Result<Option<Packet>, MqttError> {
    Ok(Some(match packet {
        Packet::V3_1_1Subscribe(packet) => {
            let codes = vec![SubackReturnCode::Failure; packet.entries().len()];
            let answer = v3_1_1::Suback::builder().packet_id(packet.packet_id());
            Packet::V3_1_1Suback(answer.return_codes(codes).build()?)
        }
        Packet::V5_0Subscribe(packet) => {
            let code = SubackReasonCode::ImplementationSpecificError;
            let codes = vec![code; packet.entries().len()];
            let answer = v5_0::Suback::builder().packet_id(packet.packet_id());
            Packet::V5_0Suback(answer.reason_codes(codes).build()?)
        }
        Packet::V3_1_1Unsubscribe(packet) => {
            let answer = v3_1_1::Unsuback::builder().packet_id(packet.packet_id());
            Packet::V3_1_1Unsuback(answer.build()?)
        }
        Packet::V5_0Unsubscribe(packet) => {
            let code = UnsubackReasonCode::NoSubscriptionExisted;
            let codes = vec![code; packet.entries().len()];
            let answer = v5_0::Unsuback::builder().packet_id(packet.packet_id());
            Packet::V5_0Unsuback(answer.reason_codes(codes).build()?)
        }
        _ => return Ok(None),
    }))
}
