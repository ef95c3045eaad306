//! Rules for the addresses of ports: who can reach a port, and whether the port can ask for a token.

use super::values::{AccessMode, Settings};
use seiner_wire::collectd::Level;
use std::net::SocketAddr;

/// Credentials that a port can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credentials {
    /// A token.
    Token,
    /// Signatures of the protocol.
    Signature,
    /// A certificate, if `tls_client_ca` is set.
    Certificate,
    /// None: the protocol has no credentials.
    None,
}

/// Port: the name of its setting, its address, and its credentials.
type Port = (&'static str, Option<SocketAddr>, Credentials);

fn ports(settings: &Settings) -> [Port; 12] {
    let text = &settings.text_ports;
    let collectd = match settings.collectd.security {
        Level::None => Credentials::None,
        _ => Credentials::Signature,
    };
    [
        ("listen", Some(settings.listen), Credentials::Token),
        ("line_tcp", settings.line_tcp, Credentials::Certificate),
        ("line_udp_listen", text.line_udp, Credentials::None),
        // Datagrams are not encrypted, and this port takes them too.
        ("graphite_listen", text.graphite, Credentials::None),
        (
            "graphite_pickle_listen",
            text.graphite_pickle,
            Credentials::Certificate,
        ),
        ("opentsdb_listen", text.opentsdb, Credentials::Certificate),
        ("statsd_listen", settings.statsd.listen, Credentials::None),
        ("collectd_listen", settings.collectd.listen, collectd),
        ("mqtt_listen", settings.mqtt.listen, Credentials::Token),
        ("otlp_grpc", settings.otlp_grpc, Credentials::Token),
        (
            "postgres_listen",
            settings.postgres_listen,
            Credentials::Token,
        ),
        (
            "flight_sql_listen",
            settings.flight_sql_listen,
            Credentials::Token,
        ),
    ]
}

/// Returns the ports that have an address, with the address.
fn open_ports(
    settings: &Settings,
) -> impl Iterator<Item = (&'static str, SocketAddr, Credentials)> {
    let ports = ports(settings).into_iter();
    ports.filter_map(|(name, address, credentials)| Some((name, address?, credentials)))
}

/// Refuses addresses that other hosts can reach, unless the settings allow them.
pub fn check(settings: &Settings) -> Result<(), String> {
    settings.tls.check()?;
    let is_encrypted_port = settings.tls.certificate.is_some() && !settings.cluster.is_empty();
    if is_encrypted_port && settings.ports_ca_file.is_none() {
        return Err(
            "tls_certificate: ports of a cluster send each other requests; name the authority of their certificates \
             with ports_ca_file, for all ports"
                .to_string(),
        );
    }
    for (name, address, credentials) in open_ports(settings) {
        if address.ip().is_loopback() {
            continue;
        }
        if !settings.allow_remote {
            return Err(format!(
                "{name} = \"{address}\" can be reached from other hosts; listen on 127.0.0.1, or set allow_remote = true \
                 and create a token (docs/access.md)"
            ));
        }
        let remedy = match credentials {
            Credentials::None => "",
            Credentials::Certificate if !settings.tls.authenticates_lines() => {
                "demand certificates of senders with tls_client_ca, "
            }
            _ => continue,
        };
        if settings.access == AccessMode::Tokens {
            return Err(format!(
                "{name} = \"{address}\" can be reached from other hosts, and its protocol has no credentials; listen on \
                 127.0.0.1, {remedy}or set access = \"mixed\" so that whoever reaches the port can write"
            ));
        }
    }
    Ok(())
}

/// Refuses a start without tokens if requests need one. `tokens` is the number of
/// tokens; `None` if there is no file.
pub fn check_tokens(settings: &Settings, tokens: Option<usize>) -> Result<(), String> {
    if settings.access == AccessMode::Open {
        return Ok(());
    }
    let mut remote = open_ports(settings).filter(|(_, address, credentials)| {
        *credentials == Credentials::Token && !address.ip().is_loopback()
    });
    let (None | Some(0), Some((name, address, _))) = (tokens, remote.next()) else {
        return Ok(());
    };
    let file = settings.token_file();
    Err(format!(
        "{name} = \"{address}\" can be reached from other hosts, and there is no token; create one and start again:\n\
         \n  seiner token create NAME --scope read,write --access-file {}\n\
         \nor set access = \"open\" so that whoever reaches the port can read and write everything",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::StatsdSettings;

    #[test]
    fn addresses_beyond_loopback_need_permission() {
        let mut settings = Settings::default();
        assert_eq!(check(&settings), Ok(()));
        settings.mqtt.listen = Some("0.0.0.0:1883".parse().unwrap());
        let error = check(&settings).unwrap_err();
        assert!(error.contains("mqtt_listen"), "{error}");
        settings.line_tcp = Some("[::]:7671".parse().unwrap());
        let error = check(&settings).unwrap_err();
        assert!(error.contains("allow_remote = true"), "{error}");
        settings.allow_remote = true;
        let error = check(&settings).unwrap_err();
        assert!(error.contains("line_tcp"), "{error}");
        for access in [AccessMode::Mixed, AccessMode::Open] {
            settings.access = access;
            assert_eq!(check(&settings), Ok(()));
        }
    }

    #[test]
    fn remote_addresses_need_a_token() {
        let mut settings = Settings::default();
        for tokens in [None, Some(0), Some(1)] {
            assert_eq!(check_tokens(&settings, tokens), Ok(()));
        }
        settings.listen = "0.0.0.0:7670".parse().unwrap();
        for tokens in [None, Some(0)] {
            let error = check_tokens(&settings, tokens).unwrap_err();
            assert!(error.contains("seiner token create"), "{error}");
        }
        assert_eq!(check_tokens(&settings, Some(1)), Ok(()));
        settings.access = AccessMode::Open;
        assert_eq!(check_tokens(&settings, None), Ok(()));
        // A port that cannot ask for tokens does not need any.
        let settings = Settings {
            statsd: StatsdSettings {
                listen: Some("0.0.0.0:8125".parse().unwrap()),
                ..StatsdSettings::default()
            },
            access: AccessMode::Mixed,
            ..Settings::default()
        };
        assert_eq!(check_tokens(&settings, None), Ok(()));
    }

    #[test]
    fn ports_of_sql_ask_for_tokens() {
        let mut settings = Settings {
            postgres_listen: Some("127.0.0.1:5432".parse().unwrap()),
            ..Settings::default()
        };
        assert_eq!(check_tokens(&settings, None), Ok(()));
        assert_eq!(check_tokens(&settings, Some(1)), Ok(()));
        settings.flight_sql_listen = Some("0.0.0.0:32010".parse().unwrap());
        settings.allow_remote = true;
        assert_eq!(check(&settings), Ok(()));
        let error = check_tokens(&settings, None).unwrap_err();
        assert!(error.starts_with("flight_sql_listen"), "{error}");
        assert_eq!(check_tokens(&settings, Some(1)), Ok(()));
    }

    #[test]
    fn certificates_are_credentials_of_lines_over_tcp() {
        let mut settings = Settings {
            line_tcp: Some("0.0.0.0:7671".parse().unwrap()),
            allow_remote: true,
            ..Settings::default()
        };
        let error = check(&settings).unwrap_err();
        assert!(error.contains("tls_client_ca"), "{error}");
        let file = Some("x.pem".into());
        settings.tls.certificate.clone_from(&file);
        settings.tls.key.clone_from(&file);
        assert!(check(&settings).is_err());
        settings.tls.client_ca = file;
        assert_eq!(check(&settings), Ok(()));
        settings.tls.plain_lines = true;
        assert!(check(&settings).is_err());
        // Datagrams are not encrypted.
        settings.tls.plain_lines = false;
        settings.text_ports.graphite = settings.line_tcp;
        let error = check(&settings).unwrap_err();
        assert!(error.contains("graphite_listen"), "{error}");
    }
}
