//! Client of a server's HTTP interface.

use crate::route::{Route, url};
use crate::server_access::ServerAccess;
use anyhow::{Context, Result, bail};
use seiner_server::{PORTS, RATE};
use seiner_wire::line::Precision;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use ureq::http::header::AUTHORIZATION;
use ureq::http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::{Agent, Body, SendBody};

/// Maximum number of attempts while a server is too busy, one second apart or as the server requests.
const ATTEMPTS: usize = 60;

/// Pause before a request goes to another port of a cluster.
const CHANGE: Duration = Duration::from_millis(100);

/// A server at an address. If it is a port of a cluster, writes may go to other ports too.
pub struct Remote {
    agent: Agent,
    address: String,
    route: Mutex<Route>,
}

/// A line or row that the server rejected: its number in the request body, and the reason.
pub struct RejectedLine {
    pub line: u64,
    /// Number of lines or rows that this entry stands for.
    pub count: u64,
    pub reason: String,
}

/// Result of writing one request body.
#[derive(Default)]
pub struct Written {
    /// Number of lines or rows that the server rejected.
    pub rejected: u64,
    /// The first of the rejected lines or rows, with reasons.
    pub listed: Vec<RejectedLine>,
}

/// Header with the token, which every request of a client has.
struct Bearer(String);

impl Middleware for Bearer {
    fn handle(
        &self,
        mut request: Request<SendBody<'_>>,
        next: MiddlewareNext<'_>,
    ) -> Result<Response<Body>, ureq::Error> {
        let mut value = HeaderValue::try_from(&self.0).map_err(ureq::http::Error::from)?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        next.handle(request)
    }
}

/// Rows on the way to a server.
struct RowsBody<'a> {
    /// Address without the host.
    path: &'a str,
    media_type: &'a str,
    bytes: &'a [u8],
    rows: usize,
}

impl Remote {
    /// Creates a client of the server that a command names.
    ///
    /// # Errors
    /// As [`Remote::new`].
    pub fn of(access: &ServerAccess) -> Result<Remote> {
        Remote::new(&access.address(), access)
    }

