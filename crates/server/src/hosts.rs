//! Requests for this server, and requests that browsers send for pages of other sites.
//!
//! Every page that a user opens can reach a server on loopback. Two rules keep such pages out. First, a request must
//! name this server by one of its own addresses or names: a foreign name that was made to resolve to this address (DNS
//! rebinding) is rejected. Second, statements of a browser about the origin of a request must not contradict that the
//! page is this server's. Programs other than browsers make no such statements.

use crate::api_error::ApiError;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Host with an optional port, as a Host header, an origin or a setting contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// Name in lower case, without a final dot.
    Name(String),
}

impl HostName {
    /// Parses `name`, `name:port`, `192.0.2.1:port` or `[::1]:port`.
    pub fn parse(text: &str) -> Option<HostName> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address: Ipv6Addr = address.parse().ok()?;
                let host = Host::Address(IpAddr::V6(address).to_canonical());
                let port = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix(':')?),
                };
                (host, port)
            }
            None => {
                let (host, port) = match text.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                };
                (Host::parse(host)?, port)
            }
        };
        let port = match port {
            None | Some("") => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(HostName { host, port })
    }
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        if let Ok(address) = text.parse() {
            return Some(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = !name.is_empty() && name.bytes().all(is_good);
        is_name.then(|| Host::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Host::Address(address) => write!(f, "{address}")?,
            Host::Name(name) => f.write_str(name)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Address at which a connection arrived, an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Local(pub IpAddr);

impl Local {
    /// Creates the extension for connections to `address`.
    pub fn of(address: SocketAddr) -> ConnectInfo<Local> {
        ConnectInfo(Local(address.ip().to_canonical()))
    }
}

/// Addresses and names of a server.
#[derive(Clone, Debug)]
pub struct Hosts {
    listen: IpAddr,
    names: Vec<HostName>,
    /// Origins of pages of other hosts that may use this server.
    origins: Vec<String>,
    remedy: &'static str,
}

impl Hosts {
    /// Creates the set of a listening address and further names. `remedy` is the advice to clients whose name is
    /// not in the set.
    pub fn new(listen: SocketAddr, names: Vec<HostName>, remedy: &'static str) -> Arc<Hosts> {
        Arc::new(Hosts {
            listen: listen.ip().to_canonical(),
            names,
            origins: Vec::new(),
            remedy,
        })
    }

    /// Permits pages of other hosts, by their origins in lower case.
    pub fn permit(self: Arc<Hosts>, origins: &[String]) -> Arc<Hosts> {
        Arc::new(Hosts {
            origins: origins.to_vec(),
            ..(*self).clone()
        })
    }

    /// Returns the origin of a request of a permitted page of another host.
    fn permitted(&self, request: &Request) -> Option<HeaderValue> {
        let origin = header_text(request.headers(), header::ORIGIN)?.to_ascii_lowercase();
        let is_permitted = self.origins.contains(&origin);
        is_permitted.then(|| HeaderValue::try_from(origin).ok())?
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let local = request.extensions().get::<ConnectInfo<Local>>();
        let local = local.map(|ConnectInfo(Local(address))| *address);
        let headers = request.headers();
        let mut named = self.named(headers, request.version(), local)?;
        if let Some(target) = request.uri().authority() {
            // A request for a proxy. Its target must be this server as well.
            named = Some(self.own(target.as_str(), local)?);
        }
        if self.permitted(request).is_some() {
            return Ok(());
        }
        let origin = header_text(headers, header::ORIGIN)
            .map(|origin| self.is_own_page(&origin, named.as_ref()));
        if origin == Some(false) {
            return Err(foreign());
        }
        let sites = headers.get_all(SITE).iter();
        let mut sites = sites.map(HeaderValue::as_bytes);
        let is_foreign = sites.any(|site| match site {
            b"same-origin" | b"none" => false,
            // Another port, or another name of the same owner: the origin must be this server's.
            b"same-site" => origin != Some(true),
            _ => true,
        });
        match is_foreign && !is_visit(request) {
            true => Err(foreign()),
            false => Ok(()),
        }
    }

    /// Returns the name in the Host header. Only HTTP/1.0, which browsers do not use, may omit it.
    fn named(
        &self,
        headers: &HeaderMap,
        version: Version,
        local: Option<IpAddr>,
    ) -> Result<Option<HostName>, ApiError> {
        let mut hosts = headers.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(_), Some(_)) => Err(ApiError::invalid("there are two Host headers; send one")),
            (Some(host), None) => {
                let text = String::from_utf8_lossy(host.as_bytes());
                self.own(&text, local).map(Some)
            }
            (None, _) if version == Version::HTTP_10 => Ok(None),
            (None, _) => Err(ApiError::invalid(
                "there is no Host header; HTTP/1.1 needs one, such as Host: localhost:7670",
            )),
        }
    }

    fn own(&self, text: &str, local: Option<IpAddr>) -> Result<HostName, ApiError> {
        let Some(named) = HostName::parse(text) else {
            let text: String = text.chars().take(100).collect();
            return Err(ApiError::invalid(format!(
                "{text:?} is not a host; write a name or an address, and a port"
            )));
        };
        let is_own = match &named.host {
            Host::Address(address) => {
                address.is_loopback() || *address == self.listen || Some(*address) == local
            }
            Host::Name(name) => name == "localhost",
        };
        if is_own || self.names.iter().any(|own| own.host == named.host) {
            return Ok(named);
        }
        Err(ApiError::misdirected(format!(
            "this server does not go by the name {named}; {}",
            self.remedy
        )))
    }

    /// Returns whether a page of `origin` is this server's: the origin is the name in the request, or one
    /// of the settings, because a proxy may use another name.
    fn is_own_page(&self, origin: &str, named: Option<&HostName>) -> bool {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let Some(page) = authority.and_then(HostName::parse) else {
            return false;
        };
        Some(&page) == named || self.names.contains(&page)
    }
}

/// Returns the only value of a header. Several values are an error, because none of them is authoritative.
fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// Returns whether a browser opens the page itself, by a link of another page.
fn is_visit(request: &Request) -> bool {
    let is = |name: HeaderName, value: &str| {
        header_text(request.headers(), name).as_deref() == Some(value)
    };
    *request.method() == Method::GET
        && request.uri().path() == "/"
        && is(MODE, "navigate")
        && is(DESTINATION, "document")
}

fn foreign() -> ApiError {
    ApiError::forbidden(
        "a page of another host may not use this server; open the page of this server",
    )
}

/// Rejects requests for other hosts, and requests that browsers send for pages of other hosts.
pub async fn guard(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    if let Err(error) = hosts.check(&request) {
        return error.into_response();
    }
    let Some(origin) = hosts.permitted(&request) else {
        return next.run(request).await;
    };
    let is_preflight = *request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match is_preflight {
        true => (StatusCode::NO_CONTENT, PREFLIGHT).into_response(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

/// Headers of answers that a permitted page may read, besides those that every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static("etag, retry-after, x-request-id");

/// Headers of the answer to a browser that asks what a permitted page may send. The answer is valid for ten minutes.
const PREFLIGHT: [(HeaderName, &str); 3] = [
    (
        header::ACCESS_CONTROL_ALLOW_METHODS,
        "GET, POST, PUT, DELETE",
    ),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, content-encoding, if-match, x-request-id",
    ),
    (header::ACCESS_CONTROL_MAX_AGE, "600"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn checked(target: &str, version: Version, headers: &[(&str, &str)]) -> StatusCode {
        let names = ["nas.example", "lab.example:8443"].map(|name| HostName::parse(name).unwrap());
        let hosts = Hosts::new("192.0.2.7:7670".parse().unwrap(), names.to_vec(), "remedy")
            .permit(&["https://app.example".to_string()]);
        let mut request = Request::builder().uri(target).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let local = Local::of("[::ffff:198.51.100.1]:7670".parse().unwrap());
        request.extensions_mut().insert(local);
        match hosts.check(&request) {
            Ok(()) => StatusCode::OK,
            Err(error) => error.into_response().status(),
        }
    }

    #[test]
    fn only_own_addresses_and_names_are_answered() {
        for (host, status) in [
            ("127.0.0.1:7670", 200),
            ("127.0.0.1", 200),
            ("127.9.9.9", 200),
            ("[::1]:7670", 200),
            ("[::1]", 200),
            ("192.0.2.7", 200),
            ("198.51.100.1:80", 200),
            ("[::ffff:198.51.100.1]", 200),
            ("LOCALHOST:1", 200),
            ("localhost.", 200),
            ("nas.example", 200),
            ("NAS.example.:7670", 200),
            ("lab.example", 200),
            ("evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("x.localhost", 421),
            ("2130706433", 421),
            ("0x7f000001", 421),
            ("203.0.113.9", 421),
            ("[2001:db8::1]", 421),
            ("localhost..", 421),
            ("", 400),
            (".", 400),
            ("[::1", 400),
            ("[::1]x", 400),
            ("::1", 400),
            ("localhost:x", 400),
            ("localhost:99999", 400),
            ("user@localhost", 400),
            ("local host", 400),
            ("localhost/", 400),
        ] {
            assert_eq!(
                checked("/", Version::HTTP_11, &[("host", host)]),
                status,
                "{host:?}"
            );
        }
    }

    #[test]
    fn requests_with_several_missing_or_foreign_hosts_are_rejected() {
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(checked("/", Version::HTTP_11, &two), 400);
        assert_eq!(checked("/", Version::HTTP_10, &two), 400);
        assert_eq!(checked("/", Version::HTTP_11, &[]), 400);
        assert_eq!(checked("/", Version::HTTP_10, &[]), 200);
        let local = [("host", "localhost")];
        assert_eq!(checked("http://localhost/x", Version::HTTP_11, &local), 200);
        assert_eq!(
            checked("http://evil.example/x", Version::HTTP_11, &local),
            421
        );
        assert_eq!(
            checked("http://u@localhost/x", Version::HTTP_11, &local),
            400
        );
        let evil = [("host", "evil.example")];
        assert_eq!(checked("http://localhost/x", Version::HTTP_11, &evil), 421);
    }

    #[test]
    fn pages_of_others_are_rejected() {
        let of = |path: &str, headers: &[(&str, &str)]| {
            let host = [("host", "localhost:7670")];
            checked(path, Version::HTTP_11, &[&host, headers].concat()).as_u16()
        };
        for (origin, status) in [
            ("http://localhost:7670", 200),
            ("http://LOCALHOST:7670", 200),
            // A proxy that uses another name.
            ("https://nas.example", 200),
            ("https://lab.example:8443", 200),
            ("https://lab.example", 403),
            // A permitted page of another host.
            ("https://app.example", 200),
            ("http://app.example", 403),
            ("https://app.example:8443", 403),
            ("https://app.example.evil.example", 403),
            ("http://localhost:7671", 403),
            ("http://localhost", 403),
            ("http://127.0.0.1:7670", 403),
            ("http://evil.example", 403),
            ("null", 403),
            ("localhost:7670", 403),
            ("", 403),
        ] {
            assert_eq!(of("/write", &[("origin", origin)]), status, "{origin}");
        }
        let own = ("origin", "http://localhost:7670");
        assert_eq!(of("/write", &[own, ("origin", "http://evil.example")]), 403);
        let site = |site| ("sec-fetch-site", site);
        for (headers, status) in [
            (&[site("same-origin")][..], 200),
            (&[site("none")], 200),
            (&[site("cross-site")], 403),
            (&[site("same-site")], 403),
            (&[site("anything")], 403),
            (&[site("same-site"), own], 200),
            (&[site("cross-site"), own], 403),
            (&[site("none"), site("cross-site")], 403),
        ] {
            assert_eq!(of("/api/v1/plan", headers), status, "{headers:?}");
        }
        // A link of another page may open this page, and nothing else.
        let visit = [
            site("cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(of("/", &visit), 200);
        assert_eq!(of("/api/v1/plan", &visit), 403);
        assert_eq!(
            of("/", &[visit[0], visit[1], ("sec-fetch-dest", "iframe")]),
            403
        );
    }
}
