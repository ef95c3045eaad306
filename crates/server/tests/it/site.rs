//! A server in a temporary directory, and a client for it.

use seiner_engine::{Durability, Engine, Options};
use seiner_server::{Extensions, Server, Settings};
use seiner_store::{MemoryStore, Store};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ureq::Agent;
use ureq::http::Response;

pub struct Site {
    pub data: TempDir,
    pub address: SocketAddr,
    pub line_address: Option<SocketAddr>,
    pub mqtt_address: Option<SocketAddr>,
    pub otlp_address: Option<SocketAddr>,
    runtime: Runtime,
    server: Option<Server>,
    agent: Agent,
}

/// Answer of the server: status, headers and body, also as text.
pub struct Reply {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub bytes: Vec<u8>,
    /// In an Arrow answer, names are readable.
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Site {
    /// Starts a server without sensors of the host. `change` changes the other settings.
    pub fn with(change: impl FnOnce(&mut Settings)) -> Site {
        Site::on(None, Extensions::default(), change)
    }

    /// Starts a server with extensions that a program provides.
    pub fn extended(extensions: Extensions) -> Site {
        Site::on(None, extensions, |_| {})
    }

    /// Starts a server with extensions that a program provides. `change` changes the other settings.
    pub fn extended_with(extensions: Extensions, change: impl FnOnce(&mut Settings)) -> Site {
        Site::on(None, extensions, change)
    }

    /// Starts a server with a store in memory.
    pub fn in_memory() -> Site {
        Site::on(
            Some(Arc::new(MemoryStore::new())),
            Extensions::default(),
            |_| {},
        )
    }

    fn on(
        store: Option<Arc<dyn Store>>,
        extensions: Extensions,
        change: impl FnOnce(&mut Settings),
    ) -> Site {
        let data = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            data: data.path().join("data"),
            listen: "127.0.0.1:0".parse().unwrap(),
            host_sensors: None,
            // Tests begin in 1970, a second or so apart.
            allow_1970: true,
            durability: Durability::Interval(std::time::Duration::from_millis(20)),
            ..Settings::default()
        };
        change(&mut settings);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let server = match store {
            Some(store) => runtime.block_on(Server::start_with(store, settings)),
            None => runtime.block_on(Server::start_extended(extensions, settings)),
        };
        let server = server.unwrap();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        Site {
            data,
            address: server.address(),
            line_address: server.line_address(),
            mqtt_address: server.mqtt_address(),
            otlp_address: server.otlp_address(),
            runtime,
            server: Some(server),
            agent,
        }
    }

    pub fn new() -> Site {
        Site::with(|_| {})
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.server
            .as_ref()
            .expect("the server runs")
            .store()
            .clone()
    }

    pub fn get(&self, path: &str) -> Reply {
        reply(
            self.agent
                .get(format!("http://{}{path}", self.address))
                .call()
                .unwrap(),
        )
    }

    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = self.agent.get(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.call().unwrap())
    }

    pub fn query(&self, parameters: &[(&str, &str)]) -> Reply {
        let request = self
            .agent
            .get(format!("http://{}/api/v1/query", self.address));
        reply(
            request
                .query_pairs(parameters.iter().copied())
                .call()
                .unwrap(),
        )
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = self.agent.post(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.send(body).unwrap())
    }

    pub fn put(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = self.agent.put(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.send(body).unwrap())
    }

    pub fn delete(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = self.agent.delete(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.call().unwrap())
    }

    /// Writes lines. All lines must be accepted.
    pub fn write(&self, lines: &str) {
        let written = self.post("/write", &[], lines.as_bytes());
        assert_eq!(written.status, 204, "{}", written.text);
    }

    /// Returns the address of a port without answers.
    pub fn text_address(&self, setting: &str) -> SocketAddr {
        let server = self.server.as_ref().expect("the server runs");
        server.text_address(setting).expect("the port is open")
    }

    /// Waits until a protocol has a value of a counter. `counter` is the name in the metrics with its labels.
    pub fn await_metric(&self, counter: &str, value: u64) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let wanted = format!("{counter} {value}");
        loop {
            let text = self.get("/metrics").text;
            if text.lines().any(|line| line == wanted) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{wanted}: {text}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Returns the values of the only series of a selector, over all times.
    pub fn values(&self, select: &str) -> Value {
        let answer = self.query(&[
            ("select", select),
            ("from", "-9223372036854775808"),
            ("to", "9223372036854775807"),
        ]);
        let series = answer.json()["series"].clone();
        assert_eq!(series.as_array().map(Vec::len), Some(1), "{series}");
        series[0].clone()
    }

    /// Runs a task beside the server.
    pub fn run<T>(&self, task: impl Future<Output = T>) -> T {
        self.runtime.block_on(task)
    }

    /// Stops the server with an orderly shutdown. The directory stays.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop()).unwrap();
        }
    }

    /// Opens the store of a server that was stopped.
    pub fn reopen(&self) -> Arc<Engine> {
        Engine::open_directory(&self.data.path().join("data"), Options::default()).unwrap()
    }
}

fn reply(mut response: Response<ureq::Body>) -> Reply {
    let body = response.body_mut().with_config().limit(1 << 30);
    let bytes = body.read_to_vec().unwrap();
    Reply {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        bytes,
    }
}
