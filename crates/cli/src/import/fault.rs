//! Rows and cells that cannot be stored.

/// A row or cell that cannot be read or stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Line number in the file, from 1.
    pub line: u64,
    /// Name of the column; empty for a whole row.
    pub column: String,
    pub reason: String,
    /// Original text.
    pub text: String,
}
