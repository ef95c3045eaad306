//! Samples that become no row.

/// Cause that a sample becomes no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The value is NaN, which senders use for a missing value. It is ignored.
    NotANumber,
    /// The sample is invalid: reason and remedy.
    Rejected(String),
}

impl Skipped {
    /// Returns the rejection of an invalid sample.
    pub(crate) fn because(reason: impl Into<String>) -> Skipped {
        Skipped::Rejected(reason.into())
    }
}
