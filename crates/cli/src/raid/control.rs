//! The control socket of a serving array: a line of JSON asks, a line of JSON answers.

use super::devices;
use super::report::Report;
use crate::failure::Failure;
use anyhow::{Context, Result, anyhow, bail};
use seiner_raid::Array;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The longest line that is read.
const LONGEST: u64 = 1 << 16;
/// How long a client may take to say something.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// How are you?
    Status,
    /// This member is no longer to be used.
    Fail {
        /// Which.
        member: usize,
    },
    /// This device takes the place of a lost member.
    Replace {
        /// Which.
        member: usize,
        /// The device, by its whole path.
        device: PathBuf,
        /// What it holds may be lost.
        overwrite: bool,
    },
    /// This device waits for a member to be lost.
    Spare {
        /// The device, by its whole path.
        device: PathBuf,
        /// What it holds may be lost.
        overwrite: bool,
    },
    /// Everything is to be read and compared; or no more of it.
    Scrub {
        /// No more of it.
        stop: bool,
    },
    /// The process is to end.
    Stop,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done.
    Done,
    /// How it is.
    Status(Box<Report>),
    /// It was not done.
    Refused(String),
}

/// Asks a serving array.
pub fn ask(socket: &Path, order: &Order) -> Result<Answer, Failure> {
    let asked = || -> Result<Answer> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(format!("{}\n", serde_json::to_string(order)?).as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        if line.is_empty() {
            bail!("it ended without an answer");
        }
        Ok(serde_json::from_str(&line)?)
    };
    let context = || {
        format!(
            "{} was not reached: give the control socket of a serving array",
            socket.display()
        )
    };
    match asked().with_context(context)? {
        Answer::Refused(reason) => Err(Failure::Failed(anyhow!(reason))),
        answer => Ok(answer),
    }
}

/// How a serving array is.
pub fn status(socket: &Path) -> Result<Report, Failure> {
    match ask(socket, &Order::Status)? {
        Answer::Status(report) => Ok(*report),
        answer => Err(Failure::Failed(anyhow!("it answered {answer:?}"))),
    }
}

/// Whether this is a socket.
pub fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// The socket of this process, removed when it ends.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Listens. Only this user may connect.
    pub fn listen(path: &Path) -> Result<Control> {
        let listen = || -> Result<UnixListener> {
            if is_socket(path) {
                if UnixStream::connect(path).is_ok() {
                    bail!(
                        "another process listens there: stop it, or choose another path (--control; for a store --array-control)"
                    );
                }
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        let listener = listen().with_context(|| format!("control socket {}", path.display()))?;
        Ok(Control {
            listener,
            path: path.to_path_buf(),
        })
    }

    /// Answers until it is told to stop, or `stop` is called for by a connection without a line.
    pub fn serve(&self, array: &Arc<Array>, exports: &[String], is_over: impl Fn() -> bool) {
        for stream in self.listener.incoming() {
            if is_over() {
                return;
            }
            let Ok(stream) = stream else {
                continue;
            };
            match answer(stream, array, exports) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => eprintln!("control: {error:#}"),
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Nobody may hear of it any more.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers one client; whether the process is to end.
fn answer(mut stream: UnixStream, array: &Arc<Array>, exports: &[String]) -> Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.try_clone()?)
        .take(LONGEST)
        .read_line(&mut line)?;
    if line.is_empty() {
        return Ok(false);
    }
    let (answer, stop) = match serde_json::from_str::<Order>(&line) {
        Ok(order) => (obey(&order, array, exports), matches!(order, Order::Stop)),
        Err(error) => (
            Answer::Refused(format!("the order is not understood: {error}")),
            false,
        ),
    };
    stream.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes())?;
    Ok(stop)
}

fn obey(order: &Order, array: &Array, exports: &[String]) -> Answer {
    let done = match order {
        Order::Status => match array.status() {
            Some(status) => return Answer::Status(Box::new(Report::new(array, status, exports))),
            None => Err(anyhow!("the array has been stopped")),
        },
        Order::Fail { member } => array.fail(*member).map_err(Into::into),
        Order::Replace {
            member,
            device,
            overwrite,
        } => taken(device, *overwrite).and_then(|device| Ok(array.replace(*member, device)?)),
        Order::Spare { device, overwrite } => {
            taken(device, *overwrite).and_then(|device| Ok(array.add_spare(device)?))
        }
        Order::Scrub { stop: false } => array.scrub().map_err(Into::into),
        Order::Scrub { stop: true } => array.stop_scrub().map_err(Into::into),
        Order::Stop => Ok(()),
    };
    match done {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(format!("{error:#}")),
    }
}

/// A device that may be written over.
fn taken(path: &Path, overwrite: bool) -> Result<Arc<dyn seiner_raid::Member>> {
    let device = Arc::new(seiner_raid::Device::open(path)?);
    match devices::objection(&*device, overwrite, overwrite)? {
        Some(objection) => bail!(objection),
        None => Ok(device),
    }
}
