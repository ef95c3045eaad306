//! Cells of a row: limits, and conversion to the types of their fields.

use crate::error::Reason;
use crate::{MAX_FIELDS, MAX_TEXT_BYTES};
use seiner_model::{Cell, FieldType, Value};

/// Maximum bytes of all texts of a row.
const ROW_TEXT_LIMIT: usize = 1 << 20;

/// Checks the names of fields, and the lengths of texts, which take `texts` bytes together.
pub(super) fn check_cells(cells: &[Cell<'_>], texts: usize) -> Result<(), Reason> {
    if cells.is_empty() || cells.len() > MAX_FIELDS {
        return Err(Reason::Fields);
    }
    if texts > ROW_TEXT_LIMIT {
        return Err(Reason::TextTooLong(texts));
    }
    for cell in cells {
        if cell.field.is_empty()
            || cell.field.len() > 1024
            || std::str::from_utf8(cell.field).is_err()
        {
            return Err(Reason::FieldName);
        }
        if let Value::Str(text) = cell.value
            && text.len() > MAX_TEXT_BYTES
        {
            return Err(Reason::TextTooLong(text.len()));
        }
    }
    Ok(())
}

/// Returns a value in the type of its field, which is another one.
#[cold]
pub(super) fn converted<'a>(cell: &Cell<'a>, stored: FieldType) -> Result<Value<'a>, Reason> {
    let value = cell.value.in_type(stored);
    value.ok_or_else(|| Reason::FieldType {
        field: String::from_utf8_lossy(cell.field).into_owned(),
        stored,
        sent: cell.value.field_type(),
    })
}
