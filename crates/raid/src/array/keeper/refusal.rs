//! Why something that was asked of a running array was not done.

use thiserror::Error;

/// Why something that was asked of a running array was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such member.
    #[error("there is no member {0}: the array has members 0 to {1}")]
    NoMember(usize, usize),
    /// The member is gone already.
    #[error("member {0} is gone already: replace it")]
    Gone(usize),
    /// Without it data would be lost.
    #[error(
        "without member {0} data would be lost: replace what is missing first, and wait until it is filled"
    )]
    Needed(usize),
    /// The member is there.
    #[error("member {0} is there: let it fail first, if it is to be replaced")]
    There(usize),
    /// The device has less room than the members.
    #[error("{name} has {bytes} bytes, and a member needs {least}: choose a larger device")]
    Small {
        /// The device.
        name: String,
        /// Its size.
        bytes: u64,
        /// What a member needs.
        least: u64,
    },
    /// The device failed.
    #[error("{name}: {error}; choose another device")]
    System {
        /// The device.
        name: String,
        /// How.
        error: String,
    },
    /// It is being done.
    #[error("that is being done already: see the status")]
    Busy,
    /// The array is being stopped.
    #[error("the array is being stopped")]
    Stopping,
}
