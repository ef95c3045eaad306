//! Where clients come in: Unix sockets and TCP ports of this machine.

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

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Where a server listens: a path, which has a `/`, or an address and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// Why a server cannot listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Neither path nor address.
    #[error("{0} is no place to listen: give a path with a /, or an address like 127.0.0.1:10809")]
    Unreadable(String),
    /// Not this machine alone.
    #[error(
        "{0} can be reached from other machines, and NBD is neither encrypted nor protected: listen on 127.0.0.1 or \
         a Unix socket, and go through ssh"
    )]
    Open(SocketAddr),
    /// Another server is there.
    #[error("{0} is in use: another server listens there; stop it, or choose another path")]
    InUse(PathBuf),
    /// Something else has the name.
    #[error("{0} is there already and no socket: choose another path")]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// Where.
        address: Address,
        /// Why.
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
    /// What a client is given to reach an export here.
    pub fn uri(&self, export: &str) -> String {
        match self {
            Address::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Address::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

/// A socket that accepts.
pub(crate) struct Listener {
    pub socket: OwnedFd,
    pub address: Address,
    /// The inode of a Unix socket, which tells whether the name is still ours.
    inode: Option<u64>,
}

impl Listener {
    /// Listens; a port 0 becomes one that is free.
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

    /// Makes a connection's socket fit: answers are written as a whole, so nothing is gained by waiting for more.
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
            // It may be gone, or not ours to remove; the next server clears it away.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes what a server that was killed left behind.
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

/// A socket for this user alone: its rights are set before anybody can connect.
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