    /// Creates a client for the server at `address`, which begins with `http://` or `https://`.
    ///
    /// # Errors
    /// If the token or the certificate of the authority cannot be read.
    pub fn new(address: &str, access: &ServerAccess) -> Result<Remote> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .user_agent(concat!("seiner/", env!("CARGO_PKG_VERSION")));
        let config = match access.token()? {
            Some(token) => config.middleware(Bearer(format!("Bearer {token}"))),
            None => config,
        };
        let config = match address.starts_with("https://") {
            true => config.tls_config(access.tls()?),
            false => config,
        };
        let address = address.trim_end_matches('/').to_string();
        Ok(Remote {
            agent: config.build().into(),
            route: Mutex::new(Route::new(address.clone())),
            address,
        })
    }

    /// Writes line protocol. Repeats the request while the server is too busy, at another port of the cluster if the
    /// server names one. `allow_1970` permits times in 1970.
    ///
    /// # Errors
    /// If no port can be reached, all stay too busy, or one rejects the whole body.
    pub fn write(&self, lines: &[u8], precision: Precision, allow_1970: bool) -> Result<Written> {
        let mut path = format!("/write?precision={precision}");
        if allow_1970 {
            path.push_str("&allow_1970=true");
        }
        self.deliver(&RowsBody {
            path: &path,
            media_type: "text/plain; charset=utf-8",
            bytes: lines,
            rows: lines.iter().filter(|byte| **byte == b'\n').count(),
        })
    }

    /// Writes a stream of Arrow. Repeats the request as [`Remote::write`] does.
    ///
    /// # Errors
    /// As [`Remote::write`].
    #[cfg(feature = "parquet")]
    pub fn write_arrow(&self, stream: &[u8], rows: usize) -> Result<Written> {
        self.deliver(&RowsBody {
            path: "/write",
            media_type: seiner_wire::answer::Format::Arrow.content_type(),
            bytes: stream,
            rows,
        })
    }

    fn deliver(&self, body: &RowsBody<'_>) -> Result<Written> {
        let mut route = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        if route.rate().is_none() {
            route.learn(self.ports());
        }
        for _ in 0..ATTEMPTS {
            let began = crate::time::now();
            let mut response = match self.send(&route, body) {
                Err(_) if route.leave() => {
                    crate::time::sleep(CHANGE);
                    continue;
                }
                sent => sent.with_context(|| self.unreachable())?,
            };
            let advice = header(&response, PORTS).unwrap_or_default().to_string();
            match response.status() {
                StatusCode::NO_CONTENT | StatusCode::OK => {
                    route.note(body.rows, began.elapsed());
                    route.follow(&advice);
                    return Ok(Written::default());
                }
                // All rows of a rejected body are sent again. Those that are stored count once.
                StatusCode::SERVICE_UNAVAILABLE => {
                    crate::time::sleep(match route.follow(&advice) {
                        true => CHANGE,
                        false => retry_after(&response),
                    })
                }
                status => return rejection(status, &message(&mut response)),
            }
        }
        bail!(
            "{} was too busy {ATTEMPTS} times; try again later, or raise its max_requests",
            self.address
        )
    }

    /// Sends a write to the present port of the route.
    fn send(&self, route: &Route, body: &RowsBody<'_>) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.post(format!("{}{}", route.current(), body.path));
        // A client that states its rate follows advice.
        let request = match route.rate() {
            Some(rate) => request.header(RATE, format!("{rate:.0}")),
            None => request,
        };
        request.content_type(body.media_type).send(body.bytes)
    }

    /// Returns the addresses of all ports that accept rows, if the server is a port of a cluster.
    fn ports(&self) -> Vec<String> {
        let mut text = String::new();
        let answered = self.get("/ports", &[]);
        if !answered.is_ok_and(|mut answer| answer.read_to_string(&mut text).is_ok()) {
            return Vec::new();
        }
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let ports = answer["ports"].as_array().into_iter().flatten();
        let able = ports.filter(|port| port["weight"].as_f64().is_some_and(|weight| weight > 0.0));
        able.filter_map(|port| Some(url(port["address"].as_str()?, &self.address)))
            .collect()
    }

    /// Sends a GET request for `path` and returns the body.
    ///
    /// # Errors
    /// If the server cannot be reached or returns an error.
    pub fn get(&self, path: &str, parameters: &[(&str, String)]) -> Result<impl Read + use<>> {
        Ok(self
            .get_response(path, parameters)?
            .into_body()
            .into_reader())
    }

    /// Sends a GET request for `path`. Returns the body and the texts of some headers, `None` for a header that
    /// is missing.
    ///
    /// # Errors
    /// If the server cannot be reached or returns an error.
    pub fn get_with<const N: usize>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
        headers: [HeaderName; N],
    ) -> Result<([Option<String>; N], impl Read + use<N>)> {
        let response = self.get_response(path, parameters)?;
        let texts = headers.map(|header| {
            let text = response.headers().get(header)?;
            Some(text.to_str().ok()?.to_string())
        });
        Ok((texts, response.into_body().into_reader()))
    }

    fn get_response(&self, path: &str, parameters: &[(&str, String)]) -> Result<Response<Body>> {
        let request = self.agent.get(format!("{}{path}", self.address));
        let parameters = parameters.iter().map(|(name, text)| (*name, text.as_str()));
        self.answered(request.query_pairs(parameters).call())
    }

    /// Sends a POST request without a body to `path` and returns the answer.
    ///
    /// # Errors
    /// If the server cannot be reached or returns an error.
    pub fn post(&self, path: &str, parameters: &[(&str, String)]) -> Result<impl Read + use<>> {
        let request = self.agent.post(format!("{}{path}", self.address));
        let parameters = parameters.iter().map(|(name, text)| (*name, text.as_str()));
        let response = self.answered(request.query_pairs(parameters).send_empty())?;
        Ok(response.into_body().into_reader())
    }

    fn answered(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>> {
        let mut response = response.with_context(|| self.unreachable())?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => {
                let message = message(&mut response);
                let reason: serde_json::Value = serde_json::from_str(&message).unwrap_or_default();
                bail!(
                    "{}: {}",
                    self.address,
                    reason["error"].as_str().unwrap_or(status.as_str())
                )
            }
        }
    }

    fn unreachable(&self) -> String {
        format!(
            "{} does not answer; is `seiner serve` running there?",
            self.address
        )
    }
}

fn message(response: &mut Response<Body>) -> String {
    response.body_mut().read_to_string().unwrap_or_default()
}

/// Returns the text of a header.
fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

fn retry_after(response: &Response<Body>) -> Duration {
    let seconds = header(response, "retry-after").and_then(|after| after.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1).clamp(1, 60))
}

/// Parses the answer to a rejected request body.
///
/// # Errors
/// If the answer lists no rejected lines or rows: the server rejected the body as a whole.
fn rejection(status: StatusCode, message: &str) -> Result<Written> {
    let answer: serde_json::Value = serde_json::from_str(message).unwrap_or_default();
    let lists = [("lines", "line"), ("rows", "row")];
    let list = lists
        .into_iter()
        .find_map(|(list, number)| Some((answer[list].as_array()?, number)));
    if let (Some(rejected), Some((lines, number))) = (answer["rejected"].as_u64(), list) {
        let listed = lines.iter().map(|line| RejectedLine {
            line: line[number].as_u64().unwrap_or_default(),
            count: line["rows"].as_u64().unwrap_or(1),
            reason: line["reason"].as_str().unwrap_or_default().to_string(),
        });
        return Ok(Written {
            rejected,
            listed: listed.collect(),
        });
    }
    bail!(
        "the server answered {status}: {}",
        answer["error"].as_str().unwrap_or(message)
    )
}
