//! Control socket of a serving array: a request and its answer are one line of JSON each.

use super::devices;
use super::monitor::report;
use crate::failure::Failure;
use anyhow::{Context, Result, anyhow, bail};
use seiner_raid::Array;
use seiner_server::array::Report;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a request line in bytes.
const LONGEST: u64 = 1 << 16;
/// Time limit for reading from and writing to a client.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Request for the status.
    Status,
    /// Request to take a member out of use.
    Fail {
        /// Number of the member.
        member: usize,
    },
    /// Request to rebuild a lost member on a device.
    Replace {
        /// Number of the member.
        member: usize,
        /// Absolute path of the device.
        device: PathBuf,
        /// True if the data on the device may be lost.
        overwrite: bool,
    },
    /// Request to add a spare device for the next member that is lost.
    Spare {
        /// Absolute path of the device.
        device: PathBuf,
        /// True if the data on the device may be lost.
        overwrite: bool,
    },
    /// Request to start or stop a scrub.
    Scrub {
        /// True to stop the scrub instead of starting one.
        stop: bool,
    },
    /// Request to end the process.
    Stop,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The request was carried out.
    Done,
    /// Status of the array.
    Status(Box<Report>),
    /// The request was not carried out, for this reason.
    #[serde(rename = "refused", alias = "rejected")]
    Rejected(String),
}

/// Sends a request to a serving array and returns the answer.
pub fn ask(socket: &Path, order: &Order) -> Result<Answer, Failure> {
    let request = || -> Result<Answer> {
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
    match request().with_context(context)? {
        Answer::Rejected(reason) => Err(Failure::Failed(anyhow!(reason))),
        answer => Ok(answer),
    }
}

/// Requests the status of a serving array.
pub fn status(socket: &Path) -> Result<Report, Failure> {
    match ask(socket, &Order::Status)? {
        Answer::Status(report) => Ok(*report),
        answer => Err(Failure::Failed(anyhow!("it answered {answer:?}"))),
    }
}

/// Returns true if a path is a socket.
pub fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Control socket of this process. It is removed at the end.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Creates the socket and listens. Only the same user may connect.
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

    /// Answers requests until one orders the end of the process, or until `is_over` returns true after a
    /// connection.
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
        // A failure to remove the socket cannot be reported to anyone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers one client. Returns true if the process must end.
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
            Answer::Rejected(format!("the order is not understood: {error}")),
            false,
        ),
    };
    stream.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes())?;
    Ok(stop)
}

fn obey(order: &Order, array: &Array, exports: &[String]) -> Answer {
    let done = match order {
        Order::Status => match array.status() {
            Some(status) => return Answer::Status(Box::new(report(array, status, exports))),
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
        Err(error) => Answer::Rejected(format!("{error:#}")),
    }
}

/// Opens a device that may be overwritten.
fn taken(path: &Path, overwrite: bool) -> Result<Arc<dyn seiner_raid::Member>> {
    let device = Arc::new(seiner_raid::Device::open(path)?);
    match devices::objection(&*device, overwrite, overwrite)? {
        Some(objection) => bail!(objection),
        None => Ok(device),
    }
}
