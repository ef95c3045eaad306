//! Ends of sessions.

use thiserror::Error;

/// Reason why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum End {
    /// The client disconnected.
    #[error("the client disconnected")]
    Disconnected,
    /// The client aborted the handshake.
    #[error("the client ended the handshake without an export")]
    Aborted,
    /// The bytes are not NBD.
    #[error(
        "a magic number is wrong: the client does not speak NBD, or message boundaries are lost"
    )]
    Magic,
    /// The client set unknown handshake flags.
    #[error("the client requests unknown flags {0:#x}")]
    Flags(u32),
    /// An option is longer than any client sends.
    #[error("an option of {0} bytes")]
    LongOption(u32),
    /// The client sent too many options.
    #[error("the client sent too many options without choosing an export")]
    ManyOptions,
    /// `EXPORT_NAME` with an unknown name. The protocol has no other way to reject it.
    #[error("there is no export \"{0}\"")]
    Unknown(String),
}
