//! Forecast of the data that a store would lose under other rules, as plain values.

use seiner_model::rfc3339;
use std::fmt;

/// Forecast of the data that a store would drop at once under new rules, and the differences that cause it.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// Differences between the stored rules and the new ones.
    pub changes: Vec<Change>,
    /// Data that would be dropped, by the class under the stored rules.
    pub classes: Vec<ClassOutlook>,
    /// Bytes that the store occupies, and the smaller budget of the new rules.
    pub over_budget: Option<(u64, u64)>,
}

/// Data of one class that would be dropped at once.
#[derive(Clone, Debug, Default)]
pub struct ClassOutlook {
    /// Name of the class under the stored rules.
    pub class: String,
    /// Rows in blocks that would be dropped as a whole.
    pub rows: u64,
    /// Rows in blocks that would be dropped in part.
    pub partly: u64,
    /// Bytes of the blocks that would be dropped as a whole.
    pub bytes: u64,
    /// Earliest time in these blocks, ns.
    pub first: i64,
    /// Latest time in these blocks, ns.
    pub last: i64,
}

impl Outlook {
    /// Returns this forecast with other differences.
    pub fn with(self, changes: Vec<Change>) -> Outlook {
        Outlook { changes, ..self }
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "these rules expire data sooner than the rules stored with the data:"
        )?;
        for change in &self.changes {
            writeln!(f, "  {change}")?;
        }
        writeln!(f, "at once they would drop:")?;
        for class in &self.classes {
            write!(f, "  of class {:?}: {} rows", class.class, class.rows)?;
            if class.rows > 0 {
                let (first, last) = (rfc3339(class.first), rfc3339(class.last));
                write!(f, " from {first} to {last} ({} bytes)", class.bytes)?;
            }
            if class.partly > 0 {
                write!(f, ", and a part of {} rows more", class.partly)?;
            }
            writeln!(f)?;
        }
        if let Some((used, budget)) = self.over_budget {
            let more = used - budget;
            writeln!(
                f,
                "  the oldest samples that may be shed: {used} bytes are used, {more} more than {budget}"
            )?;
        }
        if self.classes.is_empty() && self.over_budget.is_none() {
            writeln!(f, "  nothing")?;
        }
        write!(
            f,
            "nothing was changed; leave these settings out to keep the stored rules, or confirm the new ones with \
             --apply-retention (in Python: apply_retention=True)"
        )
    }
}

/// Difference that drops data of a class sooner, now or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the class under the stored rules; empty for all classes.
    pub class: String,
    /// Description of the difference.
    pub why: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class.as_str() {
            "" => f.write_str(&self.why),
            class => write!(f, "class {class:?}: {}", self.why),
        }
    }
}
