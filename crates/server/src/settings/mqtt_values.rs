//! Values of the settings of MQTT.

use seiner_wire::mqtt::Rule;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Ports of MQTT, without and with encryption.
const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;

/// Values of the settings of MQTT.
#[derive(Clone, Debug, Default)]
pub struct MqttSettings {
    /// Broker to which the server subscribes.
    pub broker: Option<Broker>,
    /// File with the password of the broker's user.
    pub password_file: Option<PathBuf>,
    /// File with the authorities of an encrypted connection to the broker; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Client identifier; empty for one that follows from the host and the port.
    pub client_id: String,
    /// Version of the protocol for the broker.
    pub version: MqttVersion,
    /// True if the broker repeats messages until the server acknowledges them (QoS 1).
    pub acknowledged: bool,
    /// Time for which the broker keeps messages while the server is away.
    pub session: Duration,
    /// Address of the port for devices, if there is one.
    pub listen: Option<SocketAddr>,
    /// Maximum length of a packet in bytes.
    pub max_packet: u32,
    /// Rules for topics, in the order in which they are tried.
    pub topics: Vec<Rule>,
}

/// Address of a broker, and the user there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Name or address of the host.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Name of the user; empty for none.
    pub user: String,
    /// True if the connection is encrypted.
    pub is_encrypted: bool,
}

/// Version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MqttVersion {
    /// Version 3.1.1.
    V3,
    /// Version 5.
    #[default]
    V5,
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl MqttSettings {
    /// Checks that a broker or a port has rules for topics, and that authorities are given for an encrypted connection
    /// only.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        let is_encrypted = self
            .broker
            .as_ref()
            .is_some_and(|broker| broker.is_encrypted);
        if self.ca_file.is_some() && !is_encrypted {
            return Err(
                "mqtt_ca_file is given, but the connection to the broker is not encrypted; write mqtt_broker = \
                 \"mqtts://HOST\""
                    .to_string(),
            );
        }
        let name = match (&self.broker, &self.listen) {
            (Some(_), _) => "mqtt_broker",
            (None, Some(_)) => "mqtt_listen",
            (None, None) => return Ok(()),
        };
        match self.topics.is_empty() {
            true => Err(format!(
                "{name} is set, but no topic is mapped to rows; add a table [[mqtt_topic]], such as --mqtt-topic \
                 'topic=home/{{room}}/{{field}},measurement=climate'"
            )),
            false => Ok(()),
        }
    }
}

impl Broker {
    /// Parses `mqtts://USER@HOST:PORT`. All but the host may be missing.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn parse(text: &str) -> Result<Broker, String> {
        let (is_encrypted, rest) = match text.split_once("://") {
            Some(("mqtt", rest)) => (false, rest),
            Some(("mqtts", rest)) => (true, rest),
            Some((scheme, _)) => {
                return Err(format!(
                    "{scheme}:// is not supported; give HOST:PORT, or mqtts://HOST:PORT for an encrypted connection"
                ));
            }
            None => (false, text),
        };
        let (user, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        if user.contains(':') {
            let text = "the address contains a password, which lists of processes and logs show; leave it out, and give \
                        mqtt_password_file";
            return Err(text.to_string());
        }
        let wrong = || {
            format!(
                "{text:?} is not an address of a broker; give HOST:PORT, such as localhost:1883"
            )
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                (host, port.strip_prefix(':'))
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let usual = if is_encrypted { TLS_PORT } else { PORT };
        let port = port.map_or(Ok(usual), |port| port.parse().map_err(|_| wrong()))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
        match host.is_empty() || !host.chars().all(is_plain) {
            true => Err(wrong()),
            false => Ok(Broker {
                host: host.to_string(),
                port,
                user: user.to_string(),
                is_encrypted,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_have_hosts_ports_and_users() {
        let of = |text| Broker::parse(text).map(|broker| (broker.to_string(), broker.user));
        assert_eq!(of("nas"), Ok(("nas:1883".into(), String::new())));
        assert_eq!(
            of("mqtt://ann@nas.local:18"),
            Ok(("nas.local:18".into(), "ann".into()))
        );
        assert_eq!(of("mqtts://ann@nas"), Ok(("nas:8883".into(), "ann".into())));
        assert_eq!(of("[::1]:5"), Ok(("[::1]:5".into(), String::new())));
        for (text, remedy) in [
            ("wss://nas", "mqtts://HOST"),
            ("ann:secret@nas", "mqtt_password_file"),
            ("nas:port", "HOST:PORT"),
            ("", "HOST:PORT"),
            ("a b", "HOST:PORT"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn a_broker_needs_topics_and_encryption_for_its_authorities() {
        let mut mqtt = MqttSettings::default();
        assert_eq!(mqtt.check(), Ok(()));
        mqtt.ca_file = Some("ca.pem".into());
        mqtt.broker = Some(Broker::parse("nas").unwrap());
        assert!(mqtt.check().unwrap_err().contains("mqtts://"));
        mqtt.broker = Some(Broker::parse("mqtts://nas").unwrap());
        assert!(mqtt.check().unwrap_err().contains("[[mqtt_topic]]"));
        mqtt = MqttSettings::default();
        mqtt.listen = Some("127.0.0.1:0".parse().unwrap());
        assert!(mqtt.check().unwrap_err().contains("[[mqtt_topic]]"));
    }
}
