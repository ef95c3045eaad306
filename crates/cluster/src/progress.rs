//! Progress of an import or export.

/// Event of an import or export.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Samples were moved.
    Moved {
        /// Share of the times that are finished, 0 to 1.
        share: f64,
        /// Samples so far, those of earlier attempts included.
        samples: u64,
    },
    /// A part of the samples cannot be read, and was left out.
    Damaged(String),
}

/// Function that receives the events.
pub type Watch<'a> = dyn FnMut(Progress) + 'a;

/// Returns the share of an interval that is before a time.
pub(crate) fn share(of: seiner_model::Interval, before: i64) -> f64 {
    let length = (of.end as f64 - of.start as f64).max(1.0);
    ((before as f64 - of.start as f64) / length).clamp(0.0, 1.0)
}
