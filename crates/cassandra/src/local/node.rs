//! One node: a Java process and its files.

use super::parent::Parent;
use super::settings::Settings;
use super::{LocalError, machine, settings};
use rustix::process::{Pid, Signal, kill_process};
use seiner_platform::Clock;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time for a node to end in good order.
const ENDING: Duration = Duration::from_secs(20);
/// Interval at which an ending node is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Time to connect to a starting node.
const CONNECTING: Duration = Duration::from_millis(200);
/// File with the number of a node's process.
const PID_FILE: &str = "pid";
/// Lines of a log that an error repeats.
const SHOWN_LINES: usize = 12;

/// Node of a local cluster.
pub(crate) struct Node {
    settings: Settings,
    java: PathBuf,
    jars: PathBuf,
    parent: Parent,
    child: Option<Child>,
    is_paused: bool,
    jmx_port: u16,
}

impl Node {
    pub(crate) fn new(settings: Settings, java: &Path, jars: &Path, parent: &Parent) -> Node {
        Node {
            settings,
            java: java.to_path_buf(),
            jars: jars.to_path_buf(),
            parent: parent.clone(),
            child: None,
            is_paused: false,
            jmx_port: 0,
        }
    }

    /// Starts the process. Does not wait until the node answers.
    pub(crate) fn start(&mut self) -> Result<(), LocalError> {
        let number = self.settings.number;
        let failed = |what: &str| LocalError::io(format!("node {number} of Cassandra: {what}"));
        self.settings
            .write()
            .map_err(failed("cannot write settings"))?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.output_file());
        let log = log.map_err(failed("cannot write the log"))?;
        let errors = log.try_clone().map_err(failed("cannot write the log"))?;
        self.jmx_port = free_port().map_err(failed("no port is free"))?;
        let mut command = match machine::find("setpriv") {
            Some(setpriv) => {
                let mut command = self.command(&setpriv);
                command.args(["--pdeathsig", "KILL"]).arg(&self.java);
                command
            }
            None => self.command(&self.java),
        };
        command
            .args(self.settings.java_arguments(&self.jars, self.jmx_port))
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // An interrupt at the terminal is for this process, which stops the nodes in good order.
            .process_group(0);
        let child = self
            .parent
            .spawn(command)
            .map_err(failed("Java does not start"))?;
        fs::write(self.pid_file(), child.id().to_string())
            .map_err(failed("cannot write its process"))?;
        self.child = Some(child);
        self.is_paused = false;
        Ok(())
    }

    /// Returns true if the node accepts connections of clients.
    pub(crate) fn has_started(&mut self) -> Result<bool, LocalError> {
        let number = self.settings.number;
        let ended = match &mut self.child {
            Some(child) => child
                .try_wait()
                .map_err(LocalError::io("a node is lost"))?
                .is_some(),
            None => true,
        };
        if ended {
            return Err(LocalError::Died {
                node: number,
                log: self.log().display().to_string(),
                tail: tail(&[self.log(), self.output_file()]),
            });
        }
        let address = SocketAddr::from((self.settings.address, self.settings.port));
        Ok(TcpStream::connect_timeout(&address, CONNECTING).is_ok())
    }

    /// Returns the number of the node, from 1.
    pub(crate) fn number(&self) -> usize {
        self.settings.number
    }

    /// Returns the number of the process, if the process was started.
    pub(crate) fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills the process, and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<(), LocalError> {
        if let Some(mut child) = self.child.take() {
            child
                .kill()
                .map_err(LocalError::io("a node cannot be killed"))?;
            child.wait().map_err(LocalError::io("a node is lost"))?;
        }
        self.is_paused = false;
        Ok(())
    }

    /// Sends SIGTERM. A paused node continues first.
    pub(crate) fn ask_to_end(&mut self) -> Result<(), LocalError> {
        if self.child.is_none() {
            return Ok(());
        }
        if self.is_paused {
            self.resume()?;
        }
        self.signal(Signal::TERM)
    }

    /// Waits until the process has ended, and kills it after [`ENDING`].
    pub(crate) fn wait_for_end(&mut self, clock: &dyn Clock) -> Result<(), LocalError> {
        let end = clock.monotonic() + ENDING.as_nanos() as u64;
        while clock.monotonic() < end {
            let ended = match &mut self.child {
                Some(child) => child.try_wait().map_err(LocalError::io("a node is lost"))?,
                None => return Ok(()),
            };
            if ended.is_some() {
                self.child = None;
                return Ok(());
            }
            clock.sleep(POLL);
        }
        self.kill()
    }

    pub(crate) fn pause(&mut self) -> Result<(), LocalError> {
        self.signal(Signal::STOP)?;
        self.is_paused = true;
        Ok(())
    }

    pub(crate) fn resume(&mut self) -> Result<(), LocalError> {
        self.signal(Signal::CONT)?;
        self.is_paused = false;
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<(), LocalError> {
        let number = self.settings.number;
        let Some(child) = &mut self.child else {
            let text = format!("node {number} does not run; restart it first");
            return Err(LocalError::Machine(text));
        };
        // Until it is waited for, the number of a child belongs to no other process.
        if child
            .try_wait()
            .map_err(LocalError::io("a node is lost"))?
            .is_some()
        {
            return Ok(());
        }
        kill_process(Pid::from_child(child), signal)
            .map_err(|error| LocalError::io(format!("node {number} takes no signal"))(error.into()))
    }

    /// Returns the command that runs `nodetool` on this node.
    pub(crate) fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.java);
        command
            .args(self.settings.tool_arguments(&self.jars, self.jmx_port))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Returns a command that runs a program in the network of the node.
    fn command(&self, program: &Path) -> Command {
        match &self.settings.namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
        }
    }

    /// Returns the file of the node's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.settings.folder.join("log/system.log")
    }

    fn output_file(&self) -> PathBuf {
        self.settings.folder.join("log/output.log")
    }

    fn pid_file(&self) -> PathBuf {
        self.settings.folder.join(PID_FILE)
    }
}

/// Kills the process of an earlier cluster in the same folder of a node, if it still runs.
pub(crate) fn reap(folder: &Path, clock: &dyn Clock) {
    let text = fs::read_to_string(folder.join(PID_FILE)).unwrap_or_default();
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else {
        return;
    };
    let arguments = PathBuf::from(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    let mark = settings::mark(folder);
    // The number may belong to another process by now.
    let is_ours = || {
        let arguments = fs::read(&arguments).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0);
        arguments.any(|argument| argument == mark.as_bytes())
    };
    while is_ours() {
        if kill_process(pid, Signal::KILL).is_err() {
            return;
        }
        clock.sleep(POLL);
    }
}

/// Runs a command, and returns its output.
pub(crate) fn output_of(mut command: Command) -> Result<String, LocalError> {
    let output = command
        .output()
        .map_err(LocalError::io("nodetool does not run"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(LocalError::Machine(format!(
        "nodetool failed: {text}{errors}"
    )))
}

/// Finds a port that is free at this moment. Cassandra manages its nodes at 127.0.0.1 only, so their ports differ.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns the last lines of files.
fn tail(files: &[PathBuf]) -> String {
    let texts = files.iter().map(|file| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    });
    texts.collect::<Vec<_>>().join("\n")
}
