//! Program that answers SQL: started with the first query, and again after a crash. It ends with the server.

use crate::settings::Settings;
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Maximum time for the program to print its addresses.
const START_TIME: Duration = Duration::from_secs(20);
/// Attempts to connect to the running program, and the time between two.
const CONNECT_ATTEMPTS: u32 = 100;
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Maximum length of the lines that the program prints, bytes.
const MAX_LINES: u64 = 1024;

/// Addresses of a running program, on loopback.
#[derive(Clone, Copy, Debug)]
pub struct SqlAddresses {
    /// Address of HTTP.
    pub http: SocketAddr,
    /// Address of PostgreSQL's protocol.
    pub postgres: SocketAddr,
    /// Address of Flight SQL.
    pub flight: SocketAddr,
}

/// Program that answers SQL.
pub struct SqlProgram {
    program: Option<PathBuf>,
    memory_mib: u64,
    /// Address of the server's HTTP port, and the token for it.
    server: OnceLock<(SocketAddr, String)>,
    running: Mutex<Option<Running>>,
}

impl SqlProgram {
    /// Returns a program that is not running.
    pub fn new(settings: &Settings) -> SqlProgram {
        SqlProgram {
            program: settings.sql_program.clone(),
            memory_mib: settings.sql_memory >> 20,
            server: OnceLock::new(),
            running: Mutex::new(None),
        }
    }

    /// Sets the address of the server's HTTP port, which the program reads from, and the token for it.
    pub fn set_server(&self, address: SocketAddr, token: String) {
        // The server has one HTTP port.
        _ = self.server.set((reachable(address), token));
    }

    /// Returns the addresses of the program. Starts it if it is not running.
    ///
    /// # Errors
    /// If there is no program, with the command that builds it, or if it does not start.
    async fn addresses(&self) -> Result<SqlAddresses> {
        let mut running = self.running.lock().await;
        if let Some(program) = running.as_mut() {
            match program.child.0.try_wait() {
                Ok(None) => return Ok(program.addresses),
                Ok(Some(status)) => {
                    tracing::warn!("seiner-sql ended: {status}; it is started again")
                }
                Err(error) => tracing::warn!("seiner-sql is started again: {error}"),
            }
        }
        *running = None;
        let started = self.start().await?;
        tracing::info!("seiner-sql answers SQL on {}", started.addresses.http);
        Ok(running.insert(started).addresses)
    }

    /// Connects to an address of the program. If it has just crashed, it is started again.
    ///
    /// # Errors
    /// As [`addresses`](Self::addresses), or if it runs and does not accept connections.
    pub async fn connect(&self, of: fn(&SqlAddresses) -> SocketAddr) -> Result<TcpStream> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match TcpStream::connect(of(&self.addresses().await?)).await {
                Ok(stream) => return Ok(stream),
                Err(error) if attempts == CONNECT_ATTEMPTS => {
                    return Err(error).context("seiner-sql does not accept connections");
                }
                // The end of a process becomes known a little later than that of its connections.
                Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
            }
        }
    }

    /// Ends the program.
    pub async fn stop(&self) {
        *self.running.lock().await = None;
    }

    async fn start(&self) -> Result<Running> {
        let (server, token) = self
            .server
            .get()
            .context("the server has no HTTP port yet")?;
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("seiner-sql"),
        };
        let mut command = Command::new(&program);
        command
            .args(["--server", &format!("http://{server}"), "--end-with-stdin"])
            .args(["--listen", "127.0.0.1:0", "--postgres", "127.0.0.1:0"])
            .args(["--flight", "127.0.0.1:0"])
            .args(["--memory", &self.memory_mib.to_string()])
            // Other users cannot read the environment of a process.
            .env("SEINER_TOKEN", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "SQL needs the program seiner-sql, and there is no {}; build it with `make sql`, or set sql_program",
                program.display()
            ),
            _ => anyhow!("{} was not started: {error}", program.display()),
        })?;
        let mut child = Killed(child);
        let stdout = child.0.stdout.take().context("seiner-sql has no output")?;
        if let Some(stderr) = child.0.stderr.take() {
            // The thread ends with the program.
            std::thread::spawn(move || log_messages(stderr));
        }
        // The thread ends when the program prints its addresses or is killed.
        let addresses = tokio::task::spawn_blocking(move || read_addresses(stdout));
        let addresses = tokio::time::timeout(START_TIME, addresses)
            .await
            .context("seiner-sql did not start within 20 s")???;
        Ok(Running { child, addresses })
    }
}

/// Program that is running.
struct Running {
    child: Killed,
    addresses: SqlAddresses,
}

/// Process that is killed when this value is dropped. It holds nothing that must be kept.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Fails if the process has ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Logs the lines that the program writes to standard error.
fn log_messages(stderr: impl Read) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while (&mut reader)
        .take(MAX_LINES)
        .read_until(b'\n', &mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        let text = String::from_utf8_lossy(&line);
        tracing::warn!(target: "seiner_sql", "{}", text.trim_end());
        line.clear();
    }
}

/// Reads the lines `http ADDRESS`, `postgres ADDRESS` and `flight ADDRESS`.
fn read_addresses(stdout: impl Read) -> Result<SqlAddresses> {
    let mut lines = BufReader::new(stdout.take(MAX_LINES)).lines();
    let mut address = |name: &str| -> Result<SocketAddr> {
        let line = lines
            .next()
            .context("seiner-sql ended at its start; its error is above in the log")??;
        let wrong = || {
            anyhow!(
                "seiner-sql printed {line:?} in place of its address; build it again with `make sql`"
            )
        };
        let text = line.strip_prefix(name).ok_or_else(wrong)?;
        text.trim().parse().map_err(|_| wrong())
    };
    Ok(SqlAddresses {
        http: address("http ")?,
        postgres: address("postgres ")?,
        flight: address("flight ")?,
    })
}

/// Returns an address at which this machine reaches a listener.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()),
        false => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_three_lines() {
        let printed = "http 127.0.0.1:1\npostgres 127.0.0.1:2\nflight 127.0.0.1:3\n";
        let addresses = read_addresses(printed.as_bytes()).unwrap();
        assert_eq!((addresses.http.port(), addresses.postgres.port()), (1, 2));
        assert_eq!(addresses.flight.port(), 3);
        for wrong in [
            "",
            "http 127.0.0.1:1\n",
            "http x\npostgres 127.0.0.1:2\nflight 127.0.0.1:3\n",
            "http 127.0.0.1:1\npostgres 127.0.0.1:2\n",
            "panic\n",
        ] {
            assert!(read_addresses(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_missing_program_is_reported_with_the_command() {
        let program = SqlProgram::new(&Settings {
            sql_program: Some("/nowhere/seiner-sql".into()),
            ..Settings::default()
        });
        program.set_server("0.0.0.0:7670".parse().unwrap(), String::new());
        let server = program.server.get().unwrap();
        assert_eq!(server.0, "127.0.0.1:7670".parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let error = runtime.block_on(program.addresses()).unwrap_err();
        assert!(error.to_string().contains("make sql"), "{error}");
    }
}
