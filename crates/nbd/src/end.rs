//! Ends of sessions.

use thiserror::Error;

/// Reason why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum End {
    /// The client disconnected.
    #[error("the client disconnected")]
    Disconnected,
    /// The client aborted the handshake.
    #[error("the client wanted no export")]
    Aborted,
    /// The bytes are not NBD.
    #[error("the client does not speak NBD, or lost its place: a magic number is wrong")]
    Magic,
    /// The client set unknown handshake flags.
    #[error("the client wants flags {0:#x}, which are not known")]
    Flags(u32),
    /// An option is longer than any client sends.
    #[error("an option of {0} bytes")]
    LongOption(u32),
    /// The client sent too many options.
    #[error("a client that does not come to choose an export")]
    ManyOptions,
    /// `EXPORT_NAME` with an unknown name, which the protocol cannot refuse in another way.
    #[error("there is no export \"{0}\"")]
    Unknown(String),
}
