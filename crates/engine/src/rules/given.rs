//! Names of the rules, and the set of rules that a caller gives.

/// Rule of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// [`crate::Options::classes`].
    Classes,
    /// [`crate::Options::disk`].
    Disk,
    /// [`crate::Options::leave_free`].
    LeaveFree,
    /// [`crate::Options::merge_from`].
    MergeFrom,
    /// [`crate::Options::policy`].
    Policy,
    /// [`crate::Options::extra_writes`].
    ExtraWrites,
    /// [`crate::Options::lanes`].
    Lanes,
    /// [`crate::Options::block_bytes`].
    BlockBytes,
    /// [`crate::Options::segment_bytes`].
    SegmentBytes,
    /// [`crate::Options::journal_bytes`]. The budget includes the journal.
    JournalBytes,
}

impl Rule {
    /// All rules, in the order of the file.
    pub const ALL: [Rule; 10] = [
        Rule::Disk,
        Rule::LeaveFree,
        Rule::MergeFrom,
        Rule::Policy,
        Rule::ExtraWrites,
        Rule::Lanes,
        Rule::BlockBytes,
        Rule::SegmentBytes,
        Rule::JournalBytes,
        Rule::Classes,
    ];

    /// Returns the name of the setting, such as `block_bytes`.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Classes => "class",
            Rule::Disk => "disk",
            Rule::LeaveFree => "leave_free",
            Rule::MergeFrom => "merge_from",
            Rule::Policy => "policy",
            Rule::ExtraWrites => "extra_writes",
            Rule::Lanes => "lanes",
            Rule::BlockBytes => "block_bytes",
            Rule::SegmentBytes => "segment_bytes",
            Rule::JournalBytes => "journal_bytes",
        }
    }
}

/// Rules that a caller gives. They replace the stored rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Given {
    /// Rules that differ from the defaults.
    #[default]
    Changed,
    /// All rules, including those with their default.
    All,
    /// The rules in this set. [`Given::these`] creates it.
    These(u16),
}

impl Given {
    /// Returns an empty set: the stored rules apply.
    pub const NONE: Given = Given::These(0);

    /// Returns the set of these rules.
    pub fn these(rules: impl IntoIterator<Item = Rule>) -> Given {
        Given::These(
            rules
                .into_iter()
                .fold(0, |bits, rule| bits | 1 << rule as u16),
        )
    }
}
