//! A small HTTP/1.1 client on one kept-alive connection.
//!
//! The kernel sends bodies from a file to the socket directly, so the client uses little of the
//! processors that it shares with the server under test.

use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a server.
pub struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

/// Response of a server.
#[derive(Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body, without the chunked encoding.
    pub body: Vec<u8>,
    /// Better ports of the cluster that the server names.
    pub ports: Option<String>,
}

impl Response {
    /// Returns the body as text, or an error that quotes the body if the server rejected the
    /// request.
    pub fn text(self) -> Result<String> {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        ensure!(
            (200..300).contains(&self.status),
            "the server answered {}: {}",
            self.status,
            shortened(&text)
        );
        Ok(text)
    }
}

/// Returns the first thousand characters.
pub fn shortened(text: &str) -> String {
    text.trim().chars().take(1000).collect()
}

impl Connection {
    /// Connects to a server.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(600)))?;
        Ok(Connection {
            address,
            stream: BufReader::with_capacity(1 << 16, stream),
        })
    }

    /// Sets the maximum time to wait for a response.
    pub fn patience(&mut self, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(patience))
    }

    /// Sends a GET request.
    pub fn get(&mut self, target: &str) -> Result<Response> {
        self.send_head("GET", target, None)?;
        self.response()
    }

    /// Sends a POST request with a body in memory.
    pub fn post(&mut self, target: &str, body: &[u8]) -> Result<Response> {
        self.send_head("POST", target, Some(body.len() as u64))?;
        self.stream.get_mut().write_all(body)?;
        self.response()
    }

    /// Sends a POST request as [`Connection::post`], with more lines in the head.
    pub fn post_with(&mut self, target: &str, headers: &str, body: &[u8]) -> Result<Response> {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.stream.get_mut().write_all(body)?;
        self.response()
    }

    /// Sends a POST request as [`Connection::post`], and states the rate of this client in rows per second. The server
    /// may then advise to use another port of its cluster.
    pub fn post_at_rate(&mut self, target: &str, body: &[u8], rate: f64) -> Result<Response> {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nX-Seiner-Rate: {rate:.0}\r\n\r\n",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.stream.get_mut().write_all(body)?;
        self.response()
    }

    /// Sends a POST request with a range of a file as its body.
    pub fn post_file(
        &mut self,
        target: &str,
        file: &mut File,
        start: u64,
        length: u64,
    ) -> Result<Response> {
        self.send_head("POST", target, Some(length))?;
        file.seek(SeekFrom::Start(start))?;
        let sent = io::copy(&mut file.take(length), self.stream.get_mut())?;
        ensure!(sent == length, "the file has only {sent} of {length} bytes");
        self.response()
    }

    fn send_head(&mut self, method: &str, target: &str, length: Option<u64>) -> Result<()> {
        let length = length
            .map(|length| format!("Content-Length: {length}\r\n"))
            .unwrap_or_default();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{length}\r\n",
            self.address
        );
        Ok(self.stream.get_mut().write_all(head.as_bytes())?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(
            self.stream.read_line(&mut line)? > 0,
            "the server closed the connection"
        );
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    fn response(&mut self) -> Result<Response> {
        let status_line = self.line()?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .with_context(|| format!("{status_line:?} is not an HTTP status line"))?;
        let (mut length, mut chunked, mut ports) = (None, false, None);
        loop {
            let header = self.line()?;
            let Some((name, value)) = header.split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<usize>()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.trim().eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("x-seiner-ports") {
                ports = Some(value.trim().to_string());
            }
        }
        let body = match (chunked, length) {
            (true, _) => self.chunks()?,
            (false, Some(length)) => self.bytes(length)?,
            (false, None) if status == 204 || status == 304 => Vec::new(),
            (false, None) => bail!("a response without a length and without chunks"),
        };
        Ok(Response {
            status,
            body,
            ports,
        })
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let length =
                usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
                    .with_context(|| format!("{line:?} is not the length of a chunk"))?;
            let start = body.len();
            body.resize(start + length, 0);
            self.stream.read_exact(&mut body[start..])?;
            ensure!(
                self.line()?.is_empty(),
                "a chunk is longer than its header states"
            );
            if length == 0 {
                return Ok(body);
            }
        }
    }
}

/// Returns a text percent-encoded for a query string.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Starts a server that answers each request with fixed bytes and returns the requests that it
    /// received.
    fn served(
        answers: &'static [&'static str],
    ) -> (SocketAddr, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut bodies = Vec::new();
            for answer in answers {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.strip_prefix("Content-Length: ") {
                        length = value.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                bodies.push(String::from_utf8(body).unwrap());
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            bodies
        });
        (address, server)
    }

    #[test]
    fn three_answers_on_one_connection() {
        let (address, server) = served(&[
            "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            "HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n",
        ]);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"skip this, send that, not this").unwrap();
        let mut connection = Connection::open(address).unwrap();
        let first = connection.post_file("/write", &mut file, 11, 9).unwrap();
        assert_eq!((first.status, first.body.len()), (204, 0));
        assert_eq!(connection.get("/x").unwrap().text().unwrap(), "hello");
        let rejected = connection.post("/write", b"x").unwrap();
        assert_eq!(rejected.body, b"abc0123456789");
        assert!(
            rejected
                .text()
                .unwrap_err()
                .to_string()
                .contains("400: abc012")
        );
        assert_eq!(server.join().unwrap(), ["send that", "", "x"]);
    }

    #[test]
    fn reserved_characters_are_percent_encoded() {
        assert_eq!(encoded("a{b=\"c d\"}"), "a%7Bb%3D%22c%20d%22%7D");
    }
}
