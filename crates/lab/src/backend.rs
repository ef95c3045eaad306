//! Methods of measurement.

use crate::guest::description;
use crate::native;
use serde::{Deserialize, Serialize};

/// Method of measurement of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// This kernel, on a directory, a loop device or a device.
    #[default]
    Native,
    /// Another kernel in an emulated machine.
    Guest,
    /// Requests counted on an emulated disk; seconds are computed.
    Model,
}

impl Backend {
    /// Returns true for [`Backend::Native`].
    pub fn is_native(&self) -> bool {
        *self == Backend::Native
    }

    /// Returns the factor by which a run takes longer than a native run, for estimates. Instructions
    /// of a guest are emulated one by one: copying files took 8 times as long on an idle machine,
    /// and 12 times as long on a busy one.
    pub fn pace(self) -> f64 {
        match self {
            Backend::Guest => 10.0,
            Backend::Native | Backend::Model => 1.0,
        }
    }

    /// Returns the reason why a file system is not available with this backend; `None` if it is.
    pub fn obstacle(self, kind: &str) -> Option<String> {
        match self {
            Backend::Guest => description::obstacle(kind),
            _ => native::obstacle(kind),
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Backend::Native => "native",
            Backend::Guest => "guest",
            Backend::Model => "model",
        })
    }
}
