//! Offers of a server, and its limits.

use crate::blockwise::Blockwise;
use crate::export::{Command, Completion, Export, ExportShape};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum bytes of an export's name and description.
const LONGEST_NAME: usize = 4096;

/// Limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections; further ones are closed at once.
    pub connections: usize,
    /// Maximum unanswered requests of a connection. Further requests wait in the socket.
    pub requests: usize,
    /// Maximum bytes of a connection's unanswered reads and writes and unwritten answers. One request may exceed it.
    pub bytes: usize,
    /// Maximum time for a client to choose an export.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            requests: 1024,
            bytes: 64 << 20,
            handshake: Duration::from_secs(10),
        }
    }
}

/// An export with its name and description.
pub struct Offer {
    pub(crate) name: String,
    pub(crate) description: String,
    export: Arc<Blockwise>,
}

impl Offer {
    /// Creates an offer.
    ///
    /// # Panics
    /// If the name or the description has more than 4,096 bytes, or the export's shape breaks a rule of
    /// [`ExportShape`].
    pub fn new(name: &str, description: &str, export: Arc<dyn Export>) -> Arc<Offer> {
        let shape = export.shape();
        assert!(
            name.len().max(description.len()) <= LONGEST_NAME,
            "names and descriptions have at most {LONGEST_NAME} bytes"
        );
        assert!(
            shape.block.is_power_of_two()
                && shape.block <= 64 << 10
                && shape.bytes.is_multiple_of(u64::from(shape.block)),
            "a size in blocks of a power of two: {shape:?}"
        );
        assert!(
            shape.preferred.is_power_of_two() && (512..=32 << 20).contains(&shape.preferred),
            "preferred sizes lie between 512 bytes and 32 MiB: {shape:?}"
        );
        Arc::new(Offer {
            name: name.into(),
            description: description.into(),
            export: Blockwise::new(export),
        })
    }

    pub(crate) fn shape(&self) -> &ExportShape {
        self.export.shape()
    }

    pub(crate) fn submit(&self, command: Command<'_>, completion: Completion) {
        self.export.submit(command, completion);
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({:?})", self.name, self.shape())
    }
}
