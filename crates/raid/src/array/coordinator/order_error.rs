//! Reasons to reject an order.

use thiserror::Error;

/// Reason why a running array rejected an order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// There is no member of this number.
    #[error("there is no member {0}: the array has members 0 to {1}")]
    NoMember(usize, usize),
    /// The member is already lost.
    #[error("member {0} is already lost: replace it")]
    Gone(usize),
    /// Data would be lost without the member.
    #[error(
        "without member {0} data would be lost: replace the missing members first, and wait for their rebuild"
    )]
    Needed(usize),
    /// The member is in use.
    #[error("member {0} is in use: take it out of use with `fail` before you replace it")]
    There(usize),
    /// The device is smaller than a member must be.
    #[error("{name} has {bytes} bytes, and a member needs {least}: choose a larger device")]
    Small {
        /// Name of the device.
        name: String,
        /// Size of the device in bytes.
        bytes: u64,
        /// Minimum size of a member in bytes.
        least: u64,
    },
    /// The device failed.
    #[error("{name}: {error}; choose another device")]
    System {
        /// Name of the device.
        name: String,
        /// Text of the error.
        error: String,
    },
    /// The task is already running.
    #[error("a scrub is already running: see the status")]
    Busy,
    /// The array is being stopped.
    #[error("the array is being stopped")]
    Stopping,
}
