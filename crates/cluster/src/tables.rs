//! Tables of a cluster that do not depend on its retention classes.

use crate::import::record;
use crate::rows::TableSpec;
use crate::{classes, deletes, journal, lease, names, ports, shelves};

/// Returns the tables that do not depend on classes.
pub(crate) fn base_tables() -> Vec<TableSpec> {
    let names = [
        journal::TABLE,
        lease::TABLE,
        names::TABLE,
        names::NUMBERS,
        shelves::TABLE,
        classes::TABLE,
        deletes::TABLE,
        record::TABLE,
        ports::TABLE,
    ];
    // Bundles are compressed, and no other rows are.
    let table = |name: &str| TableSpec::lasting(name).compressed();
    names.map(table).into()
}
