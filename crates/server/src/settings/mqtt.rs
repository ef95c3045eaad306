//! Settings of MQTT: the broker, and the port for devices.

use super::mqtt_values::{Broker, MqttVersion};
use super::setting::Setting;
use super::text::{address, at_least, duration, non_empty};
use std::path::PathBuf;

/// Bounds of the maximum length of a packet in bytes.
const PACKET_BYTES: (u64, u64) = (1 << 10, 32 << 20);

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 9] = [
    Setting {
        name: "mqtt_broker",
        default: "off",
        form: "[mqtts://][USER@]HOST[:PORT]|off",
        help: "MQTT broker to which the server subscribes. With `mqtts://` the connection is encrypted. The port is 1883 if \
               none is given, or 8883 with encryption. The topics are those of the tables `[[mqtt_topic]]`. The server starts without the broker, and connects again when a connection ends. \
               docs/mqtt.md has examples.",
        assign: |settings, text| {
            settings.mqtt.broker = match text {
                "off" => None,
                text => Some(Broker::parse(text)?),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_password_file",
        default: "none",
        form: "PATH|none",
        help: "File with the password of the user in `mqtt_broker`. A line break at its end does not count. `none`: the \
               variable SEINER_MQTT_PASSWORD, if there is a user.",
        assign: |settings, text| {
            settings.mqtt.password_file = match non_empty(text)? {
                "none" => None,
                path => Some(PathBuf::from(path)),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_ca_file",
        default: "none",
        form: "PATH|none",
        help: "File (PEM) with the certificates of the authorities that sign the broker's certificate, for `mqtts://`. The \
               certificate must contain the host in `mqtt_broker`. `none`: the authorities of the system.",
        assign: |settings, text| {
            settings.mqtt.ca_file = match non_empty(text)? {
                "none" => None,
                path => Some(PathBuf::from(path)),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_client_id",
        default: "auto",
        form: "TEXT|auto",
        help: "Client identifier at the broker. The broker keeps messages for a client with the same identifier while the \
               server is away, so that the identifier must stay the same, and no other client may have it. `auto`: \
               `seiner-`, the name of the host, and the port of `listen`.",
        assign: |settings, text| {
            settings.mqtt.client_id = match non_empty(text)? {
                "auto" => String::new(),
                text if text.len() > 256 || text.contains('\0') => {
                    return Err(format!(
                        "{text:?} is not an identifier; give 1 to 256 bytes"
                    ));
                }
                text => text.to_string(),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_version",
        default: "5",
        form: "5|3.1.1",
        help: "Version of MQTT for the broker. The port for devices accepts both versions.",
        assign: |settings, text| {
            settings.mqtt.version = match text {
                "5" | "5.0" => MqttVersion::V5,
                "3.1.1" | "4" => MqttVersion::V3,
                _ => return Err(format!("{text:?} is neither 5 nor 3.1.1")),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_qos",
        default: "1",
        form: "1|0",
        help: "Quality of service of the subscriptions. `1`: the server acknowledges a message when its rows are on the \
               disk, and the broker repeats the message until then. `0`: messages during a restart of the server are \
               lost.",
        assign: |settings, text| {
            settings.mqtt.acknowledged = match text {
                "1" => true,
                "0" => false,
                "2" => {
                    let text = "2 costs two more packets for each message, and a message with a time of its own counts \
                                once with 1 already; give 1";
                    return Err(text.to_string());
                }
                _ => return Err(format!("{text:?} is neither 1 nor 0")),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_session",
        default: "7d",
        form: "DURATION",
        help: "Time for which the broker keeps the subscriptions and messages while the server is away. Brokers limit the \
               number of these messages as well: Mosquitto keeps 1000 unless `max_queued_messages` is higher. In version \
               3.1.1 the broker alone defines the time.",
        assign: |settings, text| duration(text).map(|time| settings.mqtt.session = time),
    },
    Setting {
        name: "mqtt_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for devices that publish by MQTT (3.1.1 and 5, QoS 0 to 2) without a broker. There is no \
               password, and subscriptions are rejected. The topics are those of the tables `[[mqtt_topic]]`. An address \
               that other hosts can reach also needs `allow_remote`.",
        assign: |settings, text| {
            settings.mqtt.listen = match text {
                "off" => None,
                text => Some(address(text)?),
            };
            Ok(())
        },
    },
    Setting {
        name: "mqtt_max_packet",
        default: "256 KiB",
        form: "SIZE",
        help: "Maximum length of a packet of MQTT. A device that sends a longer one is disconnected. A broker of version 5 \
               withholds longer messages; those of a broker of version 3.1.1 are rejected. Each connection needs so much \
               memory while a packet arrives.",
        assign: |settings, text| {
            let (least, most) = PACKET_BYTES;
            settings.mqtt.max_packet = match u32::try_from(at_least(text, least)?) {
                Ok(bytes) if u64::from(bytes) <= most => bytes,
                _ => return Err(format!("{text:?} is too much; give at most 32 MiB")),
            };
            Ok(())
        },
    },
];
