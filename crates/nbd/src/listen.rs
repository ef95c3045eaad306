//! Listening sockets: Unix sockets and TCP ports of this machine.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 64;

/// Address to listen on: a path (it contains a `/`), or an IP address and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// IP address and TCP port.
    Tcp(SocketAddr),
}

/// Error: the server cannot listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The text is neither a path nor an address.
    #[error(
        "{0} is not an address to listen on: give a path with a /, or an address such as 127.0.0.1:10809"
    )]
    Unreadable(String),
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines, and NBD is neither encrypted nor protected: listen on 127.0.0.1 or \
         a Unix socket, and go through ssh"
    )]
    Open(SocketAddr),
    /// Another server listens on the path.
    #[error("{0} is in use: another server listens there; stop it, or choose another path")]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{0} exists and is not a socket: choose another path")]
    NoSocket(PathBuf),
    /// The operating system returned an error.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// Address that was requested.
        address: Address,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl FromStr for Address {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Address, ListenError> {
        if text.contains('/') {
            return Ok(Address::Unix(text.into()));
        }
        let address = text.parse();
        address.map_or_else(
            |_| Err(ListenError::Unreadable(text.into())),
            |address| Ok(Address::Tcp(address)),
        )
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(formatter, "{}", path.display()),
            Address::Tcp(address) => write!(formatter, "{address}"),
        }
    }
}

impl Address {
    /// Returns the URI under which a client reaches an export at this address.
    pub fn uri(&self, export: &str) -> String {
        match self {
            Address::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Address::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

/// A listening socket.
pub(crate) struct Listener {
    pub socket: OwnedFd,
    pub address: Address,
    /// Inode of a Unix socket, by which the listener recognises its own file.
    inode: Option<u64>,
}

impl Listener {
    /// Listens on an address; port 0 is replaced by a free port.
    pub fn new(address: &Address) -> Result<Listener, ListenError> {
        let failed = |error| ListenError::System {
            address: address.clone(),
            error,
        };
        match address {
            Address::Unix(path) => {
                clear(path)?;
                let (socket, inode) = unix(path).map_err(failed)?;
                Ok(Listener {
                    socket,
                    address: address.clone(),
                    inode: Some(inode),
                })
            }
            Address::Tcp(tcp) if !tcp.ip().is_loopback() => Err(ListenError::Open(*tcp)),
            Address::Tcp(tcp) => {
                let listener = TcpListener::bind(tcp).map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                Ok(Listener {
                    socket: listener.into(),
                    address: Address::Tcp(bound),
                    inode: None,
                })
            }
        }
    }

    /// Sets the options of an accepted socket. `TCP_NODELAY` is on because each answer is written whole.
    pub fn prepare(&self, socket: &OwnedFd) -> io::Result<()> {
        match self.address {
            Address::Tcp(_) => Ok(sockopt::set_tcp_nodelay(socket, true)?),
            Address::Unix(_) => Ok(()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Address::Unix(path) = &self.address else {
            return;
        };
        if fs::symlink_metadata(path).ok().map(|found| found.ino()) == self.inode {
            // The file may be gone or not removable; the next server removes it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the socket file of a killed server.
fn clear(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(ListenError::NoSocket(path.into())),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let removed = fs::remove_file(path);
                removed.map_err(|error| ListenError::System {
                    address: Address::Unix(path.into()),
                    error,
                })
            }
            _ => Err(ListenError::InUse(path.into())),
        },
        Err(_) => Ok(()),
    }
}

/// Creates a socket for this user alone; the mode is set before anyone can connect.
fn unix(path: &Path) -> io::Result<(OwnedFd, u64)> {
    let address = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => io::Error::other("the path of a Unix socket has at most 107 bytes"),
        error => error.into(),
    })?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &address)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    let inode = fs::symlink_metadata(path)?.ino();
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((socket, inode))
}
