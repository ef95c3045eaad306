//! Types of values.

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Number.
    Scalar,
    /// Text.
    Text,
    /// One sample of each series.
    Vector,
    /// Several samples of each series.
    Range,
}

impl Kind {
    /// Returns the name of the type in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Scalar => "scalar",
            Kind::Text => "string",
            Kind::Vector => "instant vector",
            Kind::Range => "range vector",
        }
    }
}
